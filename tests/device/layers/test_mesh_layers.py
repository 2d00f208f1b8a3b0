"""Layers over meshes: pooling of a real surface, a step that is recorded, shapes told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet.core.autodiff import gradients
from clnet.engine.record import Recorded
from clnet.errors import DataError, ShapeError
from clnet.layers import Dense, Lambda, MeshEdgeConv, MeshPool, Readout, no_tape
from clnet.model import Sequential
from clnet.ops.mesh import TABLE, VERTICES
from clnet.optimizers import Adam
from clnet.train import Trainer
from clnet.train.data import Dataset, mesh_edges

Array = np.ndarray[Any, Any]


def sphere(times: int) -> tuple[Array, Array]:
    """(vertices, triangles) of an octahedron whose triangles were cut into four so often, on the unit sphere."""
    points = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
    faces = [(0, 2, 4), (2, 1, 4), (1, 3, 4), (3, 0, 4), (2, 0, 5), (1, 2, 5), (3, 1, 5), (0, 3, 5)]
    found = [np.array(p, float) for p in points]
    for _ in range(times):
        middle: dict[frozenset[int], int] = {}
        cut = []
        for a, b, c in faces:
            new = []
            for pair in (frozenset((a, b)), frozenset((b, c)), frozenset((c, a))):
                if pair not in middle:
                    middle[pair] = len(found)
                    total = sum(found[k] for k in pair)
                    found.append(total / np.linalg.norm(total))
                new.append(middle[pair])
            ab, bc, ca = new
            cut += [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        faces = cut
    return np.array(found), np.array(faces)


POINTS, FACES = sphere(2)
ENDS, NEAR = mesh_edges(FACES)


def shapes(count: int) -> tuple[Array, Array]:
    """Ellipsoids, boxes and double pyramids of all proportions, a little rough: of each edge the length, and the cosine
    between its triangles; whose each is.
    """
    rng, values, kinds = np.random.default_rng(0), [], np.arange(count) % 3
    for kind in kinds:
        size = (np.linalg.norm(POINTS, axis=1), np.abs(POINTS).max(1), np.abs(POINTS).sum(1))[kind][:, None]
        p = POINTS / size * rng.uniform(0.7, 1.3, 3) + rng.normal(size=POINTS.shape) * 0.01
        normal = {}
        for f in FACES:
            n = np.cross(p[f[1]] - p[f[0]], p[f[2]] - p[f[0]])
            for pair in ((0, 1), (1, 2), (2, 0)):
                normal.setdefault(tuple(sorted(f[list(pair)].tolist())), []).append(n / np.linalg.norm(n))
        length = np.linalg.norm(p[ENDS[:, 0]] - p[ENDS[:, 1]], axis=1)
        bend = [float(np.dot(*normal[tuple(e)])) for e in ENDS.tolist()]
        values.append(np.stack([length / length.mean(), bend], 1))
    return np.array(values, np.float32), kinds


def test_edges_of_triangles() -> None:
    """An octahedron: as the ops' example, but for the numbers; a triangle alone has no others."""
    vertices, near = mesh_edges(FACES)
    assert len(vertices) == 192 and (near >= 0).all()
    for e in range(0, 192, 17):
        assert all((near[f] == e).sum() == 1 for f in near[e])
        for pair in near[e].reshape(2, 2):
            assert len({*vertices[e].tolist(), *vertices[pair].ravel().tolist()}) == 3
    vertices, near = mesh_edges([[0, 1, 2]])
    assert vertices.tolist() == [[0, 1], [0, 2], [1, 2]] and near[0].tolist() == [2, 1, -1, -1]
    for faces, words in (([[0, 1, 1]], "three vertices"), ([[0, 1, 2], [1, 0, 3], [0, 1, 4]], r"\[0, 1\] has 3")):
        with pytest.raises(DataError, match=words):
            mesh_edges(faces)


def test_pooling_to_a_third_keeps_the_surface_closed(engine: Any) -> None:
    x = np.random.default_rng(0).normal(size=(192, 2)).astype(np.float32)
    y, near, ends = (t.numpy() for t in MeshPool(66)(x, NEAR, ENDS))
    assert y.shape == (66, 2) and near.shape == (66, 4) and (near >= 0).all() and np.isfinite(y).all()
    triangles = {frozenset((e, *pair)) for e in range(66) for pair in near[e].reshape(2, 2).tolist()}
    assert len(set(ends.ravel().tolist())) - 66 + len(triangles) == 2
    ones = MeshPool(66)(np.ones((192, 1), np.float32), NEAR, ENDS)[0].numpy()
    assert np.abs(ones - 1).max() <= 1e-6  # means of equal values


def test_a_mesh_with_too_few_edges_to_go_gives_nan(engine: Any) -> None:
    y, near, ends = (t.numpy() for t in MeshPool(1)(np.ones((12, 2), np.float32), TABLE, VERTICES))
    assert np.isnan(y).all() and (near == -1).all() and (ends == -1).all()
    with pytest.raises(ShapeError, match=r"neighbours \(12, 4\)"):
        MeshPool(6)(np.ones((12, 2), np.float32))


def test_pooling_trains_within_a_recorded_step(engine: Any) -> None:
    """Convolution, pooling, convolution, mean: one recorded step tells two shapes apart."""
    init.seed(0)
    first, pool, second, last = MeshEdgeConv(2, 8), MeshPool(66), MeshEdgeConv(8, 8), Readout(8, 2, pooling="mean")
    optimizer = Adam(lr=0.01)
    optimizer.attach([p for layer in (first, second, last) for p in layer.parameters()])

    def step(x: Any, kind: Any, near: Any, ends: Any, hyper: Any) -> Any:
        with no_tape():
            h, fewer, _ = pool(first(x, near), near, ends)
            far = last(second(h, fewer)) - kind
            loss = (far * far).sum()
        optimizer.apply(gradients(loss, [p.tensor for p in optimizer.parameters]), hyper)
        return loss

    recorded, (x, kinds), losses = Recorded(step, "mesh"), shapes(3), []
    for t in range(300):
        goal = np.eye(2, dtype=np.float32)[None, kinds[t % 2]]
        losses.append(float(recorded(x[t % 2], goal, NEAR, ENDS, optimizer.hyper(t + 1)).numpy()))
    assert np.mean(losses[-10:]) < 0.25 * np.mean(losses[:10]) and recorded.recorded == 1


@pytest.mark.slow
def test_shapes_are_told_apart(engine: Any) -> None:
    """Of 60 that were not trained on, 95 %."""
    init.seed(0)
    x, y = shapes(180)
    first, second = MeshEdgeConv(2, 16, num_edges=192), MeshEdgeConv(16, 16, num_edges=192)
    first.set_neighbors(NEAR)
    second.set_neighbors(NEAR)
    model = Sequential([first, second, Lambda(fn=lambda h: h.mean(1)), Dense(out_features=3)])
    train, test = Dataset(x, y).split(60, 0)
    trainer = Trainer(model, "cross_entropy", Adam(lr=0.01))
    trainer.fit(train, epochs=30, batch_size=20, verbose=False)
    assert trainer.evaluate(test)["accuracy"] >= 0.95
