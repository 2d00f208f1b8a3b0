"""Several programs as one: a compiler that needs long for the smallest program reads and starts once for all of them.

Each keeps its kernels' names. What else it names at the top level gets a number, and its macros end with it, so that
texts that know nothing of each other can follow each other.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)")
# What may stand at the top level: functions, constants and names of types.
NAMED = (re.compile(r"^(?:static |inline |INLINE |__kernel |void )[^={;]*?\b(\w+)\s*\("),
         re.compile(r"^__constant [^({;]*?\b(\w+)\s*[\[=]"),
         re.compile(r"^typedef [^({;]*?\b(\w+)\s*(?:\[[^\]]*\]\s*)?;"))
FOREIGN = ("FP_CONTRACT", "#include", "# include")  # what would go on in the next text, or is not all there


@functools.lru_cache(256)
def outer(text: str) -> frozenset[str] | None:
    """The names that a program declares at its top level; None where it says something there that is not understood."""
    plain = DIRECTIVE.sub("", COMMENT.sub("", text))
    if any(word in text for word in FOREIGN):
        return None
    found, depth, start = set[str](), 0, 0
    for m in re.finditer(r"[{};]", plain):
        depth += {"{": 1, "}": -1}.get(m[0], 0)
        if m[0] == "{" and depth == 1 or m[0] == ";" and depth == 0:
            said = " ".join(ATTRIBUTE.sub("", plain[start:m.end()]).split())
            name = next((n[1] for pattern in NAMED if (n := pattern.match(said))), None)
            if name is None and said not in (";", "{"):
                return None
            found |= {name} if name else set()
        if depth == 0:
            start = m.end()
    return frozenset(found) if depth == 0 and not plain[start:].strip() else None


def joined(programs: Iterable[tuple[str, Sequence[str]]]) -> str:
    """One text of (text, names of its kernels that are asked for); no two may ask for the same name, and `outer` must
    understand each.
    """
    parts = []
    for k, (text, kernels) in enumerate(programs):
        macros = set(MACRO.findall(text))
        names = sorted((outer(text) or frozenset()) - macros - set(kernels))
        parts += [*(f"#define {n} {n}_{k}" for n in names), text, *(f"#undef {n}" for n in (*names, *sorted(macros)))]
    return "\n".join(parts) + "\n"
