"""Notebooks are kept with their outputs, so that they can be read where nothing runs them.

    python -m clnet.workbench.notebooks [FILE.ipynb ...]       runs them and keeps what they show
                                                               (default: notebooks/*.ipynb)

A value of the cell tagged `parameters` can be given from outside, as Papermill does it: see `run`, and `clnet report`.

Each runs front to back in a kernel of its own, in an empty folder. What is kept carries neither times of cells nor the
state of widgets, and a hash of the sources, by which `stale` knows without running anything that the outputs are not
theirs any more. Nothing is written of a notebook that fails, warns, names a folder of this machine or needs an emoji
font.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..errors import ClnetError, DataError
from ..show import duration, size

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOLDER = Path("notebooks")
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
          "language_info": {"name": "python"}}
WIDGET = "application/vnd.jupyter.widget-view+json"
TAG = "parameters"  # of the cell whose values can be given
PATIENCE = 600  # [s] for a cell
LARGEST = 700_000  # [bytes] of a notebook: they are part of the repository and of the package
PLACES = re.compile(r"(?<![\w.])(/(home|root|Users|tmp|var|opt|mnt|work)/|[A-Z]:\\\\?\w)|site-packages")
EMOJI = re.compile("[\u2600-\u26ff\u2705\u274c\u274e\u2753-\u2757\u2795-\u2797\u2b50\ufe0f\U0001f000-\U0001faff]")


def fingerprint(notebook: NotebookNode) -> str:
    """A hash of the cells' kinds and sources."""
    text = "\0".join(f"{cell.cell_type}\0{cell.source}" for cell in notebook.cells)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stale(notebook: NotebookNode) -> bool:
    """Whether the outputs are of other sources, or of none."""
    return bool(notebook.metadata.get("clnet", {}).get("sources") != fingerprint(notebook))


def executed(path: Path) -> Any:
    """The notebook with the outputs of a run, cleaned. DataError with the cell that fails."""
    notebook, wrong = run(path)
    if wrong:
        raise DataError(f"{path.name}: expected cells that run; got {wrong}")
    return notebook


def run(path: Path, values: Mapping[str, Any] = MappingProxyType({}), device: str = "") -> tuple[Any, str]:
    """(the notebook as a run left it, cleaned; "" or the error that ended it, and its cell).

    values  for the names that its cell tagged `parameters` assigns; those that it does not know are left out
    device  that its kernel finds, as CLNET_DEVICE; "": the one that it would find by itself
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    notebook, wrong = nbformat.read(path, as_version=4), ""
    _give(notebook, values)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3", record_timing=False,
                                store_widget_state=False, resources={"metadata": {"path": folder}},
                                extra_arguments=["--log-level=ERROR"])  # of how the kernel is reached nobody asked
        try:
            client.execute(env=os.environ | ({"CLNET_DEVICE": device} if device else {}))
        except CellExecutionError as error:
            last = [cell.source for cell in notebook.cells if cell.get("execution_count")][-1]
            wrong = f"{error.ename}: {error.evalue} in: {last}"
        except CellTimeoutError:
            wrong = f"a cell that took longer than {duration(PATIENCE)}"
    return cleaned(notebook), wrong


def parameters(notebook: NotebookNode) -> dict[str, Any]:
    """The names that its cell tagged `parameters` assigns, with the values that they have there, where those are
    literals.
    """
    found: dict[str, Any] = {}
    for statement in (s for cell in notebook.cells if TAG in cell.metadata.get("tags", ()) and cell.cell_type == "code"
                      for s in ast.parse(cell.source).body if isinstance(s, ast.Assign)):
        with contextlib.suppress(ValueError):
            found |= {t.id: ast.literal_eval(statement.value) for t in statement.targets if isinstance(t, ast.Name)}
    return found


def _give(notebook: NotebookNode, values: Mapping[str, Any]) -> None:
    """Puts a cell that assigns the values behind that of the parameters."""
    import nbformat

    given = {name: value for name, value in values.items() if name in parameters(notebook)}
    if given:
        at = next(k for k, cell in enumerate(notebook.cells) if TAG in cell.metadata.get("tags", ()))
        source = "\n".join(f"{name} = {value!r}" for name, value in given.items())
        notebook.cells.insert(at + 1, nbformat.v4.new_code_cell(source, metadata={"tags": [f"injected-{TAG}"]}))


def cleaned(notebook: NotebookNode) -> Any:
    """The notebook (changed) without what a run leaves beside outputs:
    progress by widgets, times of cells, versions of the kernel. What a widget says as HTML beside itself stays.
    """
    notebook.metadata = type(notebook.metadata)({**KERNEL, "clnet": {"sources": fingerprint(notebook)}})
    for cell in notebook.cells:
        cell.metadata = type(cell.metadata)({k: v for k, v in cell.metadata.items() if k == "tags"})
        if cell.cell_type == "code":
            for output in cell.outputs:
                if "text/html" in output.get("data", {}):
                    output.data.pop(WIDGET, None)
            cell.outputs = [o for o in cell.outputs if WIDGET not in o.get("data", {})]
    return notebook


def problems(notebook: NotebookNode) -> list[str]:
    """What keeps the notebook from being shown as it is: each by the number of its code cell and what is wrong."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    found = [f"cell {k}: {what}" for k, cell in enumerate(cells, 1) for what in _of_cell(cell, k)]
    if not any("image/png" in o.get("data", {}) for cell in cells[:2] for o in cell.outputs):
        found.append("no picture in the first two cells")
    return found + (["the outputs are not of these sources"] if stale(notebook) else [])


def _of_cell(cell: NotebookNode, number: int) -> Iterator[str]:
    if cell.execution_count != number:
        yield f"was run as number {cell.execution_count}"
    for output in cell.outputs:
        if output.output_type == "error":
            yield f"{output.ename}: {output.evalue}"
        if output.get("name") == "stderr":
            yield f"standard error: {output.text.strip()[:200]}"
        if WIDGET in output.get("data", {}):
            yield "the state of a widget"
        for text in _texts(output):
            if place := PLACES.search(text):
                yield f"a path of a machine: {text[place.start() :][:60]!r}"
            if mark := EMOJI.search(text):
                yield f"{mark[0]!r}, which needs an emoji font"


def _texts(output: NotebookNode) -> list[str]:
    """What can be read in an output."""
    shown = {"text/plain": output.get("text", ""), **output.get("data", {})}
    return [v if isinstance(v, str) else "".join(v) for kind, v in shown.items() if kind.startswith("text/")]


def keep(path: Path) -> str:
    """Runs a notebook and writes it with its outputs;
    what was done, in words. DataError where the outputs cannot be shown.
    """
    import nbformat

    wall, cpu = time.perf_counter(), _processor()
    notebook = executed(path)
    if wrong := problems(notebook):
        raise DataError(f"{path.name}: expected outputs to keep; got {'; '.join(wrong)}; the file is as it was.")
    text = nbformat.writes(notebook) + "\n"
    if len(text) > LARGEST:
        raise DataError(
            f"{path.name}: expected at most {size(LARGEST)}; got {size(len(text))}; draw less, or smaller; "
            "the file is as it was.")
    path.write_text(text, encoding="utf-8")
    return (f"{path.name}: {duration(time.perf_counter() - wall)}, {duration(_processor() - cpu)} of processor time, "
            f"{size(len(text))}")


def _processor() -> float:
    """[s] used by the processes that ended here; nan where the system does not say."""
    times = os.times()
    return times.children_user + times.children_system if os.name == "posix" else float("nan")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the notebooks named, or all; exit status 1 at the first that cannot be kept."""
    parser = argparse.ArgumentParser(prog="python -m clnet.workbench.notebooks",
                                     description="Run notebooks and keep them with their outputs.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.ipynb", help=f"default: {FOLDER}/*.ipynb")
    files = parser.parse_args(arguments).files or sorted(FOLDER.glob("*.ipynb"))
    try:
        if not files:
            raise DataError(
                f"notebooks: expected *.ipynb in {FOLDER}/; got none; run this in a checkout, or name the files.")
        for path in files:
            print(keep(path), flush=True)
    except (ClnetError, FileNotFoundError) as error:
        print(f"notebooks: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
