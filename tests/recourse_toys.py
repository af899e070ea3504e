"""Small recourse problems whose answers are known by geometry."""

import itertools
from itertools import pairwise

import numpy as np
from scipy.optimize import linprog

from cfc.recourse.data import RecourseData, distance_scale
from cfc.recourse.methods.base import Problem
from cfc.recourse.nets import Net, Stack
from cfc.recourse.seeds import SeedPlan


def linear_net(w, b: float) -> Net:
    """A network with two hidden layers whose logit is exactly w·x + b."""
    w = np.atleast_2d(np.asarray(w, dtype=np.float32))
    b = np.float32(b)
    return Net(
        (np.vstack([w, -w]), np.eye(2), np.array([[1.0, -1.0]])),
        (np.array([b, -b]), np.zeros(2), np.zeros(1)),
    )


def random_net(p: int, hidden=(4, 4), seed=0, scale=1.0) -> Net:
    rng = np.random.default_rng(seed)
    sizes = [p, *hidden, 1]
    return Net(
        tuple(scale * rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairwise(sizes)),
        tuple(0.3 * rng.normal(size=b) for b in sizes[1:]),
    )


def toy_data(p: int = 2, n: int = 120, seed: int = 0, X=None) -> RecourseData:
    """Rows with a favourable label where the first coordinate is positive."""
    rng = np.random.default_rng(seed)
    sizes = {"train": n, "update": n // 4, "validation": n // 4, "test": n // 2}
    rows = {k: rng.normal(size=(m, p)).astype(np.float32) for k, m in sizes.items()}
    if X is not None:
        rows["train"] = np.asarray(X, dtype=np.float32)
    start, row_id = 0, {}
    for part, own in rows.items():
        row_id[part] = np.arange(start, start + len(own))
        start += len(own)
    return RecourseData(
        dataset="breast_cancer",
        fields=tuple(f"f{i}" for i in range(p)),
        X=rows,
        y={k: (v[:, 0] > 0).astype(np.int8) for k, v in rows.items()},
        row_id=row_id,
        mean=np.zeros(p),
        sd=np.ones(p),
        scale=distance_scale(rows["train"]),
        facts={"rows": start, "rows_read": start, "features": p, "favourable_share": 0.5},
    )


def toy_problem(net: Net, data: RecourseData | None = None, voters: int = 0, **kwargs) -> Problem:
    data = data or toy_data(net.n_features)
    rng = np.random.default_rng(5)
    noise = [
        net.with_flat(net.flat() + 0.02 * rng.normal(size=net.flat().shape)) for _ in range(voters)
    ]
    return Problem(
        data,
        0,
        net,
        SeedPlan("independent", data.dataset),
        ensemble=Stack(noise) if noise else None,
        **kwargs,
    )


def refused(problem: Problem, count: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Test rows the base network refuses, with their numbers."""
    X, ids = problem.data.X["test"], problem.data.row_id["test"]
    rows = np.flatnonzero(~problem.net.accepts(X))[:count]
    assert len(rows), "the toy network refuses nobody, so the test would test nothing"
    return X[rows], ids[rows]


def cheapest_by_enumeration(net, x, low, high, margin):
    """Cost of the cheapest point over all activation patterns: programs in (z, |z − x|)."""
    (w1, w2, w3), (b1, b2, b3) = net.doubles()
    p, best = len(x), np.inf
    for pattern in itertools.product([0, 1], repeat=len(b1) + len(b2)):
        on1, on2 = np.array(pattern[: len(b1)]), np.array(pattern[len(b1) :])
        g, c = (w2 * on1) @ w1, (w2 * on1) @ b1 + b2
        s1, s2 = 2 * on1 - 1, 2 * on2 - 1
        rows = np.vstack([-(s1[:, None] * w1), -(s2[:, None] * g), -((w3[0] * on2) @ g)[None]])
        most = np.concatenate([s1 * b1, s2 * c, [(w3[0] * on2) @ c + b3[0] - margin]])
        eye = np.eye(p)
        A = np.block([[rows, np.zeros((len(rows), p))], [eye, -eye], [-eye, -eye]])
        found = linprog(
            np.r_[np.zeros(p), np.ones(p)],
            A_ub=A,
            b_ub=np.r_[most, x, -x],
            bounds=[*zip(low, high, strict=True), *[(0, None)] * p],
        )
        if found.status == 0:
            best = min(best, found.fun)
    return best
