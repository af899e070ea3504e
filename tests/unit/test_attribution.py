"""Group Shapley values against the definition, against all subsets, and against each other."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from awkward_unit import UNIT, ToyModel, awkward_unit
from unit import reference_cfc as reference

from cfc.artifacts import lists_to_matrix, to_numpy
from cfc.attribution import (
    concentration,
    group_shapley,
    order_of,
    permutation_importance,
    random_orders,
)
from cfc.certificate import certify
from cfc.errors import CfcError
from cfc.evaluate import EvaluationSettings
from cfc.groups import Groups
from cfc.metrics import nll
from cfc.protocol import Protocol
from cfc.stages.attribution import (
    SCORES,
    attribute_unit,
    attribution_cases,
    attribution_ranks,
    evaluate_attribution,
)
from cfc.stages.rank import rank_unit

SETTINGS = {
    "cases": 8,
    "exact_groups": 12,
    "permutations": 4,
    "orders": 3,
    "importance_rows": 30,
    "importance_repeats": 2,
}


def problem(n_groups, n_classes=3, n=4, seed=0, scale=1.0):
    rng = np.random.default_rng([seed, n_groups])
    sizes = rng.integers(1, 3, n_groups)
    owner = rng.permutation(np.repeat(np.arange(n_groups), sizes))
    d = max(2, len(owner))
    owner = np.resize(owner, d)
    groups = Groups(
        tuple(f"g{g}" for g in range(n_groups)),
        tuple(np.flatnonzero(owner == g) for g in range(n_groups)),
        d,
    )
    X = rng.normal(size=(n, d)).astype(np.float32)
    baseline = rng.normal(scale=0.3, size=d).astype(np.float32)
    return X, groups, baseline, ToyModel(d, n_classes, scale).predict_proba


def by_definition(x, groups, baseline, predict):
    """Mean marginal contribution over every order of arrival, from the definition."""
    members = [i.tolist() for i in groups.indices]
    p = predict(np.array([x]))[0]
    own = reference.label_of(p)

    def worth(present):
        gone = [g for g in range(len(members)) if g not in present]
        state = reference.removed(x.tolist(), gone, members, baseline.tolist())
        return reference.margin_of(predict(np.array([state], dtype=np.float32))[0], own)

    values = [0.0] * len(members)
    orders = list(itertools.permutations(range(len(members))))
    known = {}
    for order in orders:
        for k, g in enumerate(order):
            before, after = frozenset(order[:k]), frozenset(order[: k + 1])
            for s in (before, after):
                if s not in known:
                    known[s] = worth(s)
            values[g] += (known[after] - known[before]) / len(orders)
    return values


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_groups", [1, 2, 3, 5])
def test_all_states_equal_the_definition(n_groups, n_classes):
    X, groups, baseline, predict = problem(n_groups, n_classes)
    found = group_shapley(X, groups, baseline, predict, case_ids=np.arange(len(X)), seed=0)
    for row, x in enumerate(X):
        expected = by_definition(x, groups, baseline, predict)
        assert found.values[row] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert (found.method == "exact").all()
    assert (found.standard_error == 0).all()
    assert found.additivity_error.max() < 1e-9
    assert found.rows == len(X) * (2**n_groups + 1) + 1


def test_values_of_one_group_are_the_whole_difference():
    X, groups, baseline, predict = problem(1)
    found = group_shapley(X, groups, baseline, predict, case_ids=np.arange(len(X)), seed=0)
    assert found.values[:, 0] == pytest.approx(found.total)
    assert concentration(found.values, 1) == pytest.approx(1)


def test_twelve_groups_by_all_subsets():
    X, groups, baseline, predict = problem(12, n=1)
    found = group_shapley(X, groups, baseline, predict, case_ids=[0], seed=0)
    own = int(predict(X)[0].argmax())
    worth = {}
    for size in range(13):
        for kept in itertools.combinations(range(12), size):
            worth[frozenset(kept)] = None
    states = np.repeat(baseline[None], len(worth), axis=0)
    for row, kept in enumerate(worth):
        for g in kept:
            states[row, groups.indices[g]] = X[0, groups.indices[g]]
    for kept, p in zip(worth, predict(states), strict=True):
        worth[kept] = reference.margin_of(p, own)
    for g in (0, 7):
        value = sum(
            math.factorial(len(s)) * math.factorial(11 - len(s)) / math.factorial(12)
            * (worth[s | {g}] - worth[s])
            for s in worth if g not in s
        )  # fmt: skip
        assert found.values[0, g] == pytest.approx(value, rel=1e-9)


def test_two_effects_in_one_group_cancel_before_the_absolute_value():
    # margin of class 1 is x0 − x1 + x2 with x = 1, x̄ = 0; group "both" holds x0 and x1
    def predict(rows):
        p = 1 / (1 + np.exp(-(rows.astype(np.float64) @ [1.0, -1.0, 1.0])))
        return np.stack([1 - p, p], axis=1)

    groups = Groups(("both", "one"), ([0, 1], [2]), 3)
    found = group_shapley(np.ones((1, 3)), groups, np.zeros(3), predict, case_ids=[0], seed=0)
    assert found.values[0] == pytest.approx([0, 1])
    assert concentration(found.values, 1) == pytest.approx([1])


# ---- sampling


def test_sampled_values_add_up_and_are_within_their_error():
    X, groups, baseline, predict = problem(6, n=40)
    ids = np.arange(len(X))
    exact = group_shapley(X, groups, baseline, predict, case_ids=ids, seed=1)
    found = group_shapley(
        X, groups, baseline, predict, case_ids=ids, seed=1, exact_groups=0, permutations=64
    )
    assert (found.method == "sampled").all()
    assert found.additivity_error.max() < 1e-9
    assert np.array_equal(found.total, exact.total)
    # where all pairs agree, an interaction is absent or too rare for 64 orders to meet
    varied = found.standard_error > 1e-6
    assert varied.sum() > 100
    assert np.abs(found.values - exact.values)[~varied].max() < 0.05
    off = (found.values - exact.values)[varied] / found.standard_error[varied]
    # for normal errors a 3-sigma miss is rare; with 32 pairs the tails are a little heavier
    assert (np.abs(off) < 3).mean() > 0.97
    assert 0.7 < np.sqrt((off**2).mean()) < 1.4
    assert (found.relative_error > 0).any()


def test_samples_of_a_case_do_not_depend_on_the_others_or_the_chunk():
    X, groups, baseline, predict = problem(5, n=6)
    ids = np.array([11, 5, 7, 2, 90, 3])
    options = {"seed": 2, "exact_groups": 0, "permutations": 8}
    found = group_shapley(X, groups, baseline, predict, case_ids=ids, **options)
    small = group_shapley(
        X[::-1], groups, baseline, predict, case_ids=ids[::-1], chunk_bytes=1, **options
    )
    assert np.array_equal(small.values[::-1], found.values)
    assert np.array_equal(small.standard_error[::-1], found.standard_error)
    other = group_shapley(X, groups, baseline, predict, case_ids=ids, **{**options, "seed": 3})
    assert not np.array_equal(other.values, found.values)


def test_two_groups_need_no_sampling_error():
    # an order and its reverse are all the orders there are
    X, groups, baseline, predict = problem(2)
    found = group_shapley(
        X, groups, baseline, predict, case_ids=np.arange(4), seed=0, exact_groups=0, permutations=4
    )
    exact = group_shapley(X, groups, baseline, predict, case_ids=np.arange(4), seed=0)
    assert found.values == pytest.approx(exact.values)
    assert found.standard_error == pytest.approx(0, abs=1e-12)


# ---- closed form


def logistic(weights):
    def predict(rows):
        p = 1 / (1 + np.exp(-(rows.astype(np.float64) @ np.array(weights, dtype=np.float64))))
        return np.stack([1 - p, p], axis=1)

    return predict


def test_closed_form_of_a_linear_model_equals_all_states():
    rng = np.random.default_rng(3)
    X, baseline = rng.normal(size=(5, 4)), rng.normal(size=4)
    groups = Groups(("a", "b", "c"), ([0], [1, 3], [2]), 4)
    predict = logistic([1.0, -2.0, 0.5, 1.5])
    options = {"case_ids": np.arange(5), "seed": 0}
    exact = group_shapley(X, groups, baseline, predict, **options)
    closed = group_shapley(X, groups, baseline, predict, exact_groups=0, additive=True, **options)
    assert (closed.method == "additive").all()
    assert closed.values == pytest.approx(exact.values)
    assert closed.rows < exact.rows
    weights = np.array([1.0, -2.0, 0.5, 1.5])
    sign = np.where(X.astype(np.float32) @ weights > 0, 1, -1)
    parts = (X.astype(np.float32) - baseline.astype(np.float32)) * weights
    by_hand = np.stack([parts[:, 0], parts[:, 1] + parts[:, 3], parts[:, 2]], axis=1)
    assert closed.values == pytest.approx(sign[:, None] * by_hand, rel=1e-5)


def test_a_clipped_case_is_sampled_though_the_model_is_linear():
    # the second row's probability is clipped: its one-step drops no longer add up
    X = np.array([[1.0, 1.0, 1.0], [40.0, 40.0, 1.0]])
    groups = Groups(("a", "b", "c"), ([0], [1], [2]), 3)
    found = group_shapley(
        X, groups, np.zeros(3), logistic([1, 1, 1]), case_ids=[0, 1], seed=0, exact_groups=0,
        additive=True,
    )  # fmt: skip
    assert found.method.tolist() == ["additive", "sampled"]
    assert found.additivity_error.max() < 1e-9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"permutations": 3}, "even number"),
        ({"permutations": 2}, "even number"),
        ({"exact_groups": 21}, "at most 20"),
        ({"case_ids": [1]}, "1 case ids for 4 rows"),
    ],
)
def test_settings_out_of_range(options, words):
    X, groups, baseline, predict = problem(3)
    with pytest.raises(CfcError, match=words):
        group_shapley(
            X, groups, baseline, predict, **{"case_ids": np.arange(4), "seed": 0, **options}
        )
    with pytest.raises(CfcError, match="do not fit together"):
        group_shapley(X[:, :-1], groups, baseline, predict, case_ids=np.arange(4), seed=0)


# ---- concentration and orders


def test_concentration_by_hand():
    values = np.array([[3.0, -5, 2, 0], [0, 0, 0, 0], [-1, 1, 1, 1]])
    assert concentration(values, 1) == pytest.approx([0.5, 0, 0.25])
    assert concentration(values, 3) == pytest.approx([1, 0, 0.75])
    assert concentration(values, 9) == pytest.approx([1, 0, 1])


def test_random_orders_are_seeded_permutations():
    orders = random_orders(6, 5, 0)
    assert (np.sort(orders, axis=1) == np.arange(6)).all()
    assert len({tuple(o) for o in orders}) == 5
    assert np.array_equal(orders, random_orders(6, 5, 0))
    assert np.array_equal(orders[:2], random_orders(6, 2, 0))


def test_order_of_importance_breaks_ties_by_number():
    assert order_of([0.1, 0.5, 0.5, -1]).tolist() == [1, 2, 0, 3]


def test_importance_is_the_log_loss_a_shuffled_group_costs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    y = (rng.random(400) < 1 / (1 + np.exp(-3 * X[:, 0]))).astype(np.int16)
    groups = Groups(("used", "unused"), ([0, 1], [2]), 3)
    predict = logistic([3.0, 0, 0])
    found = permutation_importance(X, y, groups, predict, seed=0, repeats=3)
    assert found[1] == 0
    # shuffled, the rows are right by chance only: x0 independent of y
    p = predict(X)[:, 1]
    apart = np.mean([nll(np.stack([1 - p, p], axis=1)[rng.permutation(400)], y) for _ in range(50)])
    assert found[0] == pytest.approx(apart - nll(predict(X), y), rel=0.15)


# ---- certificates along a given order


def test_a_given_order_equals_the_reference_path():
    X, groups, baseline, predict = problem(5, n=3)
    members = [i.tolist() for i in groups.indices]
    order = np.array([3, 0, 4, 1, 2])
    found = certify(X, groups, baseline, predict, Protocol(depth=4), order=order)
    assert (found.order == order).all()
    for row, x in enumerate(X):
        own = found.predicted[row]
        margins = [
            reference.margin_of(
                predict(np.array([reference.removed(x, order[:k], members, baseline)], np.float32))[
                    0
                ],
                own,
            )
            for k in range(5)
        ]
        assert found.path_margin[row] == pytest.approx(margins, rel=1e-9, abs=1e-12)
        collapse = [reference.collapse(margins[0], m) for m in margins]
        assert found.rcma[row] == pytest.approx(sum(collapse) / 5)


def test_the_order_of_falling_drops_is_the_default_one():
    X, groups, baseline, predict = problem(6, n=5)
    free = certify(X, groups, baseline, predict, Protocol())
    for protocol in (Protocol(), Protocol(order="greedy")):
        given = certify(X, groups, baseline, predict, protocol, order=free.order, chunk_bytes=1)
        for name in ("u", "path_margin", "path_label", "lambda_star", "order"):
            assert np.array_equal(getattr(given, name), getattr(free, name)), name


def test_an_order_for_each_case():
    X, groups, baseline, predict = problem(4, n=2)
    orders = np.array([[0, 1, 2, 3], [3, 2, 1, 0]])
    both = certify(X, groups, baseline, predict, Protocol(), order=orders)
    for row, order in enumerate(orders):
        one = certify(X[row : row + 1], groups, baseline, predict, Protocol(), order=order)
        assert one.u[0] == both.u[row]


@pytest.mark.parametrize(
    ("order", "words"),
    [([0, 1], r"shape \(2,\)"), ([0, 1, 1], "once"), ([[0, 1, 2]] * 3, r"shape \(3, 3\)")],
)
def test_orders_that_are_none(order, words):
    X, groups, baseline, predict = problem(3, n=2)
    with pytest.raises(CfcError, match=words):
        certify(X, groups, baseline, predict, Protocol(), order=np.array(order))


# ---- the stage


@pytest.fixture(scope="module")
def unit():
    return awkward_unit()


@pytest.fixture(scope="module")
def attributed(unit):
    return attribute_unit(
        unit.prepared, unit.model, unit.certificates, unit.protocol, SETTINGS, clip=unit.clip,
        unit=UNIT,
    )  # fmt: skip


def test_a_seeded_sample_of_confident_cases(unit, attributed):
    chosen = attribution_cases(unit.certificates, 8, UNIT["seed"])
    confident = to_numpy(unit.certificates["is_confident"])
    assert len(chosen) == 8
    assert confident[chosen].all()
    assert np.array_equal(attribution_cases(unit.certificates, 999, 0), np.flatnonzero(confident))
    ids = to_numpy(unit.certificates["case_id"])[chosen]
    assert np.array_equal(to_numpy(attributed[0]["case_id"]), ids)


def test_stage_scores(unit, attributed):
    table, facts, timings = attributed
    values = lists_to_matrix(table["shapley"])
    assert to_numpy(table["group_shap"]) == pytest.approx(concentration(values, 1))
    assert to_numpy(table["additivity_error"]).max() < 1e-9
    assert set(SCORES) <= set(table.column_names)
    X = unit.prepared.X[to_numpy(table["case_id"])]
    mean = np.mean(
        [
            certify(
                X, unit.prepared.groups, unit.prepared.baseline("mean"), unit.model.predict_proba,
                Protocol(), order=order,
            ).u
            for order in facts["orders"]
        ],
        axis=0,
    )  # fmt: skip
    assert to_numpy(table["random_order"]) == pytest.approx(mean)
    assert len(facts["importance"]) == len(unit.prepared.groups)
    assert timings["cases"] == 8


def test_group_shap_is_null_where_it_was_not_computed(unit, attributed):
    ranks = rank_unit(unit.certificates, unit.clip, attribution=attributed[0])
    held = np.isin(to_numpy(ranks["case_id"]), to_numpy(attributed[0]["case_id"]))
    for sign in ("paper", "risk"):
        column = ranks[f"group_shap_{sign}"]
        assert column.null_count == (~held).sum()
        assert np.array_equal(column.is_null().to_numpy(), ~held)


def test_all_scores_are_evaluated_on_the_attributed_cases_only(unit, attributed):
    certificates = unit.certificates
    rng = np.random.default_rng(0)
    label = rng.random(certificates.num_rows) < 0.5
    labels = pa.table({"case_id": certificates["case_id"], "literal": label})
    settings = EvaluationSettings(
        tau_p=0.6, min_positive=1, min_negative=1, label_rules=("literal",)
    )
    ranks = rank_unit(certificates, unit.clip, attribution=attributed[0])
    assert attribution_ranks(ranks, attributed[0]).num_rows == 8
    rows = evaluate_attribution(
        certificates, labels, ranks, attributed[0], settings=settings, unit=tuple(UNIT.values())
    ).to_pylist()
    auroc = [r for r in rows if r["metric"] == "auroc"]
    assert {r["n"] for r in auroc} == {8}
    assert {*SCORES, "fds", "max_softmax"} <= {r["score"] for r in auroc}
    own = {r["metric"]: r["value"] for r in rows if r["family"] == "attribution"}
    assert own["share_exact"] == 1
    assert own["relative_error"] == 0
    assert own["additivity_error"] < 1e-9


def test_a_unit_without_confident_cases(unit):
    none = unit.certificates.set_column(
        unit.certificates.column_names.index("is_confident"),
        "is_confident",
        pa.array(np.zeros(unit.certificates.num_rows, dtype=bool)),
    )
    table, _, _ = attribute_unit(
        unit.prepared, unit.model, none, unit.protocol, SETTINGS, clip=unit.clip, unit=UNIT
    )
    assert table.num_rows == 0
    ranks = rank_unit(none, unit.clip, attribution=table)
    labels = pa.table({"case_id": none["case_id"], "literal": np.zeros(none.num_rows, dtype=bool)})
    settings = replace(EvaluationSettings(), label_rules=("literal",))
    rows = evaluate_attribution(
        none, labels, ranks, table, settings=settings, unit=tuple(UNIT.values())
    ).to_pylist()
    assert all(r["value"] is None and r["reason"] for r in rows if r["metric"] == "auroc")
    assert {r["reason"] for r in rows if r["family"] == "attribution"} == {"no attributed case"}


def test_one_group_and_more_groups_than_are_exact(unit):
    whole = Groups(("all",), (np.arange(unit.prepared.X.shape[1]),), unit.prepared.X.shape[1])
    single = replace(unit.prepared, groupings={"one": whole}, grouping="one")
    certificates = unit.certificates.set_column(
        unit.certificates.column_names.index("delta"),
        "delta",
        pa.array([[0.5]] * unit.certificates.num_rows),
    )
    table, facts, _ = attribute_unit(
        single, unit.model, certificates, unit.protocol, SETTINGS, clip=unit.clip, unit=UNIT
    )
    assert to_numpy(table["group_shap"]) == pytest.approx(1)
    assert to_numpy(table["random_order"]) == pytest.approx(to_numpy(table["permutation_order"]))
    assert facts["orders"] == [[0]] * 3
    sampled, _, _ = attribute_unit(
        unit.prepared, unit.model, unit.certificates, unit.protocol,
        {**SETTINGS, "exact_groups": 2}, clip=unit.clip, unit=UNIT,
    )  # fmt: skip
    assert set(to_numpy(sampled["method"])) == {"sampled"}
    assert to_numpy(sampled["additivity_error"]).max() < 1e-9
