"""OpenCL C types: how a dtype is stored, what it is computed in, and the conversions between, for any vector width."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..device.devices import Device

Number = float | np.generic  # the value of a constant

STORAGE = {
    "float32": "float", "float64": "double", "float16": "half", "bfloat16": "ushort", "bool": "uchar",
    "int8": "char", "int16": "short", "int32": "int", "int64": "long",
    "uint8": "uchar", "uint16": "ushort", "uint32": "uint", "uint64": "ulong",
}
REGISTER = STORAGE | {"float16": "float", "bfloat16": "float"}
MASK = {"float": "int", "double": "long", "char": "char", "uchar": "char", "short": "short", "ushort": "short",
        "int": "int", "uint": "int", "long": "long", "ulong": "long"}
BYTES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "half": 2, "int": 4, "uint": 4, "float": 4,
         "long": 8, "ulong": 8, "double": 8}
LIMITS = {"char": ("CHAR_MIN", "CHAR_MAX"), "uchar": ("0", "UCHAR_MAX"), "short": ("SHRT_MIN", "SHRT_MAX"),
          "ushort": ("0", "USHRT_MAX"), "int": ("INT_MIN", "INT_MAX"), "uint": ("0", "UINT_MAX"),
          "long": ("LONG_MIN", "LONG_MAX"), "ulong": ("0", "ULONG_MAX"),
          "float": ("-INFINITY", "INFINITY"), "double": ("-INFINITY", "INFINITY")}
FUNCTIONS = ("NDTR", "GELU", "GELU_SLOPE", "TANH")  # of include/functions.h


def vector(ctype: str, lanes: int) -> str:
    return ctype if lanes == 1 else f"{ctype}{lanes}"


def literal(value: Number, dtype: str) -> str:
    """The C literal of a number in the register type of dtype."""
    ctype = REGISTER[dtype]
    if ctype in ("float", "double"):
        v = float(value)
        if math.isinf(v) or math.isnan(v):
            return "NAN" if v != v else "INFINITY" if v > 0 else "(-INFINITY)"
        suffix = "f" if ctype == "float" else ""
        text = f"{v!r}{suffix}" if "." in repr(v) or "e" in repr(v) else f"{v!r}.0{suffix}"
        return text if v >= 0 else f"({text})"
    if ctype == "long" and int(value) == -(2**63):
        return "LONG_MIN"
    suffix = {"ulong": "UL", "long": "L", "uint": "u"}.get(ctype, "")
    return f"{int(value)}{suffix}" if int(value) >= 0 else f"({int(value)}{suffix})"


def load(pointer: str, at: str, dtype: str, lanes: int, cast: bool = False) -> str:
    """An expression of the register type: `lanes` contiguous elements from pointer + at;
    `cast` where that is aligned to the vector.
    """
    where = f"{pointer} + {at}" if at != "0" else pointer
    if dtype == "float16":
        return f"vload_half({at}, {pointer})" if lanes == 1 else f"load_half_{lanes}({where})"
    kind = vector(STORAGE[dtype], lanes)
    whole = f"*(__global const {kind}*)({where})" if cast else f"LOAD_{kind}({where})"
    raw = f"{pointer}[{at}]" if lanes == 1 else whole
    if dtype == "bfloat16":
        return f"as_{vector('float', lanes)}(convert_{vector('uint', lanes)}({raw}) << 16)"
    return raw


def store(value: str, pointer: str, at: str, dtype: str, lanes: int, cast: bool = False, past: bool = False) -> str:
    """A statement that writes a register value; `cast` where the place is aligned to the vector,
    `past` where it is and caches are passed by.
    """
    where = f"{pointer} + {at}" if at != "0" else pointer
    if dtype == "float16":
        return f"vstore_half_rte({value}, {at}, {pointer});" if lanes == 1 else f"store_half_{lanes}({value}, {where});"
    if dtype == "bfloat16":
        value = f"to_bfloat16_{lanes}({value})"
    if past and lanes > 1:
        return f"__builtin_nontemporal_store({value}, (__global {vector(STORAGE[dtype], lanes)}*)({where}));"
    if cast and lanes > 1:
        return f"*(__global {vector(STORAGE[dtype], lanes)}*)({where}) = {value};"
    return f"{pointer}[{at}] = {value};" if lanes == 1 else f"STORE_{vector(STORAGE[dtype], lanes)}({value}, {where});"


def convert(value: str, have: str, want: str, lanes: int) -> str:
    """A register value of dtype `have` as a register value of dtype `want`, rounded to it where it is narrower."""
    source, target = REGISTER[have], REGISTER[want]
    if want == "bool" and have != "bool":
        return f"BOOL_{vector(source, lanes)}({value} != ({vector(source, lanes)})(0))"
    if want in ("float16", "bfloat16") and have != want:
        single = value if source == "float" else f"convert_{vector('float', lanes)}({value})"
        return f"round_{want}_{lanes}({single})"
    return value if source == target else f"convert_{vector(target, lanes)}({value})"


# Starts fetching the line at a __global pointer, which may lie behind the end, into the second-level cache. OpenCL's
# own prefetch is a call on CPUs: registers are saved around it.
PREFETCH = """#ifdef __clang__
#define PREFETCH(p) __builtin_prefetch((__global const char*)(p), 0, 2)
#else
#define PREFETCH(p)
#endif"""


def typed(text: str, ctype: str) -> str:
    """The text whose calls of FUNCTIONS by their bare names are those of one type."""
    return re.sub(rf"\b({'|'.join(FUNCTIONS)})\(", rf"\1_{ctype}(", text)


def mentions(text: str, words: Sequence[str], rest: str) -> list[tuple[str, ...]]:
    """What the text has of `word_rest`, each once, in order: the word and the groups of the pattern `rest`.

    Programs are long and have few of the words: only those are searched for that are there.
    """
    there = [word for word in words if f"{word}_" in text]
    return sorted(set(re.findall(rf"\b({'|'.join(there)})_{rest}", text))) if there else []


def helpers(text: str, device: Device) -> str:
    """Definitions of the macros and functions that `text` mentions, for each type and width it mentions them
    with, as the device can.
    """
    out = [PREFETCH] if "PREFETCH(" in text else []
    for word, ctype, lanes in mentions(text, ("TEST", "BOOL"), r"([a-z]+)(\d*)\b"):
        mask = vector(MASK[ctype], int(lanes or 1))
        if word == "TEST":
            out.append(f"#define TEST_{ctype}{lanes}(b) ({f'convert_{mask}(b)' if lanes else '(b)'} != ({mask})(0))")
        else:
            out.append(f"#define BOOL_{ctype}{lanes}(c) "
                       f"{f'convert_uchar{lanes}((c) & ({mask})(1))' if lanes else '((uchar)((c) ? 1 : 0))'}")
    out += [_anywhere(ctype, lanes, device.known.plain_loads)
            for ctype, lanes in sorted({m[1:] for m in mentions(text, ("LOAD", "STORE"), r"([a-z]+)(\d+)\(")})]
    out += [_load_half(int(lanes), not device.known.half_vectors)
            for _, lanes in mentions(text, ["load_half"], r"(\d+)\(")]
    out += [_store_half(int(lanes), not device.known.half_vectors)
            for _, lanes in mentions(text, ["store_half"], r"(\d+)\(")]
    for name, lanes in mentions(text, ("to_bfloat16", "round_bfloat16", "round_float16"), r"(\d+)\b"):
        if "bfloat16" in name and f"to_bfloat16_{lanes}(" not in "".join(out):
            out.append(_to_bfloat16(int(lanes), device.ampere))
        if name == "round_bfloat16":
            f, u = vector("float", int(lanes)), vector("uint", int(lanes))
            out.append(f"inline {f} round_bfloat16_{lanes}({f} x) "
                       f"{{ return as_{f}(convert_{u}(to_bfloat16_{lanes}(x)) << 16); }}")
        if name == "round_float16":
            out.append(_round_float16(int(lanes)))
    out += [_stochastic(int(lanes or 1)) for _, _, lanes in mentions(text, ["STOCHASTIC"], r"(float)(\d*)\b")]
    return "\n".join(out)


def _anywhere(ctype: str, lanes: str, plain: bool) -> str:
    """Vectors at __global pointers that are aligned to their elements: by OpenCL's own functions, or `plain` pointers
    to vectors of such alignment.
    """
    kind = ctype + lanes
    if not plain:
        return f"#define LOAD_{kind}(p) vload{lanes}(0, p)\n#define STORE_{kind}(v, p) vstore{lanes}(v, 0, p)"
    return (f"typedef {kind} {kind}_anywhere __attribute__((aligned(sizeof({ctype}))));\n"
            f"#define LOAD_{kind}(p) (*(__global const {kind}_anywhere*)(p))\n"
            f"#define STORE_{kind}(v, p) (*(__global {kind}_anywhere*)(p) = (v))")


def _load_half(lanes: int, apart: bool) -> str:
    """vload_half of `lanes`; `apart`: of a copy, which is aligned to the vector."""
    if not apart:
        return f"#define load_half_{lanes}(p) vload_half{lanes}(0, p)"
    return (f"inline float{lanes} load_half_{lanes}(__global const half* p) "
            f"{{ const ushort{lanes} copy = vload{lanes}(0, (__global const ushort*)p); "
            f"return vload_half{lanes}(0, (const half*)&copy); }}")


def _to_bfloat16(lanes: int, ptx: bool) -> str:
    """Round to nearest even: by PTX's instruction for two, or on the bits;
    NaN stays NaN (adding the rounding bias could carry it to infinity).
    """
    f, u, s = (vector(t, lanes) for t in ("float", "uint", "ushort"))
    head = f"inline {s} to_bfloat16_{lanes}({f} x) {{"
    if not ptx:
        return (f"{head}\n    const {u} b = as_{u}(x);\n"
                f"    return convert_{s}(x != x ? ({u})(0x7fc0u) : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16);\n}}")
    pair = f"pair_bfloat16_{lanes}"
    words = ", ".join(f"{pair}(x.s{i:x}, x.s{i + 1:x})" for i in range(0, lanes, 2))
    value = f"as_{s}(({vector('uint', lanes // 2)})({words}))" if lanes > 1 else f"(ushort){pair}(x, 0)"
    return (f'inline uint {pair}(float lo, float hi) '
            f'{{ uint w; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(hi), "f"(lo)); return w; }}\n'
            f"{head} return {value}; }}")


def _round_float16(lanes: int) -> str:
    """Round to nearest even on the bits (below 2⁻¹⁴ to multiples of 2⁻²⁴): no detour through memory as half."""
    f, u, i = (vector(t, lanes) for t in ("float", "uint", "int"))
    return (f"inline {f} round_float16_{lanes}({f} x) "
            f"{{\n    const {f} m = fabs(x), small = rint(m * 0x1p24f) * 0x1p-24f;\n"
            f"    const {u} r = (as_{u}(m) + 0xfffu + ((as_{u}(m) >> 13) & 1u)) & ~0x1fffu;\n"
            f"    const {f} big = r < 0x47800000u ? as_{f}(r) : ({f})(INFINITY);\n"
            f"    return x != x ? x : copysign(as_{i}(m) < 0x38800000 ? small : big, x);\n}}")


def _stochastic(lanes: int) -> str:
    """x to bfloat16's values: away from 0 where its lower bits and y, below 2¹⁶, carry."""
    f, u = vector("float", lanes), vector("uint", lanes)
    return (f"inline {f} STOCHASTIC_{f}({f} x, {f} y) "
            f"{{ return x != x ? x : as_{f}((as_{u}(x) + convert_{u}(y)) & 0xffff0000u); }}")


def _store_half(lanes: int, by_lane: bool) -> str:
    """vstore_half, lane by lane where the runtime's own expects aligned vectors (PoCL 3.0 dies of odd row lengths)."""
    whole = f"vstore_half{lanes}_rte(x, 0, p);"
    single = f"float t[{lanes}]; vstore{lanes}(x, 0, t); for (int l = 0; l < {lanes}; ++l) vstore_half_rte(t[l], l, p);"
    body = single if by_lane else whole
    return f"inline void store_half_{lanes}({vector('float', lanes)} x, __global half* p) {{ {body} }}"
