"""A program's text for people: the kernel that runs, its conditions resolved, with the definitions
that it uses and nothing else.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

SHORT = 60  # lines that need no shortening
FUSED = "epilogue"  # of functions that carry what was fused into the kernel: how their names begin
WORD = re.compile(r"[A-Za-z_]\w*")
DEFINE = re.compile(r"#\s*define\s+(\w+)(\()?(.*)", re.DOTALL)
DIRECTIVE = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif|define|undef)\b(.*)", re.DOTALL)
CONDITIONS = ("if", "ifdef", "ifndef", "elif", "else", "endif")
BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift}


class ProgramText(str):
    """A program's whole text, as the compiler gets it. Shows itself (`repr`) as the kernel alone."""

    __slots__ = ("name",)
    name: str

    def __new__(cls, text: str, name: str) -> ProgramText:
        made = super().__new__(cls, text)
        made.name = name
        return made

    def kernel(self) -> Listing:
        """The kernel's own function and the definitions that it uses, conditions resolved."""
        return Listing(kernel(str(self), self.name))

    def __repr__(self) -> str:
        return str(self.kernel())


class Listing(str):
    """Text that shows itself as it is, also as the last line of a cell."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def kernel(text: str, name: str) -> str:
    """What of the text is the kernel `name`; all of it where it is short or written in a way that this does not read.
    """
    if text.count("\n") <= SHORT:
        return text
    lines = resolved(text)
    body = _function(lines, name)
    if body is None:
        return text
    functions = {m[1]: part for part in _inline(lines) if (m := re.search(r"(\w+)\(", part[0]))}
    texts = {m[1]: line for line in lines if (m := DEFINE.match(line))}
    texts |= {n: "\n".join(part) for n, part in functions.items() if n.startswith(FUSED)}
    used = _used("\n".join(body), texts)
    melted = [line for n, part in functions.items() if n in used and n.startswith(FUSED) for line in part]
    others = [n for n in functions if n in used and not n.startswith(FUSED)]
    shown = [*(line for line in lines if (m := DEFINE.match(line)) and m[1] in used), *melted, "", *body]
    whole, calls = text.count("\n") + 1, f"; it calls {', '.join(others)}" if others else ""
    first = f"// {name}: {len(shown)} of {whole} lines, as conditions and definitions leave it{calls}"
    return "\n".join([first, *shown]) + "\n"


def _inline(lines: list[str]) -> list[list[str]]:
    """The functions beside the kernel, on one line or up to the brace that closes them."""
    found = []
    for k, line in enumerate(lines):
        if line.startswith(("inline ", "INLINE ", "static ")) and "(" in line:
            closing = (j for j in range(k, len(lines)) if lines[j].startswith("}"))
            end = k if line.rstrip().endswith("}") else next(closing, k)
            found.append(lines[k : end + 1])
    return found


def resolved(text: str) -> list[str]:
    """The lines that the compiler sees. What hangs on something that is not in the text stays, with its conditions."""
    macros: dict[str, str] = {}
    lines: list[str] = []
    # per open condition: whether it is known, whether a branch was taken, whether this one is
    stack: list[list[Any]] = []
    for line in text.replace("\\\n", "\x00").split("\n"):
        found = DIRECTIVE.match(line)
        word = found[1] if found else ""
        rest = re.sub(r"//.*|/\*.*?\*/", "", found[2]).strip() if found else ""
        live = all(level[2] for level in stack)
        if word in ("if", "ifdef", "ifndef"):
            value = _condition(rest, macros, word) if live else False
            stack.append([value is not None, bool(value) or value is None, value is None or value])
        elif word in ("elif", "else", "endif") and stack:
            _next_branch(stack, word, rest, macros)
        elif live and word == "define" and (m := DEFINE.match(line.strip())):
            macros[m[1]] = "" if m[2] else re.sub(r"//.*", "", m[3]).strip()
        open_question = word in CONDITIONS and bool(stack) and not stack[-1][0]
        if live and (word not in CONDITIONS or open_question):
            lines.append(line.replace("\x00", "\\\n"))
        if word == "endif" and stack:
            stack.pop()
    return lines


def _next_branch(stack: list[list[Any]], word: str, rest: str, macros: dict[str, str]) -> None:
    level = stack[-1]
    if not level[0] or word == "endif":
        return
    if level[1]:
        level[2] = False
        return
    value = (True if word == "else"
             else _condition(rest, macros, "if") if all(outer[2] for outer in stack[:-1]) else False)
    level[1] = level[2] = bool(value) or value is None


def _condition(text: str, macros: dict[str, str], word: str) -> bool | None:
    """Whether it holds; None where that depends on what the text does not define."""
    if word != "if":
        return (text in macros) == (word == "ifdef") if text in macros or not _foreign(text) else None
    try:
        return bool(_value(text, macros))
    except (ValueError, SyntaxError, RecursionError):
        return None


def _foreign(name: str) -> bool:
    """Names that a compiler or a runtime defines."""
    return name.startswith(("__", "cl_", "CL_"))


def _value(text: str, macros: dict[str, str]) -> Any:
    text = re.sub(r"\bdefined\s*\(?\s*(\w+)\s*\)?", lambda m: "1" if m[1] in macros else "0", text)
    for _ in range(16):
        if not (names := [w for w in WORD.findall(text) if not re.fullmatch(r"[uUlL]+", w)]):
            break
        if any(_foreign(w) and w not in macros for w in names):
            raise ValueError(text)
        text = WORD.sub(lambda m: f"({macros[m[0]]})" if macros.get(m[0]) else m[0] if re.fullmatch(r"[uUlL]+", m[0])
                        else "0", text)
    text = re.sub(r"\(\s*size_t\s*\)", "", text)
    text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or ")).replace("/", "//")
    return _computed(ast.parse(text.strip(), mode="eval").body)


def _computed(node: ast.AST) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BoolOp):
        values = [_computed(v) for v in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        value = _computed(node.operand)
        return not value if isinstance(node.op, ast.Not) else -value
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in BINARY:
        return BINARY[type(node.ops[0])](_computed(node.left), _computed(node.comparators[0]))
    if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        return BINARY[type(node.op)](_computed(node.left), _computed(node.right))
    raise ValueError(ast.dump(node))


def _function(lines: list[str], name: str) -> list[str] | None:
    """From the line with __kernel to the brace that closes the function."""
    at = next((k for k, line in enumerate(lines) if re.search(rf"\b{name}\s*\(", line)
               and "__kernel" in " ".join(lines[max(0, k - 2) : k + 1])), None)
    if at is None:
        return None
    start = next(k for k in range(at, -1, -1) if "__kernel" in lines[k])
    end = next((k for k in range(at, len(lines)) if lines[k].startswith("}")), None)
    return None if end is None else lines[start : end + 1]


def _used(body: str, texts: dict[str, str]) -> set[str]:
    """Every word of the function, and of the definitions behind those words."""
    used: set[str] = set()
    todo = set(WORD.findall(body))
    while todo:
        used |= todo
        todo = {w for name in todo & texts.keys() for w in WORD.findall(texts[name])} - used
    return used
