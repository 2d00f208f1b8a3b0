"""`clnet lab`: JupyterLab on the notebooks, for this machine's browser only."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import secrets
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from ..errors import ConfigError, DataError

COPY = Path("clnet-notebooks")


def main(ip: str, port: int = 0, *, browser: bool = True) -> int:
    """Starts the server and waits for it; its exit status."""
    check(ip)
    command = arguments(ip, port := port or free_port(ip), notebooks(), browser=browser)
    # Through the environment: a command line can be read by every user of the machine. JupyterLab hides the token in its own log.
    token = secrets.token_urlsafe(24)
    print(f"JupyterLab: http://{ip}:{port}/lab?token={token}", flush=True)
    return subprocess.call(command, env=os.environ | {"JUPYTER_TOKEN": token})


def check(ip: str) -> None:
    """ConfigError for an address that other machines can reach (a notebook server runs what it is sent), or without JupyterLab."""
    if not _is_loopback(ip):
        raise ConfigError(f"lab: expected an address of this machine (127.0.0.1); got {ip!r}; to reach it from elsewhere, use ssh -L 8888:127.0.0.1:PORT.")
    if importlib.util.find_spec("jupyterlab") is None:
        raise ConfigError("lab: expected JupyterLab; it is not installed; pip install jupyterlab.")


def arguments(ip: str, port: int, folder: Path, *, browser: bool = True) -> list[str]:
    """The command line."""
    options = {"ServerApp.port": port, "ServerApp.port_retries": 0,
               "ServerApp.root_dir": folder.resolve(), "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate", "LabApp.news_url": None}
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


def notebooks(start: Path | None = None) -> Path:
    """The checkout's notebooks, or a copy of the shipped ones in ./clnet-notebooks; files that are there already stay as they are."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent / "notebooks"
    if (package.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    shipped, target = package / "notebooks", (start or Path.cwd()) / COPY
    if not shipped.is_dir():
        raise DataError(f"lab: expected the notebooks in {shipped.parent.name}/{shipped.name}; got none; install clnet again.")
    try:
        target.mkdir(exist_ok=True)
        for path in sorted(shipped.glob("*.ipynb")):
            if not (target / path.name).exists():
                shutil.copyfile(path, target / path.name)  # not its mode: installed files may be read-only
    except OSError as error:
        raise DataError(f"lab: expected a folder to copy the notebooks into; got {target}: {error.strerror}; start it in a folder of yours.") from None
    return target
