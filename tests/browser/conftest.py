"""JupyterLab as `clnet lab` starts it, in a headless Chromium; skipped where there is no such browser.

    apt-get install chromium; pip install -e '.[browser]'

Nothing leaves this machine: requests to anywhere else fail, and the test with them. What was seen is kept as pictures
in build/browser.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from clnet.workbench import lab as command
from clnet.workbench import notebooks

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build" / "browser"
FOUND = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-extensions", "--no-first-run"]
WAIT = 90_000  # [ms] for anything, on a busy machine
SETTINGS = {  # no news over the page, and cells out of view are there, too
    "apputils-extension/notification": '{"fetchNews":"false","checkForUpdates":false,"doNotDisturbMode":true}',
    "notebook-extension/tracker": '{"windowingMode":"none"}'}
OPENED = """async (path) => {
    const app = window.jupyterapp;
    await app.restored;
    let panel;
    while (!(panel = [...app.shell.widgets('main')].find(w => w.context && w.context.path === path)))
        await new Promise(r => setTimeout(r, 50));
    await panel.context.ready;
    await panel.context.sessionContext.ready;
    await panel.context.sessionContext.session.kernel.info;
    app.shell.activateById(panel.id);
    while (app.shell.currentWidget !== panel) await new Promise(r => setTimeout(r, 50));
    app.shell.collapseLeft();
}"""
RUN = """async (k) => {
    const app = window.jupyterapp;
    app.shell.currentWidget.content.activeCellIndex = k;
    await app.commands.execute('notebook:run-cell');
}"""
SHUTDOWN = "async () => { await window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown() }"
# What reaches over the right edge of an output, other than in a box that scrolls. Tables and pictures may be wider
# where the output itself scrolls; widgets may not.
WIDER = """() => [...document.querySelectorAll('.jp-OutputArea-output')].flatMap(output => {
    const edge = output.getBoundingClientRect().left + output.clientWidth + 1;
    const scrolls = e => ['auto', 'scroll', 'hidden'].includes(getComputedStyle(e).overflowX);
    const inBox = e => { while ((e = e.parentElement) !== output) if (scrolls(e)) return true; return false; };
    return [...output.querySelectorAll(scrolls(output) ? '.jupyter-widgets *' : '*')]
        .filter(e => !e.closest('svg, select, pre') && e.getBoundingClientRect().right > edge && !inBox(e))
        .map(e => `${e.tagName}.${e.className}: ${e.getBoundingClientRect().right - edge} too far`);
})"""
TALL = "() => document.querySelector('.jp-WindowedPanel-outer').scrollHeight + 150"


class Lab:
    """A server with settings, a token and a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.token = folder / "notebooks", folder / "home", secrets.token_hex(16)
        self.folder.mkdir()
        for name, text in SETTINGS.items():
            path = self.home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.port = command.free_port("127.0.0.1")
        places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "run", "JUPYTERLAB_SETTINGS_DIR": "settings",
                  "JUPYTERLAB_WORKSPACES_DIR": "spaces", "IPYTHONDIR": "ipython"}
        self.environment = os.environ | {k: str(self.home / v) for k, v in places.items()} | {
            "JUPYTER_TOKEN": self.token, "PYTHONPATH": str(ROOT)}
        self.log = (self.home / "log").open("w")
        self.server = subprocess.Popen(
            [*command.arguments("127.0.0.1", self.port, self.folder, browser=False),
             "--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"],
            env=self.environment, stdout=self.log, stderr=subprocess.STDOUT)
        self._await()

    def _await(self) -> None:
        end = time.monotonic() + WAIT / 1000
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api?token={self.token}", timeout=5).close()
                return
            except OSError:
                assert self.server.poll() is None and time.monotonic() < end, Path(self.log.name).read_text()[-2000:]
                time.sleep(0.1)

    def close(self) -> None:
        self.server.terminate()
        try:
            self.server.wait(30)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        self.log.close()


class Notebook:
    """A notebook that is open in the browser, its kernel ready."""

    def __init__(self, lab: Lab, page: Any, path: Path) -> None:
        self.page, self.path, self.elsewhere = page, path, list[str]()
        page.set_default_timeout(WAIT)
        page.route("**/*", self._only_here)
        address = f"http://127.0.0.1:{lab.port}/lab/workspaces/{path.stem}/tree/{path.name}?reset&token={lab.token}"
        page.goto(address, wait_until="domcontentloaded")
        page.wait_for_function("() => window.jupyterapp")
        page.evaluate(OPENED, path.name)

    def _only_here(self, route: Any) -> None:
        if route.request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            route.continue_()
        else:
            self.elsewhere.append(route.request.url)
            route.abort()

    def run_all(self) -> None:
        """Starts all cells; `ended` waits for them."""
        self.page.evaluate("() => { window.ran = window.jupyterapp.commands.execute('notebook:run-all-cells') }")

    def ended(self) -> None:
        self.page.evaluate("async () => { await window.ran }")

    def run(self, cell: int) -> None:
        """Runs a cell, and waits for its end."""
        self.page.evaluate(RUN, cell)

    def cell(self, number: int) -> Any:
        """Where a cell and its outputs are."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number)

    def look(self, name: str, width: int = 1280, at: Any = None, whole: bool = False) -> None:
        """Makes the window this wide and keeps a picture, from `at` on, or of the whole notebook; nothing may reach
        over its place.
        """
        self.page.set_viewport_size({"width": width, "height": 900})
        if whole:
            self.page.wait_for_timeout(500)  # for what is drawn anew
            self.page.set_viewport_size({"width": width, "height": min(self.page.evaluate(TALL), 16_000)})
        self.page.wait_for_timeout(500)
        (at or self.cell(0)).evaluate("e => e.scrollIntoView({block: 'start'})")
        self.picture(f"{name}-{width}")
        assert self.page.evaluate(WIDER) == []

    def save(self) -> Any:
        """Saves it; the file as it is then."""
        self.page.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:save') }")
        return nbformat.read(self.path, as_version=4)

    def close(self) -> None:
        """Ends the kernel."""
        self.page.evaluate(SHUTDOWN)

    def picture(self, name: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(PICTURES / f"{name}.png"))

    def problems(self) -> list[str]:
        """Errors and warnings in outputs, and addresses elsewhere that were asked for."""
        shown = self.page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']")
        return [*shown.all_inner_texts(), *self.elsewhere]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if FOUND is None or importlib.util.find_spec("playwright") is None:
        pytest.skip("no browser: apt-get install chromium, and pip install -e '.[browser]'")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=FOUND, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    found = Lab(tmp_path_factory.mktemp("lab"))
    yield found
    found.close()


def made(sources: str) -> Any:
    """A notebook of these cells, which lines "# cell" part."""
    cells = [nbformat.v4.new_code_cell(text.strip()) for text in sources.split("# cell\n")]
    return nbformat.v4.new_notebook(cells=cells, metadata=notebooks.KERNEL)


@pytest.fixture
def pictures() -> Path:
    """Where pictures are kept."""
    return PICTURES


@pytest.fixture
def opened(chromium: Any, lab: Lab) -> Iterator[Callable[[str, Any], Notebook]]:
    """opened(name, notebook or the text of its cells) puts a notebook into the folder and opens it, 1280 pixels wide;
    its kernel ends with the test.
    """
    context, books = chromium.new_context(viewport={"width": 1280, "height": 900}), list[Notebook]()

    def of(name: str, notebook: Any) -> Notebook:
        path = lab.folder / f"{name}.ipynb"
        nbformat.write(made(notebook) if isinstance(notebook, str) else notebook, path)
        books.append(Notebook(lab, context.new_page(), path))
        return books[-1]

    yield of
    for book in books:
        book.close()
    context.close()
