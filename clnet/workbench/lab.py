"""`clnet lab`: JupyterLab on the notebooks, for this machine's browser only."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from ..errors import ConfigError, DataError

COPY = Path("clnet-notebooks")
SHIPPED = Path(__file__).resolve().parents[1] / "notebooks"
CHECKOUT = SHIPPED.parents[1] / "notebooks"
GRACE = 20.0  # [s] that the server has to end its kernels


def main(ip: str, port: int = 0, *, browser: bool = True, verbose: bool = False) -> int:
    """Starts the server and waits for it; its exit status.
    `verbose`: with the server's log, which else is of errors only.
    """
    check(ip)
    command = arguments(ip, port := port or free_port(ip), folder := notebooks(), browser=browser, verbose=verbose)
    # Through the environment: a command line can be read by every user of the machine.
    # JupyterLab hides the token in its own log.
    token = secrets.token_urlsafe(24)
    print(f"JupyterLab: http://{ip}:{port}/lab?token={token}", flush=True)
    print(f"notebooks in {folder.resolve()}; Ctrl-C ends the server", flush=True)
    return _serve(command, os.environ | {"JUPYTER_TOKEN": token})


def _serve(command: list[str], environment: dict[str, str]) -> int:
    """Runs the server until it ends, or until Ctrl-C, which is its usual end: 0.
    It ends with this process, its kernels with it.
    """
    for known in signal.Signals:
        if known.name in ("SIGTERM", "SIGHUP"):
            signal.signal(known, lambda number, frame: sys.exit(128 + number))
    # In a session of its own it does not hear Ctrl-C: it would ask whether that was meant.
    with subprocess.Popen(command, env=environment, start_new_session=True) as server:
        try:
            return server.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            server.terminate()
            try:
                server.wait(GRACE)
            except subprocess.TimeoutExpired:
                server.kill()


def check(ip: str) -> None:
    """ConfigError for an address that other machines can reach (a notebook server runs what it is sent),
    or without JupyterLab.
    """
    if not _is_loopback(ip):
        raise ConfigError(
            f"lab: expected an address of this machine (127.0.0.1); got {ip!r}; to reach it from elsewhere, "
            "use ssh -L 8888:127.0.0.1:PORT.")
    if importlib.util.find_spec("jupyterlab") is None:
        raise ConfigError("lab: expected JupyterLab; it is not installed; pip install jupyterlab.")


def arguments(ip: str, port: int, folder: Path, *, browser: bool = True, verbose: bool = False) -> list[str]:
    """The command line."""
    options = {"ServerApp.port": port, "ServerApp.port_retries": 0, "ServerApp.root_dir": folder.resolve(),
               "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate", "LabApp.news_url": None}
    options |= {} if verbose else {"Application.log_level": "ERROR"}
    flags = [] if browser else ["--no-browser"]
    if getattr(os, "geteuid", lambda: 1)() == 0:
        flags.append("--allow-root")  # containers; the server listens on this machine only, behind a token
    return [sys.executable, "-m", "jupyterlab", f"--ip={ip}", *flags, *(f"--{k}={v}" for k, v in options.items())]


def _is_loopback(ip: str) -> bool:
    try:
        return ip == "localhost" or ipaddress.ip_address(ip).is_loopback
    except ValueError:
        return False


def free_port(ip: str) -> int:
    """A port that nobody listens on."""
    with socket.create_server((ip, 0)) as server:
        return int(server.getsockname()[1])


def sources(who: str) -> Path:
    """The folder of the notebooks: the checkout's, or the package's. DataError where there is none."""
    if (CHECKOUT.parent / "pyproject.toml").is_file() and CHECKOUT.is_dir():
        return CHECKOUT
    if not SHIPPED.is_dir():
        raise DataError(
            f"{who}: expected the notebooks in {SHIPPED.parent.name}/{SHIPPED.name}; got none; install clnet again.")
    return SHIPPED


def notebooks(start: Path | None = None) -> Path:
    """The checkout's notebooks, or a copy of the shipped ones in ./clnet-notebooks;
    files that are there already stay as they are.
    """
    shipped, target = sources("lab"), (start or Path.cwd()) / COPY
    if shipped == CHECKOUT:
        return shipped
    try:
        target.mkdir(exist_ok=True)
        for path in sorted(shipped.glob("*.ipynb")):
            if not (target / path.name).exists():
                shutil.copyfile(path, target / path.name)  # not its mode: installed files may be read-only
    except OSError as error:
        raise DataError(
            f"lab: expected a folder to copy the notebooks into; got {target}: {error.strerror}; "
            "start it in a folder of yours.") from None
    return target
