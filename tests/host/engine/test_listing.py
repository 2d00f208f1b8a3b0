"""What is shown of a program: the kernel, its conditions resolved."""

from __future__ import annotations

import pytest

from clnet.engine.compile.listing import Listing, ProgramText, kernel, resolved

FILLER = "\n".join(f"#define UNUSED_{k} {k}" for k in range(80))
PROGRAM = f"""{FILLER}
#define WIDTH 8
#define TALL (WIDTH / 2) // rows
#define KIND DOT
#define DOT 1
#define TILE 2
#define STORE(i, v) epilogue(i, v)
inline void epilogue_other(size_t i, float v) {{ out[i] = -v; }}
inline void epilogue(size_t i, float v) {{
    out[i] = max(v, 0.0f);
}}
inline void pack(float x) {{
    nothing(x);
}}
#if KIND == TILE
__kernel void product(__global float* out) {{
    wrong(0);
}}
#elif KIND == DOT && WIDTH > 4
__kernel void product(__global float* out) {{
#if !defined(NARROW) || (WIDTH & 1)
    pack(1);
#else
    wrong(1);
#endif
#ifdef WIDTH
    for (size_t i = 0; i < TALL; i++) STORE(i, 1);
#endif
}}
#else
    wrong(2);
#endif
"""


def test_the_branch_that_is_compiled_with_what_it_uses():
    text = kernel(PROGRAM, "product")
    assert "wrong" not in text and "UNUSED" not in text and "#if" not in text and "epilogue_other" not in text
    assert all(part in text for part in ("#define WIDTH 8", "#define TALL", "#define STORE", "max(v, 0.0f)",
                                         "void epilogue", "for (size_t i"))
    assert text.splitlines()[0].endswith("; it calls pack")
    assert "nothing(x)" not in text


def test_a_short_program_and_one_without_the_name_stay_whole():
    short = "__kernel void f() {\n}\n"
    assert kernel(short, "f") == short
    assert kernel(PROGRAM, "absent") == PROGRAM


@pytest.mark.parametrize("condition", ["cl_khr_fp64", "__NVPTX__ > 3", "defined(", "1 ? 2 : 3"])
def test_what_the_text_does_not_decide_stays_with_its_condition(condition):
    word = "ifdef" if condition == "cl_khr_fp64" else "if"
    text = f"#{word} {condition}\na\n#else\nb\n#endif\nc"
    assert resolved(text) == text.split("\n")


def test_conditions_in_conditions_and_definitions_on_several_lines():
    text = ("#define A 1\n#if A\n#if 0\nx\n#elif A == 1\ny\n#endif\n#define LONG a \\\n    b\n#undef A\n#endif\n"
            "#ifndef NOT\nz\n#endif")
    assert resolved(text) == ["#define A 1", "y", "#define LONG a \\\n    b", "#undef A", "z"]


def test_a_program_is_its_text_and_shows_its_kernel():
    program = ProgramText(PROGRAM, "product")
    assert program == PROGRAM and str(program) == PROGRAM
    assert repr(program) == kernel(PROGRAM, "product") == repr(program.kernel())
    assert isinstance(program.kernel(), Listing)
