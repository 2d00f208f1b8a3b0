"""CRF by brute force: the scores of all taggings, one by one."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from rules import by


def _scores(sample: Any, steps: int, p: Any) -> dict[tuple[int, ...], Any]:
    """The score of each tagging of so many steps."""
    found = {}
    for y in itertools.product(range(sample.shape[1]), repeat=steps):
        s = p["start"][y[0]] + p["end"][y[-1]] + sum(sample[t, tag] for t, tag in enumerate(y))
        found[y] = s + sum(p["transitions"][a, b] for a, b in itertools.pairwise(y))
    return found


@by("all taggings, one by one")
def crf(c: Any, x: Any, p: Any) -> Any:
    emissions, *more = x
    out = []
    for n, sample in enumerate(emissions):
        steps = int(more[1][n]) if len(more) > 1 else len(sample)
        scores = _scores(sample, steps, p)
        if more:
            out.append(scores[tuple(more[0][n, :steps].tolist())] - torch.logsumexp(torch.stack([*scores.values()]), 0))
        else:
            out.append(torch.tensor([*max(scores, key=lambda y: float(scores[y]))]))
    return torch.stack(out)


RULES = {"CRF": crf}
