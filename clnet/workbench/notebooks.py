"""Notebooks are kept with their outputs, so that they can be read where nothing runs them.

    python -m clnet.workbench.notebooks [FILE.ipynb ...]       runs them and keeps what they show
                                                               (default: notebooks/*.ipynb)

Each runs front to back in a kernel of its own, in an empty folder. What is kept carries neither times of cells nor the
state of widgets, and a hash of the sources, by which `stale` knows without running anything that the outputs are not
theirs any more. Nothing is written of a notebook that fails, warns, names a folder of this machine or needs an emoji
font.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ClnetError, DataError
from ..show import duration, size

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOLDER = Path("notebooks")
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
          "language_info": {"name": "python"}}
WIDGET = "application/vnd.jupyter.widget-view+json"
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
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False,
                                store_widget_state=False, resources={"metadata": {"path": folder}})
        try:
            client.execute()
        except CellExecutionError as error:
            last = [cell.source for cell in notebook.cells if cell.get("execution_count")][-1]
            raise DataError(
                f"{path.name}: expected cells that run; got {error.ename}: {error.evalue} in: {last}") from None
    return cleaned(notebook)


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
