"""Reservoirs: recurrent networks that are drawn and never trained."""

from __future__ import annotations

import numpy as np

from .. import init
from .. import ops as F
from ..config.fields import bound, field, positive
from ..core.tensor import Tensor
from ..errors import ConfigError
from ..ops.activations import activation
from .base import New
from .fields import Act
from .kept import Keeping

DRAWS = 100  # matrices that are tried: sparse small ones may have no cycle, and with it no eigenvalue but 0


class Reservoir(Keeping):
    """s_t = (1 − a) s_{t−1} + a · act(input_scaling · W_in x_t + W_res s_{t−1} + bias),  y_t = s_t

    x (N, T, in_features), y (N, T, reservoir_size); s_0 = 0, or, with keep_state, the last state of the call before.
    W_in (R, in) ~ U(−½, ½), W_res (R, R) with a share `density` of entries ~ U(−½, ½), scaled to a largest |eigenvalue|
    of spectral_radius, bias (R), the `offset`, ~ bias_scaling · U(−½, ½): buffers, which no optimizer sees; gradients
    go to x alone.
    Paper: Jaeger 2001, GMD report 148; Lukosevicius 2012, doi:10.1007/978-3-642-35289-8_36.
    """

    spec_name = "ReservoirLayer"
    aliases = ("EchoStateNetwork", "ESN")
    in_features: int | None = bound(doc="size of the last axis of the input")
    reservoir_size: int = positive(doc="R, how many units there are")
    spectral_radius: float = field(0.9, doc="largest |eigenvalue| of W_res", ge=0)
    density: float = field(0.1, doc="share of the entries of W_res that are not 0", gt=0, le=1)
    input_scaling: float = field(1.0, doc="factor of W_in x")
    leak_rate: float = field(1.0, doc="a, the share of a state that is new", gt=0, le=1)
    bias_scaling: float = field(0.0, doc="factor of the bias")
    activation: Act = field("tanh", doc="name of the function of a step; None: identity")
    keep_state: bool = field(False, doc="whether a call starts from the last state of the one before")
    signature = "N T in_features -> N T reservoir_size"
    examples = [(dict(in_features=2, reservoir_size=6, density=0.4), [(3, 5, 2)]),
                (dict(reservoir_size=5, density=0.5, leak_rate=0.3, bias_scaling=1.0, input_scaling=0.5,
                      spectral_radius=1.2), [(2, 4, 3)])]

    def setup(self, new: New) -> None:
        r = self.reservoir_size
        new._sized((r, r))
        self.w_in = new.buffer(init.uniform((r, self.in_features or 0), 0.5))
        self.w_res = new.buffer(self._matrix(r))
        self.offset = new.buffer(self.bias_scaling * init.uniform((r,), 0.5))

    def _matrix(self, r: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        rng = init.generator()
        for _ in range(DRAWS):
            w = rng.uniform(-0.5, 0.5, (r, r)) * (rng.uniform(size=(r, r)) < self.density)
            # A matrix without a cycle is nilpotent: what its eigenvalues are then is rounding.
            if (largest := float(np.abs(np.linalg.eigvals(w)).max())) > 1e-3 * float(np.abs(w).max(initial=0.0)) > 0:
                return np.asarray(w * (self.spectral_radius / largest), np.float32)
        raise ConfigError(f"Reservoir: expected a matrix with a cycle; got none in {DRAWS} draws of size {r}, density "
                          f"{self.density}; raise density.")

    def forward(self, x: Tensor) -> Tensor:
        shape = (x.shape[0], self.reservoir_size)
        start = self.kept(shape, {"state": 0.0})["state"] if self.keep_state else F.zeros(shape, x.dtype)
        a, act = self.leak_rate, activation(self.activation)
        plain = self.activation == "tanh" and a == 1

        def cell(xp: Tensor, s: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
            return (1 - a) * s + a * act(xp + F.linear(s, w, b))

        ys, last = F.recur(F.rnn_cell if plain else cell, F.permute(x, (1, 0, 2)), start,
                           self.input_scaling * self.w_in.tensor, self.w_res.tensor, self.offset.tensor)
        if self.keep_state:
            self.keep({"state": F.detach(last)})
        return F.permute(ys, (1, 0, 2))
