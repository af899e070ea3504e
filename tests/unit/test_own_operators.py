"""Operators of one's own, fixed columns, columns that cannot fade, float64: against a row loop."""

import numpy as np
import pytest

from cfc import (
    Groups,
    Protocol,
    StressSettings,
    certify,
    degradation,
    stress_cases,
    stress_operator,
)
from cfc.errors import CfcError, ConfigError
from cfc.operators import DEGRADATIONS, STRESSES


@pytest.fixture(autouse=True)
def _forget_operators():
    yield
    DEGRADATIONS.clear()
    STRESSES.clear()


W = np.array([2.0, -1.5, 0.7, 1.1, -0.4])


def predict(rows):
    z = np.nan_to_num(np.asarray(rows, dtype=np.float64), nan=-2.0) @ W
    p = 1 / (1 + np.exp(-z))
    return np.stack([1 - p, p], axis=1)


def margin(row, label):
    p = predict(row[None])[0]
    return np.log(p[label]) - np.log(p[1 - label])


def by_hand(x, groups, baseline, depth, severities, fades, fixed):
    """One case, one state at a time, straight from the definitions."""
    label = int(np.argmax(predict(x[None])[0]))
    m = margin(x, label)
    drops = []
    for index in groups:
        state = x.copy()
        state[index] = baseline[index]
        drops.append(m - margin(state, label))
    order = sorted(range(len(groups)), key=lambda g: (-drops[g], g))
    state, margins, budget = x.copy(), [m], depth + 1
    for k in range(1, depth + 1):
        index = groups[order[k - 1]]
        state[index] = baseline[index]
        margins.append(margin(state, label))
        if margins[-1] < 0:
            budget = min(budget, k)
    found = {}
    for name, top in (("top1", 1), ("top3", 3), ("all", len(groups))):
        found[name] = np.inf
        touched = [i for g in order[:top] for i in groups[g] if i not in fixed]
        for s in severities:
            state = x.copy()
            for i in touched:
                if s == 1:
                    state[i] = baseline[i]
                elif fades[i]:
                    state[i] = x[i] + s * (baseline[i] - x[i])
                elif s >= 0.5:
                    state[i] = baseline[i]
            if margin(state, label) < 0:
                found[name] = s
                break
    return drops, margins, budget, found


@pytest.mark.parametrize("depth", [1, 2, 3, 9])
@pytest.mark.parametrize("fixed", [(), (3,), (0, 3)])
def test_fixed_and_unfading_coordinates_against_a_row_loop(depth, fixed):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 5)) * 2
    X[::7, 1] = np.nan
    baseline = np.array([0.1, 0.3, -0.2, np.nan, 0.5])
    fades = np.array([True, False, True, False, True])
    blocks = [[i for i in block if i not in fixed] for block in ([0, 4], [1], [2, 3])]
    groups = Groups(["a", "b", "c"], blocks, 5, fixed=fixed)
    protocol = Protocol(depth=depth, severities=(0.25, 0.5, 0.75, 1.0))
    got = certify(X, groups, baseline, predict, protocol, fades=fades, dtype="float64")
    for row, x in enumerate(X):
        drops, margins, budget, found = by_hand(
            x, blocks, baseline, min(depth, 3), protocol.severities, fades, fixed
        )
        np.testing.assert_allclose(got.delta[row], drops, atol=1e-12)
        np.testing.assert_allclose(got.path_margin[row], margins, atol=1e-12)
        assert got.flip_budget[row] == budget
        assert dict(zip(protocol.operators, got.lambda_star[row], strict=True)) == found


def test_float64_states_reach_the_model_unrounded():
    seen = []

    def spy(rows):
        seen.append(rows.dtype)
        return predict(rows)

    x = np.array([[0.1, 0.2, 0.3, 0.4, 1 / 3]])
    groups = Groups(["a", "b"], [[0, 1, 2], [3, 4]], 5)
    result = certify(x, groups, np.zeros(5), spy, Protocol(), dtype="float64")
    assert set(seen) == {np.dtype("float64")}
    np.testing.assert_array_equal(result.proba, predict(x))


def test_a_fixed_coordinate_never_changes_under_stress():
    X = np.arange(15.0).reshape(3, 5)
    rows = []

    def spy(states):
        rows.append(states.copy())
        return predict(states)

    settings = StressSettings.from_mapping(
        {o: {"severities": [1.0], "draws": 4} for o in ("mask", "dropout", "noise", "swap")}
    )
    stress_cases(
        X,
        Groups(["a", "b"], [[0, 1], [3, 4]], 5, fixed=[2]),
        np.full(5, -1.0),
        spy,
        settings,
        seed=0,
        case_ids=np.arange(3),
        noise_scale=np.ones(5),
        donors=np.full((4, 5), 99.0),
        dtype="float64",
    )
    stressed = np.concatenate(rows[1:])
    assert set(stressed[:, 2]) == {2.0, 7.0, 12.0}
    assert 99.0 in stressed[:, 0]
    assert -1.0 in stressed[:, 0]


def test_groups_count_fixed_coordinates_as_covered():
    groups = Groups(["a"], [[0]], 3, fixed=[2, 1])
    assert groups.of_coordinate.tolist() == [0, 1, 1]
    with pytest.raises(ValueError, match="coordinate 0 is in group 'a' and in group"):
        Groups(["a"], [[0]], 2, fixed=[0, 1])


def test_a_degradation_of_ones_own_is_searched_like_the_built_in_ones():
    @degradation("sign_turned")
    def sign_turned(X, severity, context):
        return np.where(context.rank == 0, X * (1 - 2 * severity), X)

    x = np.array([[3.0, 0.1, 0.1, 0.1, 0.1]])
    groups = Groups(list("abcde"), [[i] for i in range(5)], 5)
    protocol = Protocol(operators=("top1", "sign_turned"), severities=(0.25, 0.5, 0.75, 1.0))
    got = certify(x, groups, np.zeros(5), predict, protocol, dtype="float64")
    # z = 3 * 2 * (1 - 2s) + 0.1 * (-1.5 + 0.7 + 1.1 - 0.4) falls below 0 first at s = .75;
    # s = .5 leaves z = -0.01, already below
    assert got.lambda_star[0, 1] == 0.5
    # x, 5 single groups, path of 2, 3 and 4 groups, top1 below 1, the own operator at each severity
    assert got.rows_per_case == 1 + 5 + 3 + 3 + 4


def test_random_operators_get_numbers_that_follow_the_case_not_the_batch():
    @stress_operator("coin", randomness="group")
    def coin(X, severity, context, u):
        hit = context.groups.spread(u < severity, False)
        return np.where(hit, 0.0, X[:, None, :])

    @stress_operator("halved")
    def halved(X, severity, context):
        return X * (1 - severity)

    settings = StressSettings.from_mapping(
        {"coin": {"severities": [0.4], "draws": 30}, "halved": {"severities": [0.5], "draws": 2}}
    )
    groups = Groups(["a", "b"], [[0, 1], [2, 3, 4]], 5)
    X = np.random.default_rng(0).normal(size=(20, 5))

    def run(rows):
        return stress_cases(
            X[rows],
            groups,
            np.zeros(5),
            predict,
            settings,
            seed=5,
            case_ids=rows,
            noise_scale=np.zeros(5),
            donors=X,
            dtype="float64",
        )

    whole, part = run(np.arange(20)), run(np.array([7, 3]))
    np.testing.assert_array_equal(whole.margins["coin"][[7, 3]], part.margins["coin"])
    assert len(np.unique(whole.margins["coin"][3])) == 4  # both, either, neither group hit
    own = whole.predicted
    by_hand = [margin(x / 2, label) for x, label in zip(X, own, strict=True)]
    np.testing.assert_allclose(whole.margins["halved"][:, 0, 1], by_hand, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "randomness", "message"),
    [
        ("not a name", "none", "must be a Python identifier"),
        ("top1", "none", "built in"),
        ("swap", "none", "built in"),
        ("mine", "often", "randomness 'often' is unknown; one of none, draw, group, coordinate"),
    ],
)
def test_registering_refuses(name, randomness, message):
    with pytest.raises(ConfigError, match=message):
        degradation(name, randomness=randomness)


def test_one_name_one_function():
    degradation("mine")(lambda X, severity, context: X)
    with pytest.raises(ConfigError, match="another operator 'mine'"):
        degradation("mine")(lambda X, severity, context: X + 1)


def test_a_wrong_shape_is_named():
    degradation("short")(lambda X, severity, context: X[:, :1])
    groups = Groups(["a"], [[0, 1, 2, 3, 4]], 5)
    with pytest.raises(CfcError, match=r"'short' answered rows of shape \(2, 5\).*\(2, 1\)"):
        certify(np.ones((2, 5)), groups, np.zeros(5), predict, Protocol(operators=("short",)))


def test_an_operator_nobody_registered_is_unknown():
    with pytest.raises(ConfigError, match="'mine' is unknown; one of top1"):
        Protocol(operators=("mine",))
