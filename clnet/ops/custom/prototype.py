"""The head of a kernel in OpenCL C: which buffers it reads and writes, which numbers it takes."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...errors import ConfigError

C_TYPES = {"float": "float32", "double": "float64", "char": "int8", "short": "int16", "int": "int32", "long": "int64",
           "uchar": "uint8", "ushort": "uint16", "uint": "uint32", "ulong": "uint64", "size_t": "uint64", "T": "T",
           "unsigned int": "uint32", "unsigned char": "uint8", "unsigned long": "uint64",
           "unsigned short": "uint16", "unsigned": "uint32"}
# What else may be stored as a C type, where the definition says so.
ALSO = {"uint8": ("bool",)}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
HEAD = re.compile(r"\b(?:__kernel|kernel)\b((?:\s*__attribute__\s*\(\(.*?\)\))*)\s+void\b"
                  r"((?:\s*__attribute__\s*\(\(.*?\)\))*)\s*(\w+)\s*\(", re.DOTALL)
QUALIFIERS = re.compile(r"\b(?:__)?(?:restrict|volatile|private|read_only|write_only)\b")


class Parameter(NamedTuple):
    """A parameter: its name, the dtype that its C type stores ("T": any float), whether it is a buffer, and written."""

    name: str
    dtype: str
    buffer: bool
    written: bool


class Prototype(NamedTuple):
    """A kernel's name and parameters, and the text with PARAMS and BEGIN where clnet declares them in its own way."""

    name: str
    parameters: tuple[Parameter, ...]
    text: str


def read(who: str, source: str, entry: str = "") -> Prototype:
    """The kernel `entry` of a source, or its only one. Raises ConfigError for what is none, or more than one."""
    bare = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)
    heads = [m for m in HEAD.finditer(bare) if not entry or m[3] == entry]
    if len(heads) != 1:
        names = ", ".join(m[3] for m in HEAD.finditer(bare)) or "none"
        wanted = f"the kernel {entry!r}" if entry else "one __kernel void function, or entry= with the name of one"
        raise ConfigError(f"{who}: expected a source with {wanted}; got {names}.")
    (head,) = heads
    start, depth = head.end(), 1
    end = start
    while end < len(bare) and depth:
        depth += {"(": 1, ")": -1}.get(bare[end], 0)
        end += 1
    brace = bare.find("{", end)
    if depth or brace < 0 or bare[end:brace].strip():
        raise ConfigError(f"{who}: expected `{head[3]}(...) {{` in the source; got no body behind its parameters.")
    listed = bare[start : end - 1].strip()
    found = tuple(_parameter(who, p) for p in listed.split(",")) if listed not in ("", "void") else ()
    # Lines stay where they were: errors of the compiler speak of them.
    lines = "\n" * source[start : end - 1].count("\n")
    text = f"{source[:start]}PARAMS{lines}{source[end - 1 : brace + 1]} BEGIN{source[brace + 1 :]}"
    return Prototype(head[3], found, text)


def _parameter(who: str, text: str) -> Parameter:
    plain = " ".join(QUALIFIERS.sub(" ", text).replace("*", " * ").split())
    if re.search(r"\b(__local|local)\b", plain):
        raise ConfigError(f"{who}: expected buffers and numbers as parameters; got {plain!r}; declare local memory in "
                          "the kernel, with a macro for its length: `__local float part[GROUP];`.")
    found = re.fullmatch(r"(?P<q>(?:(?:__)?(?:global|constant)|const)\b(?: ))*(?P<type>unsigned \w+|\w+)"
                         r"(?P<c> const)?(?P<star> \*)?(?: const)? (?P<name>\w+)", plain)
    if not found or found["type"] not in C_TYPES:
        raise ConfigError(f"{who}: expected parameters such as `__global const float* x` and `const uint n`; "
                          f"got {plain!r}; types are {', '.join(C_TYPES)}.")
    constant = bool(re.match(r".*\bconst\b.*\*|.*\b(__)?constant\b", plain))
    return Parameter(found["name"], C_TYPES[found["type"]], bool(found["star"]), bool(found["star"]) and not constant)


def fits(parameter: Parameter, dtype: str) -> bool:
    """Whether values of dtype are stored as the parameter's type."""
    if parameter.dtype == "T":
        return dtype in ("float32", "float64")
    return dtype == parameter.dtype or dtype in ALSO.get(parameter.dtype, ())
