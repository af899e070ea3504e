"""An exact second opinion on APΔS: the cheapest counterfactual of a margin by integer programming.

APΔS takes its candidates from a local search without a proof. Here a sample of them is held against
the whole problem: HiGHS (in SciPy) looks for a cheaper point with the same logit and proves how
much cheaper one can be. The candidate's own cost bounds the search, so the program is small.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cfc.errors import ModelError
from cfc.recourse.data import RecourseData
from cfc.recourse.families import BaseModel, pick_evenly
from cfc.recourse.methods.apas import SLACK, LocalSolver
from cfc.recourse.nets import Net
from cfc.recourse.stages import requests_of

LOG = logging.getLogger(__name__)
OUTCOMES = ("proved", "cheaper", "open")
_ROOM = 1e-6  # relative; the known point must stay feasible after rounding
_FEASIBLE = 1e-6  # HiGHS' own tolerance on a constraint
_ANSWERED = (0, 1, 4)  # optimal; a limit; a limit before any point, which SciPy has no number for


@dataclass(frozen=True)
class Audited:
    """What the program says about one candidate.

    Attributes:
        outcome: ``proved``: no point is cheaper by more than the gap asked for; ``cheaper``: one
            was found; ``open``: neither, because the node limit came first or the solver's own
            stop lay a hair outside the gap.
        cost: L1 cost of the candidate, float.
        best: cost of the cheapest point known at the end, at most ``cost``.
        bound: proved lower bound of every point's cost, at least 0.
        nodes: nodes the solver visited; the limit where it stopped the search before any point.
        n_open_units: hidden units whose sign the known cost leaves open (binaries).
    """

    outcome: str
    cost: float
    best: float
    bound: float
    nodes: int
    n_open_units: int


def audit_candidate(
    net: Net,
    x: np.ndarray,
    candidate: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    margin: float,
    *,
    relative_gap: float = 1e-3,
    node_limit: int = 20_000,
) -> Audited:
    """Look for a point cheaper than a candidate with a logit of at least margin + `SLACK`.

    Args:
        net: two hidden layers.
        x: request [p].
        candidate: point [p] known to fulfil the constraints; x may lie outside the box, it may not.
        low, high: bounds [p] of every point.
        margin: the logit wanted.
        relative_gap: when a proof is good enough.
        node_limit: most nodes of the search; a count, so that the outcome does not depend on the
            speed of the machine.

    Raises:
        ModelError: the network does not have two hidden layers, or the solver calls the program
            infeasible although the candidate fulfils it.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    if len(net.hidden) != 2:
        raise ModelError(
            f"the APΔS audit takes two hidden layers; this network has {len(net.hidden)}"
        )
    (w1, w2, w3), (b1, b2, b3) = net.doubles()
    x = x.astype(np.float64)
    low, high = low.astype(np.float64), high.astype(np.float64)
    cost = float(np.abs(candidate.astype(np.float64) - x).sum())
    limit = cost * (1 + _ROOM) + _ROOM
    z_low, z_high = np.maximum(low, x - limit), np.minimum(high, x + limit)
    first = _first_layer_bounds(w1, b1, x, z_low, z_high, limit)
    on_first = np.maximum(first, 0)
    second = np.stack(
        [
            on_first[0] @ np.maximum(w2, 0).T + on_first[1] @ np.minimum(w2, 0).T + b2,
            on_first[1] @ np.maximum(w2, 0).T + on_first[0] @ np.minimum(w2, 0).T + b2,
        ]
    )
    p, h1, h2 = len(x), len(b1), len(b2)
    open_units = [np.flatnonzero((b[0] < 0) & (b[1] > 0)) for b in (first, second)]
    # columns: u, v (z = x + u − v), first layer, second layer, a binary for each open unit
    at_h1, at_h2, at_bin = 2 * p, 2 * p + h1, 2 * p + h1 + h2
    n = at_bin + len(open_units[0]) + len(open_units[1])
    rows: list[np.ndarray] = []
    lower: list[float] = []
    upper: list[float] = []

    def add(parts, lo, hi):
        row = np.zeros(n)
        for place, values in parts:
            row[place] = values
        rows.append(row)
        lower.append(lo)
        upper.append(hi)

    most = [np.maximum(first[1], 0), np.maximum(second[1], 0)]
    layers = (
        (at_h1, first, open_units[0], [(slice(0, p), -w1), (slice(p, 2 * p), w1)], w1 @ x + b1),
        (at_h2, second, open_units[1], [(slice(at_h1, at_h2), -w2)], b2),
    )
    binary = at_bin
    for start, bound, is_open, inputs, constant in layers:
        for j in range(len(constant)):
            own = [(start + j, 1.0), *[(place, weights[j]) for place, weights in inputs]]
            if bound[1, j] <= 0:
                continue  # off for certain: its upper bound is 0
            if j not in is_open:
                add(own, constant[j], constant[j])
                continue
            add(own, constant[j], np.inf)
            add([*own, (binary, -bound[0, j])], -np.inf, constant[j] - bound[0, j])
            add([(start + j, 1.0), (binary, -bound[1, j])], -np.inf, 0.0)
            binary += 1
    add([(slice(at_h2, at_bin), w3[0])], margin + SLACK - float(b3[0]), np.inf)
    add([(slice(0, 2 * p), 1.0)], -np.inf, limit)
    up = np.stack([np.maximum(z_low - x, 0), np.maximum(z_high - x, 0)])
    down = np.stack([np.maximum(x - z_high, 0), np.maximum(x - z_low, 0)])
    ones = np.ones(n - at_bin)
    problem = {
        "c": np.concatenate([np.ones(2 * p), np.zeros(n - 2 * p)]),
        "bounds": Bounds(
            np.concatenate([up[0], down[0], np.zeros(n - 2 * p)]),
            np.concatenate([up[1], down[1], *most, ones]),
        ),
        "constraints": LinearConstraint(csr_array(np.array(rows)), lower, upper),
    }
    found = milp(
        **problem,
        integrality=np.concatenate([np.zeros(at_bin), ones]),
        options={"mip_rel_gap": relative_gap, "node_limit": node_limit},
    )
    if found.status not in _ANSWERED:
        raise ModelError(f"the solver failed on a program with a known point: {found.message}")
    best = cost
    if found.x is not None:
        z = np.clip(x + found.x[:p] - found.x[p : 2 * p], low, high)
        if LocalSolver(net, x, low, high).logit(z) >= margin + SLACK - 10 * _FEASIBLE:
            best = min(cost, float(np.abs(z - x).sum()))
    bound = found.mip_dual_bound
    if bound is None:
        # SciPy hands over no bound when the limit comes before any point; the relaxation has one
        bound = milp(**problem).fun
    bound = max(0.0, min(float(bound), best))
    enough = cost * (1 - relative_gap)
    outcome = "proved" if bound >= enough - _FEASIBLE else "cheaper" if best < enough else "open"
    # no count is handed over either; only the limit ends a search without an answer
    nodes = node_limit if found.mip_node_count is None else int(found.mip_node_count)
    return Audited(outcome, cost, best, bound, nodes, len(ones))


def audit_stage(
    data: RecourseData,
    bases: Sequence[BaseModel],
    requests,
    candidates,
    settings: Mapping[str, Any],
):
    """Audit a sample of APΔS' candidates, spread over the requests of every base model.

    Args:
        data, bases, requests: the data set, base models and table of requests.
        candidates: the table of candidates of ``apas``.
        settings: ``requests`` a base model (0: none), ``relative_gap``, ``node_limit``.

    Returns:
        a table with a row an audited candidate: base, row_id, margin, and the fields of `Audited`.
    """
    import json

    import pyarrow as pa

    from cfc.artifacts import lists_to_matrix, to_numpy

    LOG.info("%s: %d requests a base model", data.dataset, settings["requests"])
    rows = []
    of_base = to_numpy(candidates.column("base"))
    row_ids = to_numpy(candidates.column("row_id"))
    points = lists_to_matrix(candidates.column("x"))
    for base in bases:
        asked = requests_of(requests, base.number, data)
        own = np.flatnonzero(of_base == base.number)
        if not np.array_equal(row_ids[own], asked.row_id):
            raise ModelError(
                f"candidates for base {base.number} answer other requests; delete them and rerun"
            )
        answered = np.flatnonzero(np.isfinite(points[own]).all(axis=1))
        for i in pick_evenly(answered, min(settings["requests"], len(answered))):
            remark = json.loads(candidates.column("remark")[int(own[i])].as_py())
            found = audit_candidate(
                base.net,
                asked.X[i],
                points[own[i]],
                data.low,
                data.high,
                remark["margin"],
                relative_gap=settings["relative_gap"],
                node_limit=settings["node_limit"],
            )
            head = {"base": base.number, "row_id": int(asked.row_id[i])}
            rows.append({**head, "margin": remark["margin"], **asdict(found)})
        LOG.info("%s, base %d: audited", data.dataset, base.number)
    kinds = {"base": pa.int64(), "row_id": pa.int64(), "margin": pa.float64()}
    kinds |= {"outcome": pa.string(), **dict.fromkeys(("cost", "best", "bound"), pa.float64())}
    kinds |= dict.fromkeys(("nodes", "n_open_units"), pa.int64())
    return pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items())))


def _first_layer_bounds(w1, b1, x, z_low, z_high, limit: float) -> np.ndarray:
    """Return lower and upper pre-activations [2, h1] over the box and the L1 ball at once."""
    centre = w1 @ x + b1
    reach = limit * np.abs(w1).max(axis=1)
    plus, minus = np.maximum(w1, 0), np.minimum(w1, 0)
    return np.stack(
        [
            np.maximum(centre - reach, plus @ z_low + minus @ z_high + b1),
            np.minimum(centre + reach, plus @ z_high + minus @ z_low + b1),
        ]
    )
