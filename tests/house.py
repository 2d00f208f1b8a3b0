"""Counts what the house rules promise, of this checkout or another: `python tests/house.py [FOLDER]`.

    circles     modules that import each other, directly or round about; imports inside functions count, those for
                type checkers do not
    Any         parameters annotated `Any` and nothing else, of all parameters but `self` and `cls`
    hasattr     calls of it: where somebody asks what a thing is instead of saying it
    wide        lines over 120 characters
    copies      runs of six lines of code or more that stand in two places

tests/host/test_architecture.py holds the bounds; this prints the numbers, so that before and after can be compared.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDTH = 120  # characters of a line
RUN = 6  # lines that are alike from which on they count as a copy


@dataclass(frozen=True)
class Import:
    """`source` imports `target`, another module or package (of clnet with its whole name); `inside` a function?"""

    source: str
    target: str
    line: int
    inside: bool

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}{' inside a function' if self.inside else ''}"


class House:
    """The modules of a package, parsed once."""

    def __init__(self, root: Path = ROOT, package: str = "clnet") -> None:
        self.root = root
        self.paths = sorted((root / package).rglob("*.py"))
        self.names = {named(path.relative_to(root)): path for path in self.paths}
        self.text = {path: path.read_text("utf-8") for path in self.paths}
        self.trees = {path: ast.parse(text) for path, text in self.text.items()}
        self.imports = [i for name in self.names for i in self._imports(name)]

    def _imports(self, name: str) -> Iterator[Import]:
        path = self.names[name]
        tree = self.trees[path]
        inside = {id(n) for f in functions(tree) for n in ast.walk(f)}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) not in _typing_only(tree):
                for target in self._targets(name, path.name == "__init__.py", node):
                    yield Import(name, target, node.lineno, id(node) in inside)

    def _targets(self, name: str, is_package: bool, node: ast.Import | ast.ImportFrom) -> list[str]:
        if isinstance(node, ast.Import):
            return [a.name for a in node.names]
        parts = name.split(".") if is_package else name.split(".")[:-1]
        base = parts[: len(parts) - node.level + 1] if node.level else []
        module = ".".join([*base, *([node.module] if node.module else [])])
        return list(dict.fromkeys(whole if (whole := f"{module}.{a.name}") in self.names else module
                                  for a in node.names))

    def circles(self) -> list[list[str]]:
        """The groups of modules that import each other, the largest first."""
        graph = {name: {i.target for i in self.imports if i.source == name and i.target in self.names} - {name}
                 for name in self.names}
        return sorted((sorted(c) for c in strong_components(graph) if len(c) > 1), key=len, reverse=True)

    def any_parameters(self) -> list[tuple[str, str]]:
        """(module, parameter) of every parameter that is annotated `Any` and nothing else."""
        return [(name, a.arg) for name, a in self.parameters()
                if isinstance(a.annotation, ast.Name) and a.annotation.id == "Any"]

    def parameters(self) -> Iterator[tuple[str, ast.arg]]:
        """(module, parameter) of every function; without self and cls."""
        for name, path in self.names.items():
            for f in functions(self.trees[path]):
                if not isinstance(f, ast.Lambda):
                    for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs):
                        if a.arg not in ("self", "cls"):
                            yield name, a

    def calls(self, function: str) -> list[str]:
        """`module:line` of every call of a function by its plain name."""
        return [f"{name}:{n.lineno}" for name, path in self.names.items() for n in ast.walk(self.trees[path])
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == function]

    def wide(self) -> list[str]:
        """`module:line` of every line over the width."""
        return [f"{name}:{k}" for name, path in self.names.items()
                for k, line in enumerate(self.text[path].splitlines(), 1) if len(line) > WIDTH]

    def copies(self, least: int = RUN) -> list[str]:
        """`place ~ place (lines)` of every run of lines of code that stands twice; imports and brackets aside."""
        places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
        code = {name: list(code_lines(self.text[path], self.trees[path])) for name, path in self.names.items()}
        for name, lines in code.items():
            for k in range(len(lines) - least + 1):
                places[tuple(text for _, text in lines[k : k + least])].append((name, k))
        twins = {(a, b) for found in places.values() for i, a in enumerate(found) for b in found[i + 1 :]}
        return [self._run(code, a, b, twins, least) for a, b in sorted(twins)
                if ((a[0], a[1] - 1), (b[0], b[1] - 1)) not in twins]

    def _run(self, code: dict[str, list[tuple[int, str]]], a: tuple[str, int], b: tuple[str, int],
             twins: set[tuple[tuple[str, int], tuple[str, int]]], least: int) -> str:
        more = 0
        while ((a[0], a[1] + more + 1), (b[0], b[1] + more + 1)) in twins:
            more += 1
        left, right = (f"{name}:{code[name][k][0]}" for name, k in (a, b))
        return f"{left} ~ {right} ({least + more} lines)"


def named(path: Path) -> str:
    """clnet/core/op.py -> clnet.core.op; a package goes by its folder."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]:
    """Everything in a tree whose body runs only when it is called."""
    return [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]


def _typing_only(tree: ast.AST) -> set[int]:
    return {id(inner) for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)
            for inner in ast.walk(n)}


def code_lines(text: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines that say something: no documentation, comments, imports, nor lone brackets."""
    skipped: set[int] = set()
    for n in ast.walk(tree):
        documents = isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) and isinstance(n.value.value, str)
        if documents or isinstance(n, (ast.Import, ast.ImportFrom)):
            assert isinstance(n, ast.stmt)
            skipped.update(range(n.lineno, (n.end_lineno or n.lineno) + 1))
    for k, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if k not in skipped and not plain.startswith("#") and any(c.isalnum() for c in plain):
            yield k, plain


def strong_components(graph: dict[str, set[str]]) -> Iterable[list[str]]:
    """Tarjan's strongly connected components, without recursion."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    for root in graph:
        work = [(root, iter(sorted(graph[root])))] if root not in number else []
        if work:
            number[root] = low[root] = len(number)
            path.append(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in number:
                    number[other] = low[other] = len(number)
                    path.append(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in path:
                    low[node] = min(low[node], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    yield [path.pop() for _ in range(len(path) - path.index(node))]


def main(folder: str = str(ROOT)) -> None:
    """Prints the counts, and where the circles are tied."""
    house = House(Path(folder))
    circles, count = house.circles(), sum(1 for _ in house.parameters())
    print(f"modules {len(house.names)}, lines {sum(t.count(chr(10)) for t in house.text.values())}")
    print(f"circles {len(circles)}, the largest of {max(map(len, circles), default=1)} modules")
    for circle in circles:
        print(f"  {', '.join(circle)}")
        for i in house.imports:
            if i.inside and i.source in circle and i.target in circle:
                print(f"    {i}")
    any_ = house.any_parameters()
    print(f"parameters that are Any {len(any_)} of {count} ({len(any_) / count:.1%})")
    print(f"hasattr {len(house.calls('hasattr'))}")
    print(f"lines over {WIDTH} characters {len(house.wide())}")
    copies = house.copies()
    print(f"copies of {RUN} lines or more {len(copies)}")
    for copy in copies:
        print(f"  {copy}")


if __name__ == "__main__":
    main(*sys.argv[1:])
