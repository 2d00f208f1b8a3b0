"""Where searches of a minimum end by SciPy, and each step of PyTorch's L-BFGS: down the Valley of
clnet.workbench.evidence.step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Arrays = list[Any]
# Of a variant's fields and the gradients of each step (of searches: what the parameters aim at): the parameters after
# each step.
Path_ = Callable[[dict[str, Any], Arrays, Arrays], Sequence[Arrays]]
SEARCHED = (1, 2, 3, 5, 8)  # steps of L-BFGS that are kept


def valley(w: Any, target: Any) -> Any:
    """r, with PyTorch's tensors."""
    import torch

    return torch.cat([w - target, 0.3 * w * w, 0.1 * w.sum().reshape(1)])


def by_scipy(method: str) -> Path_:
    """The minimum that SciPy finds, as the end of the path."""

    def path(fields: dict[str, Any], starts: Arrays, targets: Arrays) -> Sequence[Arrays]:
        import torch
        from scipy.optimize import least_squares, minimize

        start, target = (np.concatenate([np.ravel(a) for a in part]).astype(np.float64) for part in (starts, targets))
        goal = torch.tensor(target)

        def loss(w: Any) -> Any:
            r = valley(w, goal)
            return 0.5 * (r * r).sum()

        def slope(w: Any) -> Any:
            return torch.autograd.functional.jacobian(loss, torch.tensor(w)).numpy()

        def curvature(w: Any) -> Any:
            return torch.autograd.functional.hessian(loss, torch.tensor(w)).numpy()

        if method == "lm":
            found = least_squares(lambda w: valley(torch.tensor(w), goal).numpy(), start, method="lm", xtol=1e-15,
                                  ftol=1e-15, gtol=1e-15).x
        else:
            second = {"hess": curvature} if method in ("Newton-CG", "trust-ncg") else {}
            found = minimize(lambda w: loss(torch.tensor(w)).item(), start, jac=slope, method=method, tol=1e-13,
                             **second).x
        assert np.abs(slope(found)).max() < 1e-6, f"{method} did not reach the minimum"
        return [[np.reshape(found[a:b], s.shape) for a, b, s in zip((0, 12), (12, 17), starts, strict=True)]]

    return path


def by_their_lbfgs(fields: dict[str, Any], starts: Arrays, targets: Arrays) -> Sequence[Arrays]:
    """Every step of PyTorch's L-BFGS without a line search."""
    import torch

    params = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in starts]
    goal = torch.cat([torch.tensor(a, dtype=torch.float64).ravel() for a in targets])
    optimizer = torch.optim.LBFGS(params, lr=fields["lr"], max_iter=1, history_size=fields.get("history", 10),
                                  tolerance_grad=0.0, tolerance_change=0.0)

    def closure() -> Any:
        optimizer.zero_grad()
        r = valley(torch.cat([p.ravel() for p in params]), goal)
        loss = 0.5 * (r * r).sum()
        loss.backward()
        return loss

    out = []
    for _ in range(max(SEARCHED)):
        optimizer.step(closure)
        out.append([p.detach().numpy().copy() for p in params])
    return out
