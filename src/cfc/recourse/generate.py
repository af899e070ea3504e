"""Asking a method for candidates: requests, tuning, statuses, time.

No changed model is seen here: candidates are made, frozen, and only then evaluated.
"""

import itertools
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfc.artifacts import canonical_json
from cfc.errors import DataError
from cfc.recourse.data import RecourseData
from cfc.recourse.methods.base import Answer, Method, Problem
from cfc.recourse.nets import Net
from cfc.recourse.seeds import SeedPlan

LOG = logging.getLogger(__name__)
STATUSES = ("ok", "base_invalid", "none", "timeout", "non_finite", "error")
COVERED = ("ok", "base_invalid")
REQUESTS = 250
TUNING_REQUESTS = 25
TIMED_REQUESTS = 25


@dataclass(frozen=True)
class Requests:
    """Rows a base model refuses.

    Attributes:
        X: float32 [n, p].
        row_id: int64 [n].
        position: int64 [n], places in the part they come from.
    """

    X: np.ndarray
    row_id: np.ndarray
    position: np.ndarray

    def __len__(self) -> int:
        return len(self.row_id)


def draw_requests(
    data: RecourseData,
    net: Net,
    seeds: SeedPlan,
    base: int,
    *,
    part: str = "test",
    limit: int = REQUESTS,
    purpose: str = "factuals",
) -> Requests:
    """Return the rows of a part that a base model refuses, a fixed sample when there are many.

    Args:
        data, net, seeds, base: the data set, the base model and the plan.
        part: ``test`` for the benchmark, ``validation`` for tuning.
        limit: most rows; more are drawn without replacement.
        purpose: names the stream of the draw.

    Raises:
        DataError: the base model refuses no row of the part.
    """
    X = data.X[part]
    eligible = np.flatnonzero(~net.accepts(X))
    if not len(eligible):
        raise DataError(
            f"base model {base} of {data.dataset} accepts every {part} row, so there is no request "
            "for recourse; use another data set, or say which labels are favourable"
        )
    if len(eligible) > limit:
        seed = seeds.seed(purpose, base)
        if seeds.profile == "parity":
            eligible = np.random.RandomState(seed).choice(eligible, limit, replace=False)
        else:
            eligible = np.random.default_rng(seed).choice(eligible, limit, replace=False)
    return Requests(X[eligible], data.row_id[part][eligible], eligible)


@dataclass
class Candidates:
    """Frozen answers to the requests of one base model.

    Attributes:
        points: float32 [n, p], NaN where there is no candidate.
        status: one of `STATUSES` a request.
        remarks: JSON text a request, empty where there is none.
        seconds: float [n], a batch's time divided by its size where requests came together.
    """

    points: np.ndarray
    status: list[str]
    remarks: list[str]
    seconds: np.ndarray


def candidates_of(method: Method, requests: Requests) -> Candidates:
    """Ask a method for a candidate of every request and check each one.

    What a method says about its candidate is not trusted: finite, changed and accepted by the base
    network are decided here, in float32. A batch that raises is asked again one request at a time,
    so that one bad request costs one candidate.
    """
    n, p = requests.X.shape
    points = np.full((n, p), np.nan)
    remarks: list[dict[str, Any]] = [{} for _ in range(n)]
    failed = [""] * n
    seconds = np.zeros(n)
    batches = [np.arange(n)] if method.is_batched else [np.array([i]) for i in range(n)]
    while batches:
        rows = batches.pop(0)
        start = time.perf_counter()
        try:
            answer = _asked(method, requests.X[rows], requests.row_id[rows])
        except Exception as error:
            if len(rows) > 1:
                LOG.warning("%s failed on a batch, asking one by one: %s", method.name, error)
                batches = [np.array([i]) for i in rows]
                continue
            failed[rows[0]] = f"{type(error).__name__}: {error}"
            answer = Answer(np.full((1, p), np.nan))
        seconds[rows] += (time.perf_counter() - start) / len(rows)
        points[rows] = answer.points
        for i, remark in zip(rows, answer.remarks or [{}] * len(rows), strict=True):
            remarks[i] = dict(remark)
    points = points.astype(np.float32)
    status = _statuses(method, requests, points, remarks, failed)
    gone = ~np.isin(status, COVERED)
    points[gone] = np.nan
    texts = [canonical_json(r) if r else "" for r in remarks]
    return Candidates(points, status, texts, seconds)


def _asked(method: Method, X: np.ndarray, row_ids: np.ndarray) -> Answer:
    # a copy: a method that writes into its input must not change the requests
    answer = method.generate(X.copy(), row_ids)
    if not isinstance(answer, Answer):
        answer = Answer(answer)
    points = np.asarray(answer.points, dtype=np.float64)
    if points.shape != X.shape:
        raise DataError(
            f"method {method.name!r} returned shape {points.shape} for requests of shape {X.shape}"
        )
    if answer.remarks is not None and len(answer.remarks) != len(X):
        raise DataError(
            f"method {method.name!r} returned {len(answer.remarks)} remarks for {len(X)} requests"
        )
    return Answer(points, answer.remarks)


def _statuses(method, requests, points, remarks, failed) -> list[str]:
    net = method.problem.net
    finite = np.isfinite(points).all(axis=1)
    accepted = np.zeros(len(points), dtype=bool)
    if finite.any():
        accepted[finite] = net.accepts(points[finite])
    moved = (points != requests.X).any(axis=1)
    status = []
    for i, remark in enumerate(remarks):
        asked = remark.pop("status", None)
        if failed[i]:
            remark["error"] = failed[i]
            status.append("error")
        elif np.isnan(points[i]).all():
            status.append("timeout" if asked == "timeout" else "none")
        elif not finite[i]:
            status.append("non_finite")
        elif not moved[i]:
            status.append("none")
        else:
            status.append("ok" if accepted[i] else "base_invalid")
    return status


def tune(
    method: type[Method],
    problem: Problem,
    params: Mapping[str, Any],
    grid: Mapping[str, Sequence],
    *,
    limit: int = TUNING_REQUESTS,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the winning parameters on refused validation rows, and the whole grid.

    Settings are ranked by base validity (a failure is not valid), then by mean scaled distance of
    the valid candidates, then by their order in the grid.

    Args:
        method: a class with a `Method.GRID`.
        problem: the first base model's; its changed models are not consulted.
        params: parameters that stay fixed.
        grid: parameter -> values, in order.
        limit: most validation rows used.

    Returns:
        the parameters to use, and one record a setting: ``params``, ``valid``, ``requests``,
        ``distance`` (None when no candidate is valid), ``is_winner``.
    """
    requests = draw_requests(
        problem.data,
        problem.net,
        problem.seeds,
        problem.base,
        part="validation",
        limit=limit,
        purpose="tuning_factuals",
    )
    records: list[dict[str, Any]] = []
    for values in itertools.product(*grid.values()):
        setting = dict(zip(grid, values, strict=True))
        found = candidates_of(method(problem, {**params, **setting}), requests)
        valid = np.array([s == "ok" for s in found.status])
        distance = scaled_distance(found.points[valid], requests.X[valid], problem.data.scale)
        records.append(
            {
                "params": setting,
                "valid": int(valid.sum()),
                "requests": len(requests),
                "distance": float(distance.mean()) if valid.any() else None,
                "is_winner": False,
            }
        )
    best = min(
        range(len(records)),
        key=lambda i: (
            -records[i]["valid"],
            np.inf if records[i]["distance"] is None else records[i]["distance"],
            i,
        ),
    )
    records[best]["is_winner"] = True
    return {**params, **records[best]["params"]}, records


def scaled_distance(points: np.ndarray, X: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return (1/p) Σ |x'_j − x_j| / s_j for each row, float64 [n]."""
    moved = np.abs(points.astype(np.float64) - X.astype(np.float64))
    return (moved / scale).mean(axis=1)


def timed_alone(method: Method, requests: Requests, limit: int = TIMED_REQUESTS) -> list[float]:
    """Return seconds of single requests of a batched method, for a sample of them."""
    few = Requests(requests.X[:limit], requests.row_id[:limit], requests.position[:limit])
    seconds = []
    for i in range(len(few)):
        start = time.perf_counter()
        candidates_of(
            method, Requests(few.X[i : i + 1], few.row_id[i : i + 1], few.position[i : i + 1])
        )
        seconds.append(time.perf_counter() - start)
    return seconds
