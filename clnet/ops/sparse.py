"""Products with sparse matrices: rows are gathered, weighted and added up, so only what is there is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..op import Case, composite
from .index import gather, scatter_add
from .view import reshape


def _samples() -> list[Case]:
    row, column = (np.array(v, np.int32) for v in ([0, 0, 1, 3, 3, 3], [1, 4, 0, 2, 3, 4]))
    return [Case(((6,), row, column, (5, 7)), dict(rows=4)), Case(((1,), row[:1], column[:1], (2, 1)), dict(rows=1))]


@composite(samples=_samples)
def sparse_matmul(values: Any, row: Any, column: Any, x: Any, *, rows: int) -> Any:
    """y = S · x, S[row[k], column[k]] = values[k] and 0 elsewhere

    values, row, column (nnz), x (n, batch), y (rows, batch). Equal places add up. Every row of y is summed in the order of k.
    The gradient of S stays in its places: dvalues[k] = Σ over the batch of g[row[k]] · x[column[k]]; dx = Sᵀ · g.
    """
    if x.ndim != 2 or not values.shape == row.shape == column.shape or values.ndim != 1:
        raise ShapeError(f"sparse_matmul: expected values, row and column of one length and x (n, batch); "
                         f"got {values.shape}, {row.shape}, {column.shape} and x{x.shape}.")
    return scatter_add(reshape(values, (-1, 1)) * gather(x, column), row, rows)
