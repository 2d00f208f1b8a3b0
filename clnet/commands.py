"""The commands of `clnet`, a row each: name, example, what it does, options.
The parser, --help and README's table are made of these rows.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .core.precision import PRECISIONS
from .errors import ConfigError
from .options import (
    OWN,
    Option,
    above_zero,
    assignment,
    data,
    json_file,
    json_option,
    option,
    several,
    shape,
    share,
    suite,
    there,
    whole,
)
from .workbench.bench import suites

MODELS = ("mlp", "cnn", "lstm", "transformer")
MODEL_FILES = (".json", ".safetensors")


@dataclass(frozen=True)
class Command:
    """A command: `text` says what it does, `more` stands below its help."""

    name: str
    example: str
    text: str
    run: Callable[[Namespace], int]
    options: tuple[Option, ...] = ()
    more: str = ""


# --- what commands run
def _use(device: str | None) -> Any:
    import sys

    from .engine import current, use

    use(device)
    print(f"device: {current().device}", file=sys.stderr)
    return current()


def _devices(args: Namespace) -> int:
    from .workbench import devices_command

    return devices_command.main(args.json)


def _doctor(args: Namespace) -> int:
    from .workbench import terminal
    from .workbench.doctor import facts, report

    if args.json:
        terminal.save_json([facts(test=args.test)], args.json)
    if args.json != terminal.STDOUT:
        terminal.say(report(test=args.test))
    return 0


def _train(args: Namespace) -> int:
    from .workbench import train_command

    train_command.check(args.save, args.plot, args.trace, args.augment)
    settings = {"epochs": args.epochs, "lr": args.lr, "batch_size": args.batch_size, "seed": args.seed,
                "precision": args.precision, "augment": args.augment}
    asked = _own(args, {n: v for n, v in settings.items() if v is not None})
    _use(args.device)
    if asked is not None:
        return train_command.own(asked, args.save, args.plot, args.json, args.trace)
    return train_command.main(args.model or MODELS[0], args.save, args.plot, settings, args.json, args.trace)


def _own(args: Namespace, settings: dict[str, Any]) -> Any:
    """What to train on data of one's own; None: the digits."""
    from .workbench.train_own import Asked

    what = args.data
    model = what if isinstance(what, Path) and what.suffix in MODEL_FILES else None
    if model is not None and args.model:
        raise ConfigError(f"train: expected {model.name} or --model {args.model}; got both.")
    given = args.own or (what if isinstance(what, Path) and model is None else None)
    if given is None and model is not None:
        raise ConfigError(f"train: expected --data, a table or a folder of pictures, with {model.name}; got none.")
    more = {"target": args.target, "task": args.task, "size": args.size, "validation": args.validation,
            "na_values": tuple(args.na_values or ()) or None, "encoding": args.encoding}
    more = {n: v for n, v in more.items() if v is not None}
    if given is None:
        if more:
            raise ConfigError(
                f"train: expected --data with --{next(iter(more))}; got the digits, which have all of it.")
        return None
    return Asked(given, model or args.model, **more, **settings)


def _status(args: Namespace) -> int:
    from .workbench.status import command as status_command

    return status_command.main(args.device or [None], args.folder, only=args.only, check=args.check,
                               changed=args.changed, quick=args.quick, json_file=args.json)


def _parity(args: Namespace) -> int:
    from .workbench import parity

    return parity.main(args.model, _use(args.device), args.folder, html=args.html, shape=args.shape,
                       json_file=args.json, report_file=args.report)


def _bench(args: Namespace) -> int:
    from .workbench.bench import command as bench
    from .workbench.bench import launches as bench_profile

    if args.profile:
        return bench_profile.main(_use(args.device), bench.works, args.suite, args.only, args.profile, args.precision)
    if args.against:
        from .workbench.bench import against

        return against.main(_use(args.device), args.against, args.suite, quick=args.quick, only=args.only,
                            json_file=args.json)
    if args.files:
        return bench.again(args.files, args.plots, args.report)
    return bench.main(_use(args.device), args.suite, quick=args.quick, only=args.only, json_file=args.json,
                      plots=args.plots, report_file=args.report, precision=args.precision, before=args.before)


def _report(args: Namespace) -> int:
    from .workbench import report

    return report.main(_use(args.device), args.folder, quick=args.quick, keep=args.keep, only=args.notebooks,
                       values=dict(args.values or ()))


def _tune(args: Namespace) -> int:
    from .workbench.tune import command as tune

    if args.op and args.placement:
        raise ConfigError("tune: expected either --op NAME or --placement; got both.")
    if args.rules and not args.op:
        raise ConfigError("tune: expected --op NAME with --rules, whose rules are to be held against the search.")
    if (args.share or args.taken) and (args.placement or args.rules or (args.share and args.taken)):
        raise ConfigError("tune: expected --share or --from alone, or --share with a search; got more.")
    engine = _use(args.device)
    if args.taken:
        from .workbench.tune import share

        path = args.folder / f"{share.tune.slug(engine.device)}.json" if args.folder else None
        return share.take(args.taken, engine.device, path)
    if args.placement:
        return tune.placement(engine, args.only, args.json)
    if args.rules:
        from .workbench.tune import rules

        kept = args.folder and args.folder / f"{args.op}.json"
        return rules.hold(engine, args.op, args.budget, args.only, args.json or kept)
    return tune.kernels(engine, args.op or "", args.budget, args.only, args.folder, args.json, args.share)


def _schema(args: Namespace) -> int:
    import json

    from .model.schema import document

    print(json.dumps(document(args.name), indent=2))
    return 0


def _lab(args: Namespace) -> int:
    from .workbench import lab

    return lab.main(args.ip, args.port, browser=not args.no_browser, verbose=args.verbose)


def _warm(args: Namespace) -> int:
    from .workbench import warm_command

    return warm_command.main(args.networks, _use(args.device), batch=args.batch, shape=args.shape, loss=args.loss,
                             json_file=args.json)


def _cache(args: Namespace) -> int:
    from .workbench import cache_command

    return cache_command.main(args.action, args.json)


def _completion(args: Namespace) -> int:
    try:
        import shtab
    except ImportError as error:
        raise ConfigError("completion: expected the package shtab; got none; pip install shtab") from error
    for command in next(a.choices for a in args.parser._actions if a.dest == "command").values():
        for action in command._actions:
            if action.type in (Path, data, json_file):
                action.complete = shtab.FILE
    print(shtab.complete(args.parser, args.shell))
    return 0


DEVICE = option("--device", metavar="KEY", help="intel, pocl, gpu, a number or a part of a name (default: the best)")
DEVICES = option("--device", metavar="KEY", action="append",
                 help="as in `clnet devices`; may be given several times (default: the best)")

COMMANDS = (
    Command("devices", "clnet devices", "list the devices found and the one that is chosen", _devices, (
        json_option("all that is known of them"),
    )),
    Command("doctor", "clnet doctor", "say what was looked for, what was found, and how to mend what is missing",
            _doctor, (
        option("--test", action="store_true", help="run the self-test on every device"),
        json_option("the same facts"),
    )),
    Command("train", "clnet train digits --model cnn --save digits.safetensors",
            "train a network on built-in data, a table, a folder of pictures or a text, and keep it", _train, (
        option("data", nargs="?", type=data, default="digits", metavar="WHAT",
               help="digits, 1797 images of 8x8 pixels (the default); a table (.csv, .tsv, .parquet, .jsonl), a text "
                    "(.txt, .md) or a folder with pictures in a folder for each class; or a model's .json or "
                    ".safetensors file, with --data"),
        option("--data", type=there, dest="own", metavar="PATH", help="the table or folder of pictures to train on"),
        option("--target", metavar="COLUMN", help="of a table: the column to predict"),
        option("--task", choices=("classes", "regression"),
               help="what the target is (default: text and few whole numbers are classes, other numbers regression)"),
        option("--size", type=shape, metavar="H,W", help="of pictures: what they are brought to (default: their own)"),
        option("--validation", type=share, metavar="SHARE",
               help="of the samples that are held out; 0: none (default: 0.2, class by class)"),
        option("--na-values", action="append", metavar="TEXT",
               help="of a table: cells that count as missing, beside empty ones, NA and the like; once for each"),
        option("--encoding", metavar="NAME", help="of a table or text (default: utf-8; older Excel: cp1252, utf-16)"),
        option("--model", choices=MODELS,
               help="the network (default: mlp, of pictures cnn); of one's own data mlp or cnn"),
        option("--epochs", type=whole(1), metavar="N",
               help="passes over the data (default: the network's own, 20 for one's own data)"),
        option("--lr", type=above_zero, metavar="RATE",
               help="learning rate at first; a cosine takes it to 0 (default: the network's own)"),
        option("--batch-size", type=whole(1), metavar="N", help="samples a step (default: 64)"),
        option("--seed", type=whole(0), default=0, metavar="N",
               help="of the first weights and the order of the samples (default: 0)"),
        option("--augment", type=several, metavar="NAMES",
               help="changes of pictures at random in training, with commas between: flip, crop, rotate, color, erase, "
                    "mixup, cutmix and others of clnet.augment (default: none)"),
        option("--precision", choices=PRECISIONS,
               help="bf16, fp16: mixed precision; the others: the arithmetic of products (default: fp32)"),
        option("--save", type=Path, metavar="FILE",
               help="write the model there, also when interrupted; `clnet.load` reads it"),
        option("--plot", type=Path, metavar="FILE", help="draw loss and accuracy by epoch there (.png, .svg, .pdf)"),
        option("--trace", type=Path, metavar="FILE.json",
               help="write there when each launch of a step runs, for https://ui.perfetto.dev"),
        json_option("the history, a row an epoch,"),
        DEVICE,
    ), f"One's own data: `clnet train houses.csv --target price`, `clnet train model.json --data houses.csv --target "
       f"price`. For {OWN}."),
    Command("status", "clnet status --only Dense",
            "run every op, layer, loss and optimizer "
            "(forward, backward, update, residency, parity, determinism) and write the tables", _status, (
        option("--only", default="", metavar="NAME", help="only names that contain this"),
        option("--changed", action="store_true",
               help="show the rows that differ from the tables, before and now; write nothing"),
        option("--check", action="store_true",
               help="fail if the tables claim more than a fresh run shows; write nothing"),
        option("--quick", action="store_true", help="the first example of each row only; no tables are written"),
        option("--folder", type=Path, default=Path("status"), help="where the tables lie (default: status)"),
        json_option("the rows of this run"),
        DEVICES,
    )),
    Command("parity", "clnet parity digits-cnn",
            "compare a network or layer with the float64 reference, layer by layer; the first divergence is named",
            _parity, (
        option("model", nargs="?", default="digits-cnn", metavar="MODEL",
               help="digits-mlp, -cnn, -lstm, -transformer, the name of a layer, "
                    "or a model's .json file (default: digits-cnn)"),
        option("--shape", type=shape, metavar="N,C,...",
               help="shape of the input, with the batch, for a .json model that does not say it"),
        json_option("the rows"),
        option("--report", type=Path, metavar="FILE.md", help="write the table there"),
        option("--html", action="store_true", help="write a page with plots as well"),
        option("--folder", type=Path, default=Path("reports"), help="where the page goes (default: reports)"),
        DEVICE,
    )),
    Command("bench", "clnet bench --suite ops --quick",
            "time ops, training steps and start-up, measure memory and scaling; against NumPy, "
            "PyTorch, JAX and tinygrad where installed, interleaved in one run", _bench, (
        option("--suite", type=suite, default="all", metavar="NAME",
               help=f"{', '.join(suites.names())}, or all, the first {len(suites.ALL)} (default: all)"),
        option("--quick", action="store_true", help="fewer sizes and rounds"),
        option("--only", default="", metavar="TEXT", help="only works whose name contains this"),
        option("--precision", choices=PRECISIONS[1:], default="",
               help="of the steps, on all sides (default: float32); needs --suite steps"),
        json_option("the rows"),
        option("--plots", type=Path, metavar="FOLDER", help="write plots there"),
        option("--report", type=Path, metavar="FILE.md", help="write tables and plots there as one report"),
        option("--before", type=Path, metavar="FILE",
               help="compare our times with those of this earlier run's --json, too"),
        option("--against", type=Path, metavar="FOLDER",
               help="in place of peers: our times in this other checkout of clnet and here, by turns"),
        option("--from", type=Path, nargs="+", metavar="FILE", dest="files",
               help="in place of measuring: show the rows of these earlier runs' --json"),
        option("--profile", type=Path, metavar="FILE.md",
               help="in place of comparing: write there where the works' time goes, launch by launch"),
        DEVICE,
    )),
    Command("report", "clnet report --quick",
            "train, check, compare, time and run the notebooks; write a page that needs nothing else, and the list of "
            "all runs with what changed since the last", _report, (
        option("--quick", action="store_true", help="smallest form of every part, and one notebook"),
        option("--folder", type=Path, default=Path("reports"), help="where the report goes (default: reports)"),
        option("--keep", type=whole(1), default=20, metavar="N",
               help="runs that stay in the folder; what is older is deleted (default: 20)"),
        option("--notebooks", metavar="TEXT",
               help="only those whose name contains this, or none (default: all; with --quick the tour)"),
        option("--set", action="append", type=assignment, dest="values", metavar="NAME=VALUE",
               help="a parameter of notebooks, as in --set epochs=2; once for each"),
        DEVICE,
    ), "`runs/` in the folder has a page a run and its figures, `index.html` lists them; of the newest run there is "
       "Markdown, too."),
    Command("tune", "clnet tune --seconds 60",
            "measure on this machine what the defaults only estimate, and keep it in the user's folder", _tune, (
        option("--op", choices=("matmul", "conv", "winograd"),
               help="whose kernel's numbers to search (default: all that the device searches, common calls first)"),
        option("--placement", action="store_true",
               help="up to which size the host answers a call on arrays sooner than the device"),
        option("--rules", action="store_true",
               help="in place of keeping numbers: how much longer than the best that is found take those of the rules"),
        option("--budget", "--seconds", type=above_zero, default=60.0, metavar="SECONDS",
               help="time for the search in all (default: 60)"),
        option("--only", default="", metavar="NAME", help="only ops, or calls of the op, whose name contains this"),
        option("--folder", type=Path, help="write the table there instead of the user's folder"),
        option("--share", type=Path, metavar="FILE",
               help="write what was found there, with the device's facts and nothing of who or where, to be sent in"),
        option("--from", type=Path, metavar="FILE", dest="taken",
               help="in place of measuring: keep the numbers that another machine's --share found"),
        json_option("what was found"),
        DEVICE,
    )),
    Command("schema", "clnet schema Dense", "print the JSON schema of model files, or of one class", _schema, (
        option("name", nargs="?", default="", metavar="CLASS",
               help="a layer, loss, optimizer or schedule (default: any model)"),
    )),
    Command("lab", "clnet lab", "open the notebooks in JupyterLab, on this machine only", _lab, (
        option("--port", type=whole(0, 65535), default=0, help="port to listen on (default: a free one)"),
        option("--no-browser", action="store_true", help="print the address, open nothing"),
        option("--verbose", action="store_true", help="show the server's log"),
        option("--ip", default="127.0.0.1", help=argparse.SUPPRESS),
    )),
    Command("warm", "clnet warm digits-cnn",
            "compile now what networks will take: training, predictions, batches of any size", _warm, (
        option("networks", nargs="*", metavar="NETWORK",
               help="digits-mlp, -cnn, -lstm, -transformer, resnet20 or another that comes with clnet, or a model's "
                    ".json or .safetensors file (default: all that come with clnet)"),
        option("--batch", type=whole(2), default=64, metavar="N", help="samples a step (default: 64)"),
        option("--shape", type=shape, metavar="C,H,W",
               help="shape of a sample, for a model that does not say it"),
        option("--loss", default="", metavar="NAME",
               help="of a model's file: compile its training, too, with this loss and Adam"),
        json_option("what was compiled"),
        DEVICE,
    ), "A model of one's own: `clnet warm model.json --batch 64 --loss cross_entropy`."),
    Command("cache", "clnet cache",
            "say where compiled programs and plans are kept and how much they take; `clear` deletes them", _cache, (
        option("action", nargs="?", choices=("clear",), help="clear: delete them"),
        json_option("folders, counts and sizes"),
    )),
    Command("completion", "clnet completion bash", "print what makes a shell complete commands and options",
            _completion, (
        option("shell", choices=("bash", "zsh", "tcsh"), help="which shell"),
    ), 'In bash, for this session: `eval "$(clnet completion bash)"`; for all: '
       "`clnet completion bash > ~/.local/share/bash-completion/completions/clnet`. Takes `pip install shtab`."),
)


def readme() -> str:
    """README's table of the commands."""
    return "\n".join(["| command | what it does |", "|---|---|", *(f"| `{c.example}` | {c.text} |" for c in COMMANDS)])
