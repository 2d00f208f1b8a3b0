"""Writes mixed.npz: the losses of small networks that PyTorch trains in mixed precision (torch.autocast on its CPU),
with where they start.

    python tests/golden/make_mixed.py       needs torch; the test that reads the file does not

`<precision>.<network>.losses`, `<network>.<k>` (parameters in the order of `parameters()`), `x`, `y`. The networks are
those of tests/device/core/test_mixed.py under the same names. PyTorch also rounds biases, and gradients of weights,
which clnet keeps in float32.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

STEPS, RATE, DTYPES = 10, 0.1, {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
NETWORKS = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 48),
                                 nn.ReLU(), nn.Linear(48, 10)),
    "cnn": lambda: nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                 nn.Conv2d(8, 16, 3, padding=1), nn.Tanh(), nn.Flatten(),
                                 nn.Linear(256, 10)),
}


def main() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(32, 1, 8, 8), torch.randint(0, 10, (32,))
    arrays = {"x": x.numpy(), "y": y.numpy().astype(np.int32),
              "source": np.array(f"torch {torch.__version__}, autocast")}
    for name, make in NETWORKS.items():
        start = make().state_dict()
        arrays |= {f"{name}.{k}": v.numpy().copy() for k, v in enumerate(start.values())}
        for precision, dtype in DTYPES.items():
            model = make()
            model.load_state_dict(start)
            optimizer, losses = torch.optim.SGD(model.parameters(), lr=RATE), []
            scale = 2.0**10 if precision == "fp16" else 1.0
            for _ in range(STEPS):
                optimizer.zero_grad()
                with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
                    loss = nn.functional.cross_entropy(model(x).float(), y)
                (loss * scale).backward()
                for p in model.parameters():
                    p.grad /= scale
                optimizer.step()
                losses.append(loss.item())
            arrays[f"{precision}.{name}.losses"] = np.array(losses)
    np.savez(Path(__file__).resolve().parent / "mixed.npz", **arrays)


if __name__ == "__main__":
    main()
