"""A triangle mesh by its edges, as layers over meshes take it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays import as_array
from ..errors import DataError

Array = np.ndarray[Any, Any]


def mesh_edges(faces: Any) -> tuple[Array, Array]:
    """(vertices (E, 2) of each edge, neighbours (E, 4)) of triangles (F, 3), integers, corners counter-clockwise.

    Edges are numbered by their vertices. Neighbours are the next two edges, counter-clockwise, of one triangle at the
    edge, then those of the other, −1 where there is none. Raises DataError for triangles with equal corners, and edges
    of more than two triangles.
    """
    corners = np.asarray(as_array(faces, "mesh_edges"))
    if corners.ndim != 2 or corners.shape[1] != 3 or corners.dtype.kind not in "iu" or (corners < 0).any():
        raise DataError(f"mesh_edges: expected triangles (F, 3), numbers of vertices; got {corners.dtype} of shape "
                        f"{corners.shape}.")
    sides = np.stack([corners, np.roll(corners, -1, 1)], -1)
    if (flat := np.flatnonzero((sides[..., 0] == sides[..., 1]).any(1))).size:
        raise DataError(f"mesh_edges: expected triangles of three vertices; got {corners[flat[0]].tolist()}.")
    vertices, number = np.unique(np.sort(sides.reshape(-1, 2), 1), axis=0, return_inverse=True)
    number = number.reshape(-1, 3)
    order = np.argsort(number.ravel(), kind="stable")
    many = np.bincount(number.ravel(), minlength=len(vertices))
    if (many > 2).any():
        e = int(np.argmax(many))
        raise DataError(f"mesh_edges: expected edges of at most two triangles; {vertices[e].tolist()} has {many[e]}.")
    place = np.arange(len(order)) - np.repeat(np.cumsum(many) - many, many)  # 0 or 1: which triangle of the edge
    following = np.stack([np.roll(number, -1, 1), np.roll(number, -2, 1)], -1).reshape(-1, 2)
    neighbours = np.full((len(vertices), 2, 2), -1, np.int32)
    neighbours[number.ravel()[order], place] = following[order]
    return vertices.astype(np.int32), neighbours.reshape(-1, 4)
