"""The `clnet` command: devices, doctor, train, status, parity, bench, report, schema, tune, lab, cache."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import ClnetError, ConfigError
from .precision import PRECISIONS

MODELS = ("mlp", "cnn", "lstm", "transformer")
SUITES = ("ops", "steps", "memory", "startup", "scaling", "all", "matmul", "conv", "attention", "bandwidth", "accuracy")
DEBUG = "CLNET_DEBUG"


def parser() -> argparse.ArgumentParser:
    """All subcommands and their options."""
    top = argparse.ArgumentParser(prog="clnet", description="Train neural networks on any OpenCL device, with proof of what really runs where.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    add("devices", _devices, "list the devices found and the one that is chosen")
    doctor = add("doctor", _doctor, "say what was looked for, what was found, and how to mend it")
    doctor.add_argument("--test", action="store_true", help="run the self-test on every device")
    _train_options(add("train", _train, "train on built-in data"))
    _status_options(add("status", _status, "run every check and write the status tables"))
    _parity_options(add("parity", _parity, "compare a model or layer with the float64 reference, layer by layer"))
    _bench_options(add("bench", _bench, "time ops, training steps and start-up, measure memory and scaling, against NumPy, PyTorch and tinygrad"))
    _report_options(add("report", _report, "train, check, compare and time in short forms; write one HTML page"))
    tune = add("tune", _tune, "measure on this machine what the defaults only estimate, and keep it in the user's folder")
    tune.add_argument("--op", choices=["matmul", "conv", "winograd"], help="whose kernel's numbers to search")
    tune.add_argument("--budget", type=float, default=60.0, metavar="SECONDS", help="time for the search in all (default: 60)")
    tune.add_argument("--folder", type=Path, help="write the table there instead of the user's folder")
    tune.add_argument("--placement", action="store_true", help="up to which size the host answers a call on arrays sooner than the device")
    tune.add_argument("--only", default="", metavar="NAME", help="only ops, or calls of the op, whose name contains this")
    _device_option(tune)
    schema = add("schema", _schema, "print the JSON schema of models, or of one class")
    schema.add_argument("name", nargs="?", default="", metavar="CLASS", help="a layer, loss, optimizer or schedule (default: any model)")
    lab = add("lab", _lab, "open the notebooks in JupyterLab, on this machine only")
    lab.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    lab.add_argument("--no-browser", action="store_true", help="print the address, open nothing")
    lab.add_argument("--ip", default="127.0.0.1", help=argparse.SUPPRESS)
    add("cache", _cache, "the compiled programs on disk").add_argument("action", choices=["clear"], help="clear: delete them")
    return top


def _device_option(sub: argparse.ArgumentParser, many: bool = False) -> None:
    text = "intel, pocl, gpu, a number or a part of a name (default: the best)" + ("; may be given twice" if many else "")
    sub.add_argument("--device", metavar="KEY", help=text, action="append" if many else "store")


def _shape(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(n) for n in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"expected positive sizes with commas between, as in 32,1,8,8; got {text!r}")
    return sizes


def _train_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("data", choices=["digits"])
    sub.add_argument("--model", choices=MODELS, default="mlp")
    sub.add_argument("--epochs", type=int, default=None, help="passes over the data (default: the example's own)")
    sub.add_argument("--precision", choices=PRECISIONS, help="bf16, fp16: mixed precision; the others: the arithmetic of products (default: fp32)")
    _device_option(sub)


def _status_options(sub: argparse.ArgumentParser) -> None:
    _device_option(sub, many=True)
    sub.add_argument("--check", action="store_true", help="fail if the committed tables claim more than a fresh run shows")
    sub.add_argument("--quick", action="store_true", help="with --check: the first example of each row only; tables are made of all that count")
    sub.add_argument("--only", default="", metavar="NAME", help="only names that contain this")
    sub.add_argument("--folder", type=Path, default=Path("status"), help="where the tables lie (default: status)")


def _parity_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("model", nargs="?", default="digits-cnn", metavar="MODEL.json|LAYER|digits-cnn")
    sub.add_argument("--shape", type=_shape, metavar="N,C,...", help="shape of the input, with the batch, for a .json model that does not say it")
    sub.add_argument("--html", action="store_true", help="write a page with plots as well")
    sub.add_argument("--folder", type=Path, default=Path("reports"), help="where plots and pages go (default: reports)")
    _device_option(sub)


def _bench_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--suite", choices=SUITES, default="all")
    sub.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    sub.add_argument("--only", default="", metavar="TEXT", help="only works whose name contains this")
    sub.add_argument("--precision", choices=PRECISIONS[1:], default="", help="of the steps, on all sides (default: float32); needs --suite steps")
    sub.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    sub.add_argument("--plots", type=Path, metavar="FOLDER", help="write plots there")
    sub.add_argument("--report", type=Path, metavar="FILE.md", help="write tables and plots there as one report")
    sub.add_argument("--before", type=Path, metavar="FILE", help="compare our times with those of this earlier run's --json, too")
    sub.add_argument("--profile", type=Path, metavar="FILE.md", help="in place of comparing: write there where the works' time goes, launch by launch")
    _device_option(sub)


def _report_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--quick", action="store_true", help="smallest form of every part")
    sub.add_argument("--folder", type=Path, default=Path("reports"), help="where the report goes (default: reports)")
    _device_option(sub)


# --- commands
def _devices(args: argparse.Namespace) -> int:
    from .engine.device import devices, select

    for k, d in enumerate(devices()):
        print(f"{k}: {d.key:8} {d.name} ({d.platform}, driver {d.driver})")
    print(f"chosen: {select()[1]}")
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from .doctor import report

    print(report(test=args.test))
    return 0


def _use(device: str | None) -> Any:
    from .engine import current, use

    use(device)
    print(f"device: {current().device}", file=sys.stderr)
    return current()


def _train(args: argparse.Namespace) -> int:
    if args.epochs is not None and args.epochs < 1:
        raise ConfigError(f"train: expected at least 1 epoch; got {args.epochs}; pass --epochs 5, say.")
    from .train.examples import train_digits

    _use(args.device)
    r = train_digits(args.model, epochs=args.epochs, precision=args.precision, verbose=True)
    how = f" in {args.precision}" if args.precision else ""
    print(f"{r.kind} on {r.device}{how}: test accuracy {r.accuracy:.4f} (target {r.target} in full), loss {r.loss:.4f}, {r.parameters} parameters, "
          f"{len(r.history.rows)} epochs in {r.seconds:.1f} s, {r.samples_per_second:.0f} samples/s")
    return 0


def _status(args: argparse.Namespace) -> int:
    from .workbench import status_command

    if args.quick and not args.check:
        raise ConfigError("status: expected --check with --quick; got --quick alone, and tables are made of all examples; add --check or leave it out.")
    return status_command.main(args.device or [None], args.folder, only=args.only, check=args.check, quick=args.quick)


def _parity(args: argparse.Namespace) -> int:
    from .workbench import parity

    return parity.main(args.model, _use(args.device), args.folder, html=args.html, shape=args.shape)


def _tune(args: argparse.Namespace) -> int:
    from .workbench import tune

    if bool(args.op) == args.placement:
        raise ConfigError("tune: expected either --op NAME or --placement; got " + ("both." if args.op else "neither."))
    if args.budget <= 0:
        raise ConfigError(f"tune: expected a budget above 0 seconds; got {args.budget:g}.")
    engine = _use(args.device)
    return tune.placement(engine, args.only) if args.placement else tune.kernels(engine, args.op, args.budget, args.only, args.folder)


def _bench(args: argparse.Namespace) -> int:
    from .workbench import bench, bench_profile

    if args.profile:
        return bench_profile.main(_use(args.device), bench.works, args.suite, args.only, args.profile, args.precision)
    return bench.main(_use(args.device), args.suite, quick=args.quick, only=args.only, json_file=args.json, plots=args.plots,
                      report_file=args.report, precision=args.precision, before=args.before)


def _report(args: argparse.Namespace) -> int:
    from .workbench import report

    return report.main(_use(args.device), args.folder, quick=args.quick)


def _schema(args: argparse.Namespace) -> int:
    from .schema import document

    print(json.dumps(document(args.name), indent=2))
    return 0


def _lab(args: argparse.Namespace) -> int:
    from .workbench import lab

    return lab.main(args.ip, args.port, browser=not args.no_browser)


def _cache(args: argparse.Namespace) -> int:
    from .engine.folders import cache_root
    from .engine.store import Store

    folder = cache_root() / "programs"
    entries = Store(folder).entries()
    for path in entries:
        path.unlink(missing_ok=True)
    print(f"{len(entries)} compiled programs deleted from {folder}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; errors are one line and exit status 2, or a traceback with CLNET_DEBUG=1."""
    args = parser().parse_args(argv)
    try:
        return int(args.run(args))
    except KeyboardInterrupt:
        print("clnet: interrupted", file=sys.stderr)
        return 130
    except (ClnetError, OSError, ImportError) as error:
        if os.environ.get(DEBUG, "") not in ("", "0"):
            raise
        print(f"clnet: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
