"""A process that answers questions, JSON line by JSON line:
what crashes or hangs there ends there, and a new process takes its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ..engine.device.compilers import environment


class Child:
    """`python -m module`, which calls `serve`. For one thread at a time.
    `patience`: [s] after which a question counts as hanging; `settings`: environment variables that only it has;
    `folder`: where it runs; `program`: what Python is started with in place of `-m module`.
    """

    def __init__(self, module: str, patience: float, settings: Mapping[str, str] | None = None, *,
                 folder: Path | None = None, program: Sequence[str] = ()) -> None:
        self.module, self.patience, self.settings, self.folder = module, patience, settings or {}, folder
        self.program = program or ("-m", module)
        self.process: subprocess.Popen[str] | None = None
        self.said: IO[bytes] | None = None
        self.late = False

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer, or {"failed": how the process ended}."""
        try:
            process = self.process if self.process is not None and self.process.poll() is None else self._start()
        except OSError as error:  # no memory, too many processes
            return {"failed": f"its process did not start ({error})"}
        assert process.stdin and process.stdout
        self.late = False
        alarm = threading.Timer(self.patience, self._give_up)
        alarm.daemon = True
        alarm.start()
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            return answer
        except (OSError, ValueError):  # the pipe is broken, or the line is no answer
            failed = f"no answer within {self.patience:g} s" if self.late else self._ending(process)
            self.stop()
            return {"failed": failed}
        finally:
            alarm.cancel()

    def _start(self) -> subprocess.Popen[str]:
        self.stop()
        self.said = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the process
        self.process = subprocess.Popen([sys.executable, *self.program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.said, text=True, cwd=self.folder,
                                        start_new_session=True, env={**environment(), **self.settings})
        return self.process

    def _ending(self, process: subprocess.Popen[str]) -> str:
        """The exit status in words, with the last line the process said."""
        try:
            status = process.wait(5)
        except subprocess.TimeoutExpired:
            return "its process gave no answer"
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        assert self.said
        self.said.seek(0)
        last = self.said.read().decode(errors="replace").strip().rpartition("\n")[2]
        return f"its process ended ({name}){': ' * bool(last)}{last[:160]}"

    def _give_up(self) -> None:
        self.late = True
        self.interrupt()

    def interrupt(self) -> None:
        """Ends the process, from any thread: the question that it was asked fails."""
        if process := self.process:
            process.kill()

    def stop(self) -> None:
        """Ends the process; the next question starts another."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            streams: list[Any] = [self.process.stdin, self.process.stdout, self.said]
            for stream in streams:
                with contextlib.suppress(OSError):  # a question that the process did not live to read
                    stream.close()
            self.process = self.said = None


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answers a line of standard input by a line of standard output until there are no more.
    What else is printed goes to standard error.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            found = answer(json.loads(line))
        except Exception as error:  # whatever a question leads to is an answer
            found = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        print(json.dumps(found), file=out, flush=True)
