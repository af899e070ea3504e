"""Properties that hold for any model, row and grouping (hypothesis, deterministic)."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cfc.certificate import certify, combine
from cfc.groups import Groups
from cfc.protocol import Protocol

FAST = settings(
    derandomize=True,
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
FIELDS = (
    "predicted", "proba", "confidence", "margin", "saturated", "delta", "order", "path_margin",
    "path_proba", "path_label", "flip_budget", "rcma", "lambda_star", "u", "fds",
)  # fmt: skip


class Model:
    """Two-layer network whose sums run over the columns in one order, whatever the batch."""

    def __init__(self, rng, d, classes):
        self.hidden = rng.normal(size=(d, 4))
        self.out = rng.normal(scale=2, size=(4, classes))

    def __call__(self, rows):
        hidden = np.zeros((len(rows), 4))
        for column, weights in zip(rows.T.astype(np.float64), self.hidden, strict=True):
            hidden += column[:, None] * weights
        scores = np.zeros((len(rows), self.out.shape[1]))
        for unit, weights in zip(np.tanh(hidden).T, self.out, strict=True):
            scores += unit[:, None] * weights
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)


@st.composite
def problems(draw):
    """Rows, groups, x̄, model and a protocol."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_groups = draw(st.integers(1, 8))
    owner = rng.permutation(np.repeat(np.arange(n_groups), rng.integers(1, 4, size=n_groups)))
    groups = Groups(
        tuple(f"g{g}" for g in range(n_groups)),
        tuple(np.flatnonzero(owner == g) for g in range(n_groups)),
        len(owner),
    )
    protocol = Protocol(
        depth=draw(st.integers(1, 10)),
        order=draw(st.sampled_from(["static", "greedy"])),
        margin=draw(st.sampled_from(["original", "unsigned"])),
        operators=draw(st.sampled_from([("top1", "top3", "all"), ("prefix", "all"), ("top3",)])),
    )
    X = rng.normal(size=(draw(st.integers(1, 6)), len(owner))).astype(np.float32)
    baseline = rng.normal(scale=0.5, size=len(owner)).astype(np.float32)
    return X, groups, baseline, Model(rng, len(owner), draw(st.integers(2, 4))), protocol


def assert_same(found, expected, fields=FIELDS, rows=slice(None)):
    for name in fields:
        assert np.array_equal(getattr(found, name), getattr(expected, name)[rows]), name


@FAST
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_columns_does_not_matter(problem, random):
    X, groups, baseline, model, protocol = problem
    order = list(range(groups.n_coordinates))
    random.shuffle(order)
    back = np.argsort(order)
    moved = Groups(groups.names, tuple(back[i] for i in groups.indices), groups.n_coordinates)
    found = certify(
        X[:, order], moved, baseline[order], lambda rows: model(rows[:, back]), protocol
    )
    assert_same(found, certify(X, groups, baseline, model, protocol))


@FAST
@given(problems(), st.integers(0, 8))
def test_an_ignored_group_changes_nothing_of_the_others(problem, place):
    X, groups, baseline, model, protocol = problem
    place = min(place, len(groups))
    d = groups.n_coordinates
    wider = Groups(
        (*groups.names[:place], "ignored", *groups.names[place:]),
        (*groups.indices[:place], np.array([d]), *groups.indices[place:]),
        d + 1,
    )
    before = certify(X, groups, baseline, model, protocol)
    after = certify(
        np.column_stack([X, np.full(len(X), 5)]),
        wider,
        np.append(baseline, -5),
        lambda rows: model(rows[:, :d]),
        protocol,
    )
    assert_same(after, before, ("predicted", "proba", "confidence", "margin", "saturated"))
    assert (after.delta[:, place] == 0).all()
    assert np.array_equal(np.delete(after.delta, place, axis=1), before.delta)
    if "all" in protocol.operators:
        column = protocol.operators.index("all")
        assert np.array_equal(after.lambda_star[:, column], before.lambda_star[:, column])
    if protocol.order == "static":
        old = np.delete(np.arange(len(wider)), place)
        for row in range(len(X)):
            kept = [g for g in after.order[row] if g != place]
            assert kept == old[before.order[row]].tolist()


@FAST
@given(problems(), st.integers(0, 8))
def test_an_ignored_group_outside_the_path_leaves_the_certificate_as_it_is(problem, place):
    # its drop is 0, so it stays behind every group with a positive drop; with a depth of no more
    # than those, and three of them for top3, nothing may change
    X, groups, baseline, model, protocol = problem
    X = X[:1]
    positive = int((certify(X, groups, baseline, model, protocol).delta > 0).sum())
    assume(positive >= 3)
    settings_ = {**protocol.to_dict(), "depth": positive, "order": "static"}
    fixed = Protocol.from_mapping(settings_)
    place = min(place, len(groups))
    d = groups.n_coordinates
    wider = Groups(
        (*groups.names[:place], "ignored", *groups.names[place:]),
        (*groups.indices[:place], np.array([d]), *groups.indices[place:]),
        d + 1,
    )
    after = certify(
        np.column_stack([X, np.zeros(1)]),
        wider,
        np.append(baseline, 1),
        lambda rows: model(rows[:, :d]),
        fixed,
    )
    unchanged = set(FIELDS) - {"delta", "order"}
    assert_same(after, certify(X, groups, baseline, model, fixed), unchanged)


@FAST
@given(problems(), st.integers(1, 4000))
def test_the_size_of_chunks_does_not_matter(problem, chunk_bytes):
    expected = certify(*problem)
    found = certify(*problem, chunk_bytes=chunk_bytes)
    assert_same(found, expected)
    assert found.rows_per_case == expected.rows_per_case


@FAST
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_and_choice_of_cases_do_not_matter(problem, random):
    X, *rest = problem
    rows = list(range(len(X)))
    random.shuffle(rows)
    rows = rows[: random.randint(1, len(rows))]
    assert_same(certify(X[rows], *rest), certify(X, *rest), rows=rows)


@FAST
@given(problems())
def test_bounds_and_ends(problem):
    X, groups, baseline, model, protocol = problem
    found = certify(X, groups, baseline, model, protocol)
    depth = min(protocol.depth, len(groups))
    assert (found.margin >= 0).all()
    assert (found.rcma >= 0).all()
    assert ((found.fds >= 0) & (found.fds <= 1)).all()
    assert (found.fds[found.u < 30] < 1).all()
    assert ((found.flip_budget >= 1) & (found.flip_budget <= depth + 1)).all()
    assert np.isin(found.lambda_star, [*protocol.severities, np.inf]).all()
    assert (np.sort(found.order, axis=1) == np.arange(len(groups))).all()
    assert (found.path_label[:, 0] == found.predicted).all()
    assert (found.path_margin[:, 0] == found.margin).all()
    # the first step removes the group with the largest drop
    first = found.margin - found.path_margin[:, 1]
    assert first == pytest.approx(found.delta.max(axis=1), abs=1e-12)


@FAST
@given(problems())
def test_without_any_group_the_prediction_is_the_baseline_s(problem):
    X, groups, baseline, model, protocol = problem
    changes = {"depth": len(groups), "operators": ["all"]}
    whole = Protocol.from_mapping({**protocol.to_dict(), **changes})
    found = certify(X, groups, baseline, model, whole)
    expected = model(baseline[None])[0]
    assert np.array_equal(found.path_proba[:, -1], np.tile(expected, (len(X), 1)))
    assert found.baseline_label == expected.argmax()
    differs = found.predicted != found.baseline_label
    assert (found.flip_budget[differs] <= len(groups)).all()
    assert np.isfinite(found.lambda_star[differs, 0]).all()


@FAST
@given(problems())
def test_a_row_equal_to_the_baseline_loses_nothing(problem):
    _, groups, baseline, model, protocol = problem
    found = certify(baseline[None], groups, baseline, model, protocol)
    assert (found.delta == 0).all()
    assert found.rcma.tolist() == [0]
    assert found.flip_budget.tolist() == [min(protocol.depth, len(groups)) + 1]
    assert np.isinf(found.lambda_star).all()
    assert found.order[0].tolist() == list(range(len(groups)))


collapses = st.floats(0, 20)
budgets = st.integers(1, 11)
thresholds = st.sampled_from([0.25, 0.5, 0.75, 1.0, np.inf])


@FAST
@given(collapses, collapses, budgets, budgets, st.lists(thresholds, min_size=3), thresholds)
def test_u_grows_with_each_component(rcma, more, budget, other, partial, threshold):
    def u(rcma, budget, partial):
        value = combine(np.array([rcma]), np.array([budget]), np.array([partial]), (1 / 3,) * 3)[0]
        assert value >= 0
        return value

    here = u(rcma, budget, partial)
    assert u(max(rcma, more), budget, partial) >= here
    assert u(rcma, min(budget, other), partial) >= here
    assert u(rcma, budget, [min(partial[0], threshold), *partial[1:]]) >= here
    if other < budget:
        assert u(rcma, other, partial) > here
    if threshold < partial[0]:
        assert u(rcma, budget, [threshold, *partial[1:]]) > here
