"""Connectionist temporal classification: the recursion over the extended target in PyTorch, held to F.ctc_loss;
gradients by its own walk back.

PyTorch's own gradient of F.ctc_loss is that by the logits (it adds e^x), whatever the input is.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

NEVER = -1e30  # in place of −∞, whose gradient is not a number


def _one(lp: Any, y: list[int], blank: int) -> Any:
    """−ln of the sum over alignments, for lp (frames, classes)."""
    states = [blank, *(c for label in y for c in (label, blank))]
    alpha = [lp[0, s] if k < 2 else lp.new_tensor(NEVER) for k, s in enumerate(states)]
    for row in lp[1:]:
        before = alpha
        alpha = [torch.logsumexp(torch.stack(_reaching(before, k, s != blank and s != states[k - 2])), 0) + row[s]
                 for k, s in enumerate(states)]
    return -torch.logsumexp(torch.stack(alpha[-2:]), 0)


def _reaching(alpha: list[Any], k: int, skips: bool) -> list[Any]:
    """The states of the frame before from which state k is reached: itself, the one before, and over a blank the label
    before that.
    """
    return [alpha[k], *alpha[max(k - 1, 0) : k], *(alpha[k - 2 : k - 1] if k > 1 and skips else [])]


def ctc(lp: Any, targets: Any, frames: Any, labels: Any, blank: int, width: int) -> Any:
    starts, found = 0, []
    for n, (t, s) in enumerate(zip(frames.tolist(), labels.tolist(), strict=True)):
        y = targets[starts : starts + s] if targets.ndim == 1 else targets[n, :s]
        starts += s
        value = _one(lp[:t, n], y.tolist(), blank) if t else lp.new_tensor(0.0 if not s else torch.inf)
        found.append(value if value < -NEVER / 2 else value.detach() * 0 + torch.inf)
    own, theirs = torch.stack(found), F.ctc_loss(lp, targets.long(), frames.long(), labels.long(), blank, "none")
    assert torch.allclose(own[frames > 0], theirs[frames > 0], rtol=1e-12)
    return own


def ctc_slope(lp: Any, *more: Any, blank: int, width: int) -> Any:
    with torch.enable_grad():
        x = lp.detach().clone().requires_grad_()
        y = ctc(x, *more, blank, width)
        return torch.autograd.grad(y[torch.isfinite(y)].sum(), x)[0]


RULES = {"ctc": ctc, "ctc_slope": ctc_slope}
