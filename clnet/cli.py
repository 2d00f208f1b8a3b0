"""The `clnet` command: what is typed, what is said of a slip, and the exit status. The commands are rows in `commands`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from . import __version__
from .commands import COMMANDS, Command
from .errors import ClnetError
from .names import ending
from .workbench import terminal

DEBUG = "CLNET_DEBUG"
INTERRUPTED, PIPE_CLOSED = 130, 141  # 128 + the number of SIGINT, of SIGPIPE
LEAD = "Train neural networks on any OpenCL device, with proof of what really runs where."
EPILOG = """\
exit status:
  0  all is well
  1  a check failed
  2  a slip in the call, or an error that clnet explains; with CLNET_DEBUG=1 as a traceback
  130  interrupted
  141  whoever read the output closed it

environment: CLNET_DEVICE=KEY chooses the device, NO_COLOR=1 leaves colours out; docs/runtimes.md lists all variables.
`clnet COMMAND --help` says what a command takes."""


class Parser(argparse.ArgumentParser):
    """argparse, which says the nearest name there is."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        args = list(sys.argv[1:] if args is None else args)
        known = [o for o in self._option_string_actions if o.startswith("--")]
        mine = (lambda a: a.startswith("-")) if self._subparsers else (lambda a: a != "--")
        own = itertools.takewhile(mine, args)
        for name in (a.partition("=")[0] for a in own if a.startswith("--")):
            # argparse would take the value behind it for another argument first
            if not any(o.startswith(name) for o in known):
                self.error(f"expected one of {', '.join(known)}; got {name}{ending(name, known)}")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(
                action, f"expected {_listed(action.choices)}; got {value!r}{ending(str(value), action.choices)}")

    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ")
        print(f"{self.prog}: {message}{'' if message.endswith(('.', '?')) else '.'} See `{self.prog} --help`.",
              file=sys.stderr)
        raise SystemExit(2)


def _listed(names: Iterable[Any]) -> str:
    *some, last = map(str, names)
    return f"{', '.join(some)} or {last}" if some else last


def parser() -> Parser:
    """All commands and their options."""
    top = Parser(prog="clnet", description=_folded(LEAD), epilog=_folded(EPILOG), formatter_class=_formatter)
    top.add_argument("--version", action="version", version=f"clnet {__version__}")
    top.set_defaults(run=None, parser=top)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        _add(commands, command)
    return top


def _add(commands: Any, command: Command) -> None:
    epilog = "\n".join(filter(None, [f"example: `{command.example}`", command.more]))
    lead = command.text[:1].upper() + command.text[1:] + "."
    sub = commands.add_parser(command.name, help=command.text, description=_folded(lead), epilog=_folded(epilog),
                              formatter_class=_formatter)
    sub.set_defaults(run=command.run)
    for names, how in command.options:
        sub.add_argument(*names, **how)


def _folded(text: str) -> str:
    """Lines that fit the terminal; argparse either keeps lines or runs them all together."""
    width = max(40, shutil.get_terminal_size().columns - 2)
    return "\n".join(textwrap.fill(line, width, break_on_hyphens=False) for line in text.split("\n"))


def _formatter(prog: str, **options: Any) -> Any:
    """Help in colours, by rich-argparse; plain where colours are unwanted."""
    from rich_argparse import RawDescriptionRichHelpFormatter

    class Formatter(RawDescriptionRichHelpFormatter):
        text_markup = help_markup = False
        group_name_formatter = str

        def add_argument(self, action: argparse.Action) -> None:
            super().add_argument(action)
            if isinstance(action, argparse._SubParsersAction):
                self._action_max_length += 2  # names of commands stand so much further in than argparse counts

    return Formatter(prog, console=terminal.console(), max_help_position=28, **options)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit status; errors are one line and 2, or a traceback with CLNET_DEBUG=1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a name that the terminal's encoding lacks is no reason to end
    try:
        try:
            return _run(argv)
        except KeyboardInterrupt as stop:
            print("clnet: interrupted" + "".join(f"; {a}" for a in stop.args), file=sys.stderr)
            return INTERRUPTED
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # `clnet ... | head` has read enough
        with contextlib.suppress(OSError, ValueError):  # what is still to be written at exit goes nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _run(argv: Sequence[str] | None) -> int:
    top = parser()
    try:
        args = top.parse_args(argv)
    except SystemExit as stop:  # --help, --version, or a slip that the parser has spoken of
        return int(stop.code or 0)
    try:
        if args.run is None:
            top.print_help()
            return 0
        with terminal.for_programs(getattr(args, "json", None) == terminal.STDOUT):
            return int(args.run(args))
    except BrokenPipeError:
        raise
    except (ClnetError, OSError, ImportError) as error:
        if os.environ.get(DEBUG, "") not in ("", "0"):
            raise
        print(f"clnet: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
