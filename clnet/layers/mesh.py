"""Layers over meshes: vertices along spirals, edges with the edges of their triangles, diffusion over a surface.

Tables of neighbours are an input beside the values, or, of the one mesh that a layer is made for, kept in it as a
buffer that is saved with the weights.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .. import ops as F
from ..config.fields import bound, field, positive
from ..core.arrays import Sparse, as_array
from ..core.spec import INTS
from ..core.state import Variable
from ..core.tensor import Tensor
from ..errors import ConfigError, DataError, DTypeError, IndexingError, ShapeError
from ..ops.activations import activation
from ..ops.index import _gather
from .base import Layer, New
from .fields import Act

OPEN = -2  # in a table of neighbours that nobody has set


def neighbours(who: str, x: Tensor, table: Tensor) -> Tensor:
    """y[…, v, l] = x[…, table[v, l]], 0 where that is −1: x (…, V, C), table (V, L) -> (…, V, L, C). Raises ShapeError,
    DTypeError, and IndexingError for numbers outside that the host knows; on the device those give 0.
    """
    if table.dtype not in INTS or table.ndim != 2:
        raise (DTypeError if table.dtype not in INTS else ShapeError)(
            f"{who}: expected integer neighbours, a row for each of the rows of x; got {table.dtype}{table.shape}.")
    (count, many), lead, rows = table.shape, x.shape[:-2], x.shape[-2]
    if count != rows:
        raise ShapeError(f"{who}: expected a row of neighbours for each of the {rows} rows of x; got {table.shape}.")
    known = table.value
    if known is not None and known.size and (known.min() < -1 or known.max() >= rows):
        bad = int(known.max() if known.max() >= rows else known.min())
        raise IndexingError(f"{who}: expected neighbours from 0 to {rows - 1}, or -1 for none; got {bad}.")
    flat = F.reshape(F.cast(table, "int32"), (count * many,))
    y = _gather(F.reshape(x, (-1, rows, x.shape[-1])), F.where(flat < 0, rows, flat), fill="zero")
    return F.reshape(y, (*lead, rows, many, x.shape[-1]))


class _MeshLayer(Layer):
    """What layers share that may keep the table of one mesh."""

    kept: ClassVar[str]  # the field that says how many rows it has

    def _table(self, new: New, width: int) -> Variable | None:
        count = getattr(self, self.kept)
        return new.buffer(np.full((count, width), OPEN, np.int32)) if count else None

    def _keep(self, who: str, variable: Variable | None, table: Any) -> None:
        array = np.asarray(as_array(table, who))
        if variable is None:
            raise ConfigError(f"{type(self).__name__}.{who}: expected a layer made with {self.kept}={len(array)}, "
                              "which keeps a table; got one without, which is given the table beside x.")
        if array.shape != variable.shape or array.dtype.kind not in "iu":
            raise DataError(f"{type(self).__name__}.{who}: expected integers {variable.shape}; got {array.dtype} of "
                            f"shape {array.shape}.")
        if array.size and (array.min() < -1 or array.max() >= len(array)):
            raise IndexingError(f"{type(self).__name__}.{who}: expected numbers from 0 to {len(array) - 1}, or -1 for "
                                f"none; got {array.min()} to {array.max()}.")
        variable.assign(array.astype(np.int32))

    def _given(self, table: Tensor | None, variable: Variable | None, way: str) -> Tensor:
        """The table beside x, else the one that is kept. Raises ShapeError, ConfigError where there is none."""
        if table is not None:
            return table
        if variable is None:
            raise ShapeError(f"{type(self).__name__}: expected a table of neighbours beside x; got none; give one, or "
                             f"make the layer with {self.kept}= and call {way}(table).")
        if not vars(self).get("_set"):
            if variable.size and int(variable.numpy().min()) == OPEN:
                raise ConfigError(f"{type(self).__name__}: expected {way}(table) before the first call; got none.")
            vars(self)["_set"] = True
        return variable.tensor


class SpiralConv(_MeshLayer):
    """y_v = act([x_{s(v,0)} ; … ; x_{s(v,L−1)}] · Wᵀ + b)

    Inputs x (V, in_channels) or (N, V, in_channels), spirals s (V, spiral_length) integers: vertex v itself, then those
    around it, −1 where there is none, whose values are 0; W (out_channels, spiral_length · in_channels),
    b (out_channels); y (V, out_channels). With num_vertices the spirals of one mesh are kept (`set_indices`), and need
    not be given.
    Paper: Gong et al. 2019, arXiv:1911.05856.
    """

    spec_name = "SpiralConvLayer"
    kept = "num_vertices"
    in_channels: int | None = bound(doc="values of a vertex")
    out_channels: int = positive(doc="values of a vertex of the result")
    spiral_length: int = positive(doc="L, vertices of a spiral")
    num_vertices: int | None = field(None, doc="V of the mesh whose spirals are kept; None: they are an input", gt=0)
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field("relu", doc="name of the function applied last; None: identity")
    signature = "... V in_channels -> ... V out_channels"
    examples = [(dict(in_channels=3, out_channels=2, spiral_length=3, activation=None),
                 [(4, 3), np.array([[0, 1, 2], [1, 2, -1], [2, 3, 0], [3, 3, -1]], np.int32)]),
                (dict(out_channels=3, spiral_length=2, bias=False, activation="tanh"),
                 [(2, 3, 4), np.array([[0, 1], [1, -1], [2, 0]], np.int32)])]

    def setup(self, new: New) -> None:
        wide = self.spiral_length * (self.in_channels or 0)
        self.weight = new.weight(self.out_channels, wide)
        self.bias = new.bias(self.out_channels, fan_in=wide) if self.use_bias else None
        self.indices = self._table(new, self.spiral_length)

    def set_indices(self, indices: Any) -> None:
        """Keeps the spirals (num_vertices, spiral_length) of the mesh. Raises ConfigError, DataError, IndexingError."""
        self._keep("set_indices", self.indices, indices)

    def forward(self, x: Tensor, indices: Tensor | None = None) -> Tensor:
        table = self._given(indices, self.indices, "set_indices")
        if table.ndim == 2 and table.shape[1] != self.spiral_length:
            raise ShapeError(f"SpiralConv: expected spirals (V, {self.spiral_length}); got {table.shape}.")
        around = neighbours("SpiralConv", x, table)
        y = F.linear(F.reshape(around, (*x.shape[:-1], -1)), self.weight, self.bias)
        return activation(self.activation)(y)


class MeshEdgeConv(_MeshLayer):
    """y_e = act(f_e · Wᵀ + b),  f_e = [x_e ; x_a + x_c ; x_b + x_d ; |x_a − x_c| ; |x_b − x_d|]

    Inputs x (E, in_channels) or (N, E, in_channels), neighbours (E, 4) integers: a, b are the next two edges,
    counter-clockwise, of one triangle at e, c, d those of the other, −1 where there is none, whose values are 0; not
    `symmetric`: f = [x_e ; x_a ; x_b ; x_c ; x_d]. W (out_channels, 5 in_channels), b (out_channels);
    y (E, out_channels). With num_edges the neighbours of one mesh are kept (`set_neighbors`), and need not be given.
    Paper: Hanocka et al. 2019, arXiv:1809.05910.
    """

    spec_name = "MeshEdgeConvLayer"
    kept = "num_edges"
    in_channels: int | None = bound(doc="values of an edge")
    out_channels: int = positive(doc="values of an edge of the result")
    symmetric: bool = field(True, doc="whether the two triangles may be exchanged without a change")
    num_neighbors: int = field(4, doc="neighbours of an edge: those of triangles are four", ge=4, le=4)
    num_edges: int | None = field(None, doc="E of the mesh whose neighbours are kept; None: they are an input", gt=0)
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field("relu", doc="name of the function applied last; None: identity")
    signature = "... E in_channels -> ... E out_channels"
    examples = [(dict(in_channels=2, out_channels=3, activation="tanh"),
                 [(5, 2), np.array([[1, 2, 3, 4], [2, 0, -1, -1], [0, 1, 3, 4], [4, 0, 1, 2], [0, 3, -1, -1]],
                                   np.int32)]),
                (dict(out_channels=2, symmetric=False, bias=False, activation=None),
                 [(2, 3, 2), np.array([[1, 2, -1, -1], [2, 0, 0, 2], [0, 1, -1, -1]], np.int32)])]

    def setup(self, new: New) -> None:
        wide = 5 * (self.in_channels or 0)
        self.weight = new.weight(self.out_channels, wide)
        self.bias = new.bias(self.out_channels, fan_in=wide) if self.use_bias else None
        self.neighbors = self._table(new, self.num_neighbors)

    def set_neighbors(self, neighbors: Any) -> None:
        """Keeps the neighbours (num_edges, 4) of the mesh. Raises ConfigError, DataError, IndexingError."""
        self._keep("set_neighbors", self.neighbors, neighbors)

    def forward(self, x: Tensor, neighbors: Tensor | None = None) -> Tensor:
        table = self._given(neighbors, self.neighbors, "set_neighbors")
        if table.ndim == 2 and table.shape[1] != 4:
            raise ShapeError(f"MeshEdgeConv: expected neighbours (E, 4); got {table.shape}.")
        around = neighbours("MeshEdgeConv", x, table)
        a, b, c, d = (around[..., k, :] for k in range(4))
        parts = [x, a + c, b + d, abs(a - c), abs(b - d)] if self.symmetric else [x, a, b, c, d]
        return activation(self.activation)(F.linear(F.concat(parts, -1), self.weight, self.bias))


class DiffusionConv(Layer):
    """y = act([X₁ … X_S] · Wᵀ + b),  X_s = Φ (e^(−λ t_s) ⊙ (Φᵀ M X)): heat that spreads over a surface for times t_s

    Inputs x (V, in_features) or (N, V, in_features), λ (k), Φ (V, k), M=1 (V): eigenvalues and eigenvectors of the
    surface's Laplacian, L Φ = M Φ λ with Φᵀ M Φ = I, and the vertices' masses; `eigenbasis(L)` computes them.
    t = e^(log_t) (num_time_scales), spread evenly in the logarithm from t_min to t_max at first;
    W (out_features, num_time_scales · in_features), b (out_features); y (V, out_features). With num_nodes the basis of
    one surface is kept (`set_eigenbasis`, `set_laplacian`), k = min(num_eigenvectors, num_nodes), and need not be
    given.
    Paper: Sharp et al. 2022, arXiv:2012.00888 (there with one time a channel).
    """

    spec_name = "DiffusionConvLayer"
    family = "graph"
    in_features: int | None = bound(doc="features of a vertex")
    out_features: int = positive(doc="features of a vertex of the result")
    num_time_scales: int = positive(4, doc="S, how many times there are")
    num_eigenvectors: int = positive(128, doc="k at most, of a basis that is computed or kept")
    t_min: float = positive(0.01, doc="the shortest time at first")
    t_max: float = positive(1.0, doc="the longest time at first")
    num_nodes: int | None = field(None, doc="V of the one surface whose basis is kept; None: it is an input", gt=0)
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field("relu", doc="name of the function applied last; None: identity")
    signature = "... V in_features -> ... V out_features"
    examples = [(dict(in_features=2, out_features=3, num_time_scales=2, activation="tanh"), [(4, 2), (3,), (4, 3)]),
                (dict(out_features=2, num_time_scales=3, bias=False, activation=None),
                 [(2, 4, 3), (4,), (4, 4), np.array([.5, 1., 1.5, 2.], np.float32)])]

    def validate(self) -> None:
        if self.t_min > self.t_max:
            raise ConfigError(f"DiffusionConv: expected t_min of at most t_max = {self.t_max}; got {self.t_min}.")

    def setup(self, new: New) -> None:
        wide = self.num_time_scales * (self.in_features or 0)
        self.weight = new.weight(self.out_features, wide)
        self.bias = new.bias(self.out_features, fan_in=wide) if self.use_bias else None
        self.log_t = new.value(np.linspace(np.log(self.t_min), np.log(self.t_max), self.num_time_scales))
        n = self.num_nodes
        k = min(self.num_eigenvectors, n or 0)
        shapes = ((k,), (n, k), (n,)) if n else ()
        kept = [new.buffer(np.zeros(s, np.float32)) for s in shapes]
        self.eigenvalues: Variable | None = kept[0] if n else None
        self.eigenvectors: Variable | None = kept[1] if n else None
        self.mass: Variable | None = kept[2] if n else None

    def set_eigenbasis(self, eigenvalues: Any, eigenvectors: Any, mass: Any = None) -> None:
        """Keeps λ (k), Φ (num_nodes, k), M (num_nodes), 1 if left out. Raises ConfigError, DataError."""
        if self.eigenvalues is None or self.eigenvectors is None or self.mass is None:
            raise ConfigError("DiffusionConv.set_eigenbasis: expected a layer made with num_nodes=, which keeps a "
                              "basis; got one without, which is given the basis beside x.")
        mass = np.ones(self.mass.shape, np.float32) if mass is None else mass
        for variable, given in ((self.eigenvalues, eigenvalues), (self.eigenvectors, eigenvectors), (self.mass, mass)):
            array = np.asarray(as_array(given, "DiffusionConv.set_eigenbasis"), np.float32)
            if array.shape != variable.shape or not np.isfinite(array).all():
                raise DataError(f"DiffusionConv.set_eigenbasis: expected finite values of shape {variable.shape}; got "
                                f"shape {array.shape}.")
            variable.assign(array)
        if not (np.asarray(mass) > 0).all():
            raise DataError("DiffusionConv.set_eigenbasis: expected masses above 0; got others.")

    def set_laplacian(self, laplacian: Any, mass: Any = None) -> None:
        """Keeps the basis that `eigenbasis` computes of a Laplacian (num_nodes, num_nodes)."""
        self.set_eigenbasis(*eigenbasis(laplacian, self.num_eigenvectors, mass))

    def forward(self, x: Tensor, eigenvalues: Tensor | None = None, eigenvectors: Tensor | None = None,
                mass: Tensor | None = None) -> Tensor:
        if eigenvalues is None or eigenvectors is None:
            eigenvalues, eigenvectors, mass = self._kept()
        v, k = x.shape[-2], eigenvalues.size
        if eigenvalues.ndim != 1 or eigenvectors.shape != (v, k) or (mass is not None and mass.shape != (v,)):
            raise ShapeError(f"DiffusionConv: expected eigenvalues (k), eigenvectors ({v}, k), mass ({v}), of the "
                             f"{v} vertices of x; got {eigenvalues.shape}, {eigenvectors.shape}"
                             f"{'' if mass is None else f', {mass.shape}'}.")
        weighed = x if mass is None else x * F.reshape(mass, (v, 1))
        spectrum = F.matmul(F.transpose(eigenvectors), weighed)
        decay = F.exp(-F.reshape(F.exp(self.log_t), (self.num_time_scales, 1, 1)) * F.reshape(eigenvalues, (k, 1)))
        spread = [F.matmul(eigenvectors, decay[s] * spectrum) for s in range(self.num_time_scales)]
        return activation(self.activation)(F.linear(F.concat(spread, -1), self.weight, self.bias))

    def _kept(self) -> tuple[Tensor, Tensor, Tensor]:
        if self.eigenvalues is None or self.eigenvectors is None or self.mass is None:
            raise ShapeError("DiffusionConv: expected eigenvalues and eigenvectors beside x; got none; give them, or "
                             "make the layer with num_nodes= and call set_laplacian(L).")
        if not vars(self).get("_set"):
            if not self.mass.numpy().all():
                raise ConfigError("DiffusionConv: expected set_eigenbasis or set_laplacian before the first call; got "
                                  "none.")
            vars(self)["_set"] = True
        return self.eigenvalues.tensor, self.eigenvectors.tensor, self.mass.tensor


def eigenbasis(laplacian: Any, count: int = 128, mass: Any = None) -> tuple[np.ndarray[Any, Any], ...]:
    """λ (k), Φ (V, k), M (V): the k = min(count, V) smallest solutions of L φ = λ M φ, Φᵀ M Φ = I, on the host in
    double precision. laplacian (V, V) symmetric, dense or a sparse matrix of SciPy; mass 1 if left out. Raises
    DataError.
    """
    whole = laplacian.toarray() if isinstance(laplacian, Sparse) else laplacian
    dense = np.asarray(as_array(whole, "eigenbasis"), np.float64)
    if dense.ndim != 2 or dense.shape[0] != dense.shape[1] or not np.allclose(dense, dense.T, atol=1e-6):
        raise DataError(f"eigenbasis: expected a symmetric matrix (V, V); got shape {dense.shape}.")
    masses = np.ones(len(dense)) if mass is None else np.asarray(as_array(mass, "eigenbasis"), np.float64)
    if masses.shape != (len(dense),) or not (masses > 0).all():
        raise DataError(f"eigenbasis: expected {len(dense)} masses above 0; got shape {masses.shape}.")
    root = np.sqrt(masses)
    values, vectors = np.linalg.eigh(dense / root[:, None] / root)
    k = min(count, len(dense))
    return values[:k].astype(np.float32), (vectors / root[:, None])[:, :k].astype(np.float32), masses.astype(np.float32)
