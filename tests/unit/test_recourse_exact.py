"""The audit of APΔS: against enumeration of activation patterns, and what it says of itself."""

import json

import numpy as np
import pyarrow as pa
import pytest
from recourse_toys import (
    cheapest_by_enumeration,
    linear_net,
    random_net,
    refused,
    toy_data,
    toy_problem,
)

from cfc.errors import ModelError
from cfc.recourse.exact import audit_candidate, audit_stage
from cfc.recourse.families import BaseModel
from cfc.recourse.methods.apas import SLACK, LocalSolver


@pytest.mark.parametrize("seed", [1, 2, 4, 5, 6, 8])
def test_a_dear_candidate_is_beaten_by_the_cheapest_of_all_patterns(seed):
    net, data = random_net(3, seed=seed), toy_data(3, seed=seed)
    solver = LocalSolver(net, np.zeros(3), data.low, data.high)
    far = [r for r in data.X["train"] if solver.logit(r) > 0.3]
    requests = refused(toy_problem(net, data), 3)[0]
    for x in requests:
        exact = cheapest_by_enumeration(net, x.astype(float), data.low, data.high, 0.1 + SLACK)
        found = audit_candidate(net, x, far[0], data.low, data.high, 0.1, relative_gap=1e-6)
        assert found.outcome == "cheaper"
        assert found.cost == pytest.approx(np.abs(far[0].astype(float) - x).sum())
        assert found.best == pytest.approx(exact, abs=1e-4)
        assert found.bound == pytest.approx(exact, abs=1e-4)


def test_the_cheapest_point_is_proved_and_a_request_outside_the_box_keeps_its_way_in():
    # logit 2 a: a margin of 1 asks for a >= (1 + slack) / 2, from a = −3 below the box at −1
    net, x = linear_net([2.0, 0.0], 0.0), np.array([-3.0, 5.0])
    low, high = np.array([-1.0, -4.0]), np.array([4.0, 4.0])
    cheapest = np.array([(1 + SLACK) / 2, 4.0])
    found = audit_candidate(net, x, cheapest, low, high, 1.0)
    assert found.outcome == "proved"
    assert found.cost == pytest.approx(3.5 + SLACK / 2 + 1)
    assert found.bound == pytest.approx(found.cost, rel=1e-3)
    dear = audit_candidate(net, x, cheapest + np.array([0.5, -1.0]), low, high, 1.0)
    assert dear.outcome == "cheaper"
    assert dear.best == pytest.approx(found.cost, abs=1e-5)


def hard(width: int, p: int):
    """A wild network, its most refused row, its most accepted one, and a logit between."""
    net, data = random_net(p, (width, width), seed=2, scale=2.0), toy_data(p, seed=2)
    logits = net.logits(data.X["train"])
    x, far = data.X["train"][logits.argmin()], data.X["train"][logits.argmax()]
    return net, x, far, data.low, data.high, 0.8 * float(logits.max())


def test_the_bound_of_a_search_that_ends_too_soon_still_holds():
    short = audit_candidate(*hard(12, 6), node_limit=1)
    long = audit_candidate(*hard(12, 6))
    assert short.bound < long.bound <= long.best <= short.best < short.cost
    assert long.outcome == "cheaper"
    assert long.bound == pytest.approx(long.best, rel=2e-3)


def test_a_search_that_finds_and_proves_nothing_is_open():
    found = audit_candidate(*hard(20, 8), node_limit=1)
    assert found.outcome == "open"
    assert found.best == found.cost
    assert 0 <= found.bound < 0.9 * found.cost


def test_three_hidden_layers_are_refused():
    net = random_net(2, (3, 3, 3))
    with pytest.raises(ModelError, match="two hidden layers; this network has 3"):
        audit_candidate(net, np.zeros(2), np.ones(2), -np.ones(2), np.ones(2), 0.1)


def test_the_stage_audits_answered_requests_spread_over_each_base_model():
    data, net = toy_data(2), linear_net([1.0, 0.0], 0.0)
    rows = np.flatnonzero(~net.accepts(data.X["test"]))[:6]
    X = data.X["test"][rows].astype(np.float64)
    # request 2 has no answer; the others stand 0.5 too far behind the margin
    points = np.c_[np.full(6, 0.1 + SLACK + 0.5), X[:, 1]].astype(np.float32)
    points[2] = np.nan
    requests = pa.table({"base": np.zeros(6, dtype=np.int64), "position": rows})
    candidates = pa.table(
        {
            "base": np.zeros(6, dtype=np.int64),
            "row_id": data.row_id["test"][rows],
            "x": pa.array(points.tolist(), type=pa.list_(pa.float32())),
            "remark": [json.dumps({"margin": 0.1})] * 6,
        }
    )
    settings = {"requests": 3, "relative_gap": 1e-3, "node_limit": 100}
    table = audit_stage(data, [BaseModel(0, 0, net)], requests, candidates, settings)
    found = table.to_pydict()
    assert found["row_id"] == data.row_id["test"][rows[[0, 3, 5]]].tolist()
    assert found["outcome"] == ["cheaper"] * 3
    for cost, best in zip(found["cost"], found["best"], strict=True):
        assert cost - best == pytest.approx(0.5, abs=1e-5)
    none = audit_stage(
        data, [BaseModel(0, 0, net)], requests, candidates, {**settings, "requests": 0}
    )
    assert none.num_rows == 0
    assert none.schema == table.schema
    turned = candidates.set_column(1, "row_id", pa.array(data.row_id["test"][rows][::-1]))
    with pytest.raises(ModelError, match="candidates for base 0 answer other requests"):
        audit_stage(data, [BaseModel(0, 0, net)], requests, turned, settings)
