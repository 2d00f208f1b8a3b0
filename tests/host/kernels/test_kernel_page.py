"""docs/kernels.md is what the table of variants says; every kernel has a Python file of its name."""

from __future__ import annotations

import re
from pathlib import Path

from clnet.kernels import tuning
from clnet.kernels.variant import VARIANTS
from clnet.workbench import kernel_page

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_made_of_the_code() -> None:
    kept = (ROOT / kernel_page.PAGE).read_text("utf-8")
    assert kept == kernel_page.page(), "python -m clnet.workbench.kernel_page writes it"


def test_every_variant_lies_in_the_file_of_its_kernel() -> None:
    kernel_page.page()  # imports all of them
    every = [row for rows in VARIANTS.values() for row in rows]
    assert len(every) > 30
    for row in every:
        assert row.ask.__module__.rpartition(".")[2] == Path(row.cl).stem, row.name
        assert (ROOT / "cl_kernels" / row.cl).is_file()


def test_every_example_is_served_by_the_same_family_everywhere() -> None:
    kernel_page.page()
    taken = {(op, profile): kernel_page.choice(op, shapes, attrs, profile).taken
             for op, shapes, attrs in kernel_page.EXAMPLES for profile in kernel_page.SHOWN}
    assert len({(op, row.name) for (op, _), row in taken.items() if row is not None}) >= 8


def test_every_number_has_a_meaning() -> None:
    assert [f"{section} {name}" for section in tuning.sections() for name, about in tuning.meanings(section).items()
            if not re.search(r"\w", about)] == []
