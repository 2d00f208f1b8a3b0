"""What `pip install` brings is whole: from another folder, without a checkout, every command does what it does in one.
"""

from __future__ import annotations

import email
import email.policy
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from clnet.workbench.evidence import golden
from clnet.workbench.status import tables as status_tables
from clnet.workbench.status.row import Row, from_dicts

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("op", "layer", "loss", "optimizer")
HOLDS = ["clnet/*.py", "clnet/py.typed", "cl_kernels/*.cl", "cl_kernels/*.h", "cl_kernels/*.py", "cl_kernels/README.md",
         "cl_kernels/tuning/*.json", "clnet/workbench/*.html", "clnet/workbench/pages/*",
         "clnet/workbench/evidence/catalog.json", "clnet/workbench/evidence/golden/*.npz",
         "clnet/kernels/defaults.json", "clnet/notebooks/??_*.ipynb", "clnet-*.dist-info/*"]
# Rows of each kind, measured where nothing but the wheel is.
MEASURE = """
import json, sys, clnet
from clnet.workbench.evidence import golden, registry
from clnet.workbench.status import row, run as status
found = [registry.find(name) for name in ("relu", "Dense", "MSELoss", "Adam")]
rows = row.as_dicts(status.run(subjects=found, progress=False))
print(json.dumps({"file": clnet.__file__, "rows": rows, "kept": {kind: golden.names(kind) for kind in sys.argv[1:]}}))
"""


class Installed:
    """The wheel in an environment of its own, which sees the dependencies of this one but not the checkout; commands
    run in an empty folder.
    """

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.home, self.bin = folder / "home", folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        self.home.mkdir()
        self.env = {k: v for k, v in os.environ.items()
                    if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_CURRENT_TEST")}
        data = Path(sys.prefix) / "share" / "jupyter"
        self.env |= {"JUPYTER_PATH": str(data), "JUPYTERLAB_DIR": str(data / "lab"), "COLUMNS": "100"}
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True, env=self.env)
        self.python("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", wheel)
        # Folders named in a .pth file are searched, their own .pth files are not read: an editable install of the
        # checkout stays unseen.
        seen = [p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")]
        self.packages = Path(self.python("-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip())
        (self.packages / "dependencies.pth").write_text("\n".join(seen) + "\n")

    def python(self, *args: Any) -> str:
        return self._run(self.bin / "python", *args)

    def clnet(self, *args: Any) -> str:
        """Standard output of a command, which must succeed."""
        return self._run(self.bin / "clnet", *args)

    def _run(self, *command: Any) -> str:
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, encoding="utf-8", cwd=self.home,
                              env=self.env, timeout=600)
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], check=True, cwd=ROOT,
                   capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("away"), wheel)


def test_the_wheel_holds_what_is_used_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    assert not [n for n in names if not any(fnmatch(n, pattern) for pattern in HOLDS)]
    assert {"clnet/workbench/evidence/catalog.json", "cl_kernels/matmul.cl", "cl_kernels/include/vector.h",
            "cl_kernels/tuning/intel-cpu-16.json"} <= names
    assert {f"clnet/notebooks/{p.name}" for p in (ROOT / "notebooks").glob("*.ipynb")} <= names
    assert {f"clnet/workbench/evidence/golden/{kind}/{name}.npz" for kind in KINDS
            for name in golden.names(kind)} <= names
    assert {p.relative_to(ROOT).as_posix() for folder in ("clnet", "cl_kernels") for p in (ROOT / folder).rglob("*.*")
            if p.suffix != ".pyc"} <= names
    assert wheel.stat().st_size < 8_000_000


def test_the_description_leads_nowhere_that_an_index_of_packages_has_not(wheel: Path) -> None:
    """Links into the checkout are words and the name of a file, pictures of it are left out; the README is whole else.
    """
    with zipfile.ZipFile(wheel) as file:
        (name,) = (n for n in file.namelist() if n.endswith("dist-info/METADATA"))
        metadata = email.message_from_bytes(file.read(name), policy=email.policy.default)
    text, readme = metadata.get_payload(), (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert re.findall(r"\]\((?!https?:|#)\S*", text) == [] and "](docs/" in readme
    assert "layers (`status/layers.md`)" in text and "notebooks/08_your_data.ipynb takes each" in text
    assert [line for line in readme.split("\n") if line.startswith("#")] == re.findall(r"^#.*", text, re.MULTILINE)


@pytest.mark.timeout(900)
def test_commands_away_from_a_checkout(installed: Installed) -> None:
    assert "chosen:" in installed.clnet("devices")
    assert json.loads(installed.clnet("schema", "Dense"))["title"] == "clnet Dense"
    assert "test accuracy" in installed.clnet("train", "digits", "--epochs", "1")
    installed.clnet("parity", "Dense", "--html")
    (page,) = (installed.home / "reports").glob("*.html")
    assert "no divergence" in page.read_text(encoding="utf-8")
    installed.clnet("status", "--only", "MSELoss")
    assert "0 claims do not hold" in installed.clnet("status", "--only", "MSELoss", "--check", "--quick")
    for row in status_tables.read(installed.home / "status"):
        assert sound(row) and row.name == "MSELoss", row
    measured = json.loads(installed.python("-c", MEASURE, *KINDS))
    assert Path(measured["file"]).is_relative_to(installed.packages), "the checkout is seen"
    assert measured["kept"] == {kind: golden.names(kind) for kind in KINDS}
    names = [r.name for r in from_dicts(measured["rows"]) if sound(r)]
    assert names == ["relu", "Dense", "Dense", "MSELoss", "Adam"], measured["rows"]
    notebooks_of_a_read_only_package(installed)


def sound(row: Row) -> bool:
    return row.green and row.parity == "yes" and not row.note


def notebooks_of_a_read_only_package(installed: Installed) -> None:
    shipped = installed.packages / "clnet" / "notebooks"
    for path in [*shipped.iterdir(), shipped]:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        with lab(installed) as (address, token):
            wanted = sorted(p.name for p in shipped.glob("*.ipynb"))
            listed = json.loads(fetch(f"{address}/api/contents?token={token}"))["content"]
            assert sorted(e["name"] for e in listed) == wanted and all(e["writable"] for e in listed)
            assert b"jupyter-config-data" in fetch(f"{address}/lab?token={token}")
    finally:
        shipped.chmod(0o755)
    copies = [*(installed.home / "clnet-notebooks").glob("*.ipynb")]
    assert len(copies) == len(wanted)
    assert all(p.stat().st_mode & 0o200 for p in copies), "copies of read-only files can be saved"


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read()


@contextmanager
def lab(installed: Installed) -> Iterator[tuple[str, str]]:
    """(address, token) of `clnet lab`, once it answers; ended with all that it started."""
    log = installed.home / "lab.log"
    with log.open("wb") as file:
        server = subprocess.Popen([installed.bin / "clnet", "lab", "--no-browser"], cwd=installed.home,
                                  env=installed.env, stdout=file, stderr=file, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while True:
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            if found := re.search(r"(http://127\.0\.0\.1:\d+)/lab\?token=(\S+)", log.read_text()):
                try:
                    fetch(f"{found[1]}/api?token={found[2]}")
                    break
                except OSError:
                    pass
            time.sleep(0.2)
        yield found[1], found[2]
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_report_away_from_a_checkout(installed: Installed) -> None:
    """Every layer, loss and optimizer is as green as in the committed tables: nothing is missing but the checkout."""
    installed.clnet("report", "--quick", "--folder", "mine")
    (page,) = (installed.home / "mine" / "runs").glob("*.html")
    assert page.stat().st_size > 100_000 and page.name in (installed.home / "mine" / "index.html").read_text("utf-8")
    text = (installed.home / "mine" / "status.md").read_text(encoding="utf-8")
    assert "no independent values" not in text
    counts = re.findall(r"(\d+) there, (\d+) of them green", text)
    # all, and each kind
    assert len(counts) == 4 and all(there == good and int(there) > 20 for there, good in counts), counts
