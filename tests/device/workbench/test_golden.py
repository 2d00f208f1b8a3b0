"""Independent evidence: values that another library computed once (clnet/workbench/evidence/golden), without that
library; properties that only the right formula has.

Layers, losses and optimizers meet their values on the reference in their own test files, on a device in the status
table.
"""

from __future__ import annotations

from typing import Any

import pytest

from clnet.workbench.evidence import golden, properties, registry
from clnet.workbench.evidence.checks import worst

SUBJECTS = {(s.kind, s.name): s for s in registry.subjects()}


def named(subjects: Any) -> Any:
    return [pytest.param(s, id=f"{s.kind}-{s.name}") for s in subjects]


OPS = named(s for s in SUBJECTS.values() if s.kind == "op")
DECLARED = named(s for s in SUBJECTS.values() if properties.of(s))


# --- values
@pytest.mark.parametrize("subject", OPS)
def test_device_agrees(subject: Any, engine: Any) -> None:
    found = golden.compare(subject, engine)
    assert found or properties.of(subject), f"{subject.name} has no independent values: see tests/golden/make_ops.py"
    assert worst(subject.name, found), str(worst(subject.name, found))


# --- properties
@pytest.mark.parametrize("subject", DECLARED)
def test_properties_hold(subject: Any, engine: Any) -> None:
    result = worst("properties", properties.check(subject, engine))
    assert result, str(result)
