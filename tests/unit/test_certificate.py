"""The certificate engine against brute force, hand-worked cases, and its count of forward rows."""

import math

import numpy as np
import pytest
from unit import reference_cfc as reference

from cfc.certificate import attenuate, certify, combine, expected_rows
from cfc.errors import CfcError, ModelError
from cfc.groups import Groups
from cfc.protocol import Protocol
from cfc.seeding import uniforms


def rowwise(model):
    """Turn a model of one row into the engine's function of many; same numbers in any batch."""

    def predict(rows):
        return np.array([model(row.tolist()) for row in rows], dtype=np.float64)

    return predict


def random_groups(rng, n_groups):
    """Groups of one to three coordinates, scattered over the columns."""
    sizes = rng.integers(1, 4, size=n_groups)
    owner = rng.permutation(np.repeat(np.arange(n_groups), sizes))
    indices = tuple(np.flatnonzero(owner == g) for g in range(n_groups))
    return Groups(tuple(f"g{g}" for g in range(n_groups)), indices, len(owner))


def random_problem(seed, kind, n_groups, n_classes, n_cases=3):
    """Rows, groups, baseline, model. Values are quarters, so no state of the grid is rounded."""
    rng = np.random.default_rng([seed, n_groups, n_classes])
    groups = random_groups(rng, n_groups)
    d = groups.n_coordinates
    X = rng.integers(-12, 13, size=(n_cases, d)) / 4
    baseline = rng.integers(-4, 5, size=d) / 4
    if kind == "softmax":
        weights = rng.normal(scale=1.0, size=(d, n_classes))
        bias = weights.T @ -baseline + rng.normal(scale=0.5, size=n_classes)
        model = reference.softmax_model(weights.tolist(), bias.tolist())
    else:
        levels = 4
        model = reference.tree_model(
            rng.integers(d, size=levels).tolist(),
            (rng.integers(-6, 7, size=levels) / 4).tolist(),
            rng.dirichlet(np.ones(n_classes), size=2**levels).tolist(),
        )
    return X, groups, baseline, model


def assert_equals_reference(found, X, groups, baseline, model, **settings):
    members = [index.tolist() for index in groups.indices]
    for row, x in enumerate(X):
        expected = reference.certificate(x.tolist(), members, baseline.tolist(), model, **settings)
        for name, value in expected.items():
            np.testing.assert_allclose(getattr(found, name)[row], value, 1e-9, 1e-12, err_msg=name)


@pytest.mark.parametrize("kind", ["softmax", "tree"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_groups", range(1, 13))
def test_default_protocol_equals_brute_force(kind, n_classes, n_groups):
    X, groups, baseline, model = random_problem(0, kind, n_groups, n_classes)
    found = certify(X, groups, baseline, rowwise(model), Protocol())
    assert_equals_reference(found, X, groups, baseline, model)
    assert found.baseline_label == reference.label_of(model(baseline.tolist()))


@pytest.mark.parametrize("order", ["static", "greedy"])
def test_more_than_sixty_groups_equal_brute_force(order):
    X, groups, baseline, model = random_problem(4, "tree", 67, 2, n_cases=2)
    found = certify(X, groups, baseline, rowwise(model), Protocol(order=order))
    assert_equals_reference(found, X, groups, baseline, model, order=order)


@pytest.mark.parametrize("order", ["static", "greedy"])
@pytest.mark.parametrize("margin", ["original", "unsigned"])
@pytest.mark.parametrize("depth", [1, 2, 4, 5, 6])
@pytest.mark.parametrize("kind", ["softmax", "tree"])
def test_every_setting_equals_brute_force_below_at_and_above_g(order, margin, depth, kind):
    settings = {
        "depth": depth,
        "order": order,
        "margin": margin,
        "operators": ("all", "prefix", "top3", "top1"),
        "severities": (0.25, 0.625, 1.0),
        "weights": (0.5, 0.2, 0.3),
        "clip": 1e-3,
    }
    for seed, n_classes in ((1, 2), (2, 3)):
        X, groups, baseline, model = random_problem(seed, kind, 5, n_classes)
        found = certify(X, groups, baseline, rowwise(model), Protocol(**settings))
        assert_equals_reference(found, X, groups, baseline, model, **settings)


@pytest.mark.parametrize("severities", [(0.5,), (0.25, 0.75)])
@pytest.mark.parametrize("operators", [("top1",), ("prefix",), ("all", "top3")])
def test_grids_that_leave_out_severity_one(severities, operators):
    settings = {"severities": severities, "operators": operators, "depth": 3}
    X, groups, baseline, model = random_problem(3, "softmax", 6, 2)
    found = certify(X, groups, baseline, rowwise(model), Protocol(**settings))
    assert_equals_reference(found, X, groups, baseline, model, **settings)


@pytest.mark.parametrize("n_groups", [1, 2, 3])
@pytest.mark.parametrize("depth", [1, 2, 10])
def test_fewer_groups_or_steps_than_top3_wants(n_groups, depth):
    X, groups, baseline, model = random_problem(4, "softmax", n_groups, 2)
    found = certify(X, groups, baseline, rowwise(model), Protocol(depth=depth))
    assert_equals_reference(found, X, groups, baseline, model, depth=depth)


# ---- worked by hand: two classes, P(1) = sigmoid(w . x), so the margin of class 1 is w . x


def logistic(weights):
    def predict(rows):
        p = 1 / (1 + np.exp(-(rows.astype(np.float64) @ np.array(weights, dtype=np.float64))))
        return np.stack([1 - p, p], axis=1)

    return predict


def singles(count):
    return Groups(tuple(f"g{i}" for i in range(count)), tuple([i] for i in range(count)), count)


def certify_ones(weights, **settings):
    """Certificate of the row of ones with x̄ = 0: removing group i takes weights[i] away."""
    count = len(weights)
    return certify(
        np.ones((1, count)),
        singles(count),
        np.zeros(count),
        logistic(weights),
        Protocol(**settings),
    )


def test_a_flip_by_hand():
    # m = 1; drops 3, 1, -3; path 1, -2, -3, 0: flip at the first step. x̄ ties: class 0
    found = certify_ones([3, 1, -3])
    assert found.margin == pytest.approx([1])
    assert found.delta[0] == pytest.approx([3, 1, -3])
    assert found.order[0].tolist() == [0, 1, 2]
    assert found.path_margin[0] == pytest.approx([1, -2, -3, 0], abs=1e-12)
    assert found.path_label[0].tolist() == [1, 0, 0, 0]
    assert found.flip_budget.tolist() == [1]
    # c = 0, 3, 4, 1 over |m| = 1; above 1 because the prediction flips for good
    assert found.rcma == pytest.approx([8 / 4])
    # top1: 1 - 3λ < 0 from λ = 0.5; top3 = all: 1 - λ reaches the tie only at λ = 1
    assert found.lambda_star[0].tolist() == [0.5, 1.0, 1.0]
    u = (2 + 1 + (2 + 1 + 1) / 3) / 3
    assert found.u == pytest.approx([u], rel=1e-7)
    assert found.fds == pytest.approx([1 - math.exp(-u)], rel=1e-7)
    assert found.baseline_label == 0


def test_no_flip_gives_k_plus_one_and_no_threshold():
    # m = -6 for class 1, so 6 for class 0; half of a state's support is never lost for good
    found = certify_ones([-1, -2, -3], depth=2)
    assert found.predicted.tolist() == [0]
    assert found.order[0].tolist() == [2, 1, 0]
    assert found.path_margin[0] == pytest.approx([6, 3, 1])
    assert found.flip_budget.tolist() == [3]
    assert found.lambda_star[0].tolist() == [math.inf] * 3
    assert found.rcma == pytest.approx([(0 + 3 / 6 + 5 / 6) / 3])
    assert found.u == pytest.approx([(8 / 18 + 1 / 3) / 3])


def test_margin_gains_count_as_zero():
    # class 1 with m = 2; the removals take -1 (gain), so the last steps are worth 0
    found = certify_ones([4, -1, -1], depth=3, operators=("top1",))
    assert found.delta[0] == pytest.approx([4, -1, -1])
    assert found.path_margin[0] == pytest.approx([2, -2, -1, 0], abs=1e-12)
    assert found.rcma == pytest.approx([(0 + 2 + 1.5 + 1) / 4])
    gains = certify_ones([5, -1, -2], depth=1, operators=("top1",))
    assert gains.path_margin[0] == pytest.approx([2, -3])
    only_gains = certify(
        np.array([[1.0, 1.0]]),
        singles(2),
        np.array([2.0, 3.0]),
        logistic([1, 1]),
        Protocol(),
    )
    # x̄ supports the class more than x does: margins 2, 3 (or 4), 5
    assert only_gains.delta[0] == pytest.approx([-1, -2])
    assert only_gains.order[0].tolist() == [0, 1]
    assert only_gains.path_margin[0] == pytest.approx([2, 3, 5])
    assert only_gains.rcma.tolist() == [0]
    assert only_gains.flip_budget.tolist() == [3]
    assert only_gains.u == pytest.approx([1 / 9])


def test_ties_in_delta_go_to_the_lowest_group():
    # long enough for an unstable sort to show; eighths, so no sum is rounded
    weights = [w / 8 for w in [0, 2, 1, 2, 0, 2, 1] * 5]
    found = certify_ones(weights, depth=10)
    by_hand = sorted(range(len(weights)), key=lambda g: (-weights[g], g))
    assert found.order[0].tolist() == by_hand
    greedy = certify_ones([0.0, 2.0, 1.0, 2.0], order="greedy")
    assert greedy.order[0].tolist() == [1, 3, 2, 0]


def test_three_classes_follow_the_original_one():
    # leaves by (x0 > 0, x1 > 0); class 2 is predicted, class 0 and class 1 take over in turn
    model = reference.tree_model(
        [0, 1], [0, 0], [[0.2, 0.7, 0.1], [0.5, 0.1, 0.4], [0.3, 0.25, 0.45], [0.1, 0.2, 0.7]]
    )
    found = certify([[1.0, 1.0]], singles(2), [-1.0, -1.0], rowwise(model), Protocol())
    assert found.predicted.tolist() == [2]
    # without x0: the leaf (no, yes); without x1: the leaf (yes, no)
    assert found.delta[0] == pytest.approx(
        [math.log(0.7 / 0.2) - math.log(0.4 / 0.5), math.log(0.7 / 0.2) - math.log(0.45 / 0.3)]
    )
    assert found.path_label[0].tolist() == [2, 0, 1]
    assert found.path_margin[0] == pytest.approx(
        [math.log(3.5), math.log(0.4 / 0.5), math.log(0.1 / 0.7)]
    )
    assert found.flip_budget.tolist() == [1]
    unsigned = certify(
        [[1.0, 1.0]], singles(2), [-1.0, -1.0], rowwise(model), Protocol(margin="unsigned")
    )
    # the gap of the two largest never turns negative; without x1 it is larger than without x0
    assert unsigned.order[0].tolist() == [0, 1]
    assert unsigned.path_margin[0] == pytest.approx(
        [math.log(3.5), math.log(0.5 / 0.4), math.log(0.7 / 0.2)]
    )
    assert unsigned.rcma == pytest.approx([(1 - math.log(1.25) / math.log(3.5)) / 3], rel=1e-7)


def test_saturated_probability_is_clipped_and_flagged():
    model = reference.tree_model([0], [0], [[0.5, 0.5], [0.0, 1.0]])
    found = certify([[1.0], [-1.0]], singles(1), [-1.0], rowwise(model), Protocol())
    assert found.saturated.tolist() == [True, False]
    assert found.margin == pytest.approx([12 * math.log(10), 0])
    assert found.confidence[0] == pytest.approx(1 - 1e-12, abs=1e-15)
    # the margin goes to 0 and the tie goes to class 0, which is a flip for the first row only
    assert found.flip_budget.tolist() == [1, 2]
    assert found.rcma == pytest.approx([0.5, 0])
    votes = certify([[1.0]], singles(1), [-1.0], rowwise(model), Protocol(), clip=1 / 200)
    assert votes.margin == pytest.approx([math.log(200)])
    assert votes.confidence == pytest.approx([1 / 1.005])


@pytest.mark.parametrize(
    ("weight", "first"),
    [(5.0, 0.25), (2.5, 0.5), (1.5, 0.75), (1.1, 1.0), (0.9, math.inf)],
)
@pytest.mark.parametrize("operator", ["top1", "top3", "all"])
def test_threshold_at_each_point_of_the_grid(weight, first, operator):
    # support 1 - λ weight: negative from λ = 1 / weight on; the bias is a coordinate with x = x̄
    found = certify(
        [[1.0, 1.0]],
        singles(2),
        [0.0, 1.0],
        logistic([weight, 1.0 - weight]),
        Protocol(operators=(operator,)),
    )
    assert found.lambda_star[0, 0] == first
    share = 0 if first == math.inf else 1 / (first + 1e-8)
    rest = certify(
        [[1.0, 1.0]],
        singles(2),
        [0.0, 1.0],
        logistic([weight, 1.0 - weight]),
        Protocol(operators=(operator,), weights=(0, 0, 1)),
    )
    assert rest.u == pytest.approx([share])


def test_prefix_removes_the_first_share_of_the_path_rounded_up():
    # four groups of weight 1 and a bias of -1.5: the third removal flips
    weights = [1.0, 1.0, 1.0, 1.0, -1.5]
    X, baseline = np.ones((1, 5)), np.array([0.0, 0, 0, 0, 1])
    for severities, expected in (((0.5, 0.7, 1.0), 0.7), ((0.25, 0.75), 0.75), ((0.5,), math.inf)):
        found = certify(
            X,
            singles(5),
            baseline,
            logistic(weights),
            Protocol(operators=("prefix",), severities=severities, depth=4),
        )
        assert found.flip_budget.tolist() == [3]
        assert found.lambda_star[0, 0] == expected


def test_prefix_does_not_round_up_a_float_error():
    # 0.55 * 20 is 11.000000000000002 in floating point: 11 removals, and the flip is the 12th
    weights = [1.0] * 20 + [-8.5]
    found = certify(
        np.ones((1, 21)),
        singles(21),
        np.array([0.0] * 20 + [1]),
        logistic(weights),
        Protocol(operators=("prefix",), severities=(0.55, 0.6), depth=20),
    )
    assert found.flip_budget.tolist() == [12]
    assert found.lambda_star[0, 0] == 0.6


def test_greedy_reevaluates_after_each_removal():
    # P(1) high unless both x0 and x1 are gone, or x2 and x0: alone, no one-step drop but x2's
    leaves = {
        (1, 1, 1): 0.9, (0, 1, 1): 0.9, (1, 0, 1): 0.85, (1, 1, 0): 0.8,
        (0, 1, 0): 0.2, (1, 0, 0): 0.7, (0, 0, 1): 0.6, (0, 0, 0): 0.1,
    }  # fmt: skip

    def model(row):
        p = leaves[tuple(int(v > 0) for v in row)]
        return [1 - p, p]

    arguments = (np.ones((1, 3)), singles(3), np.zeros(3), rowwise(model))
    static = certify(*arguments, Protocol())
    greedy = certify(*arguments, Protocol(order="greedy"))
    assert static.order[0].tolist() == [2, 1, 0]
    assert static.flip_budget.tolist() == [3]
    assert greedy.order[0].tolist() == [2, 0, 1]
    assert greedy.flip_budget.tolist() == [2]
    assert greedy.delta.tolist() == static.delta.tolist()


def test_sign_noise_moves_numeric_coordinates_by_the_severity():
    asked = []

    def predict(rows):
        asked.append(rows.copy())
        return np.tile([0.3, 0.7], (len(rows), 1))

    X = np.array([[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]])
    ids, scale = np.array([7, 9]), np.array([0.5, 2.0, 0.0])
    protocol = Protocol(operators=("sign_noise",), severities=(0.5, 1.0), depth=1, seed=3)
    found = certify(X, singles(3), np.zeros(3), predict, protocol, case_ids=ids, noise_scale=scale)
    states = asked[-1].reshape(2, 2, 3)
    signs = np.where(uniforms(3, "sign_noise", ids, 0, np.zeros(1), 3)[:, 0] < 0.5, -1, 1)
    for level, severity in enumerate((0.5, 1.0)):
        assert states[:, level] == pytest.approx(X + severity * signs * scale)
    assert (states[:, :, 2] == X[:, None, 2]).all()
    assert found.lambda_star.tolist() == [[math.inf], [math.inf]]
    with pytest.raises(CfcError, match="sign_noise needs case_ids and noise_scale"):
        certify(X, singles(3), np.zeros(3), predict, protocol)


def test_combine_by_hand():
    u = combine(
        np.array([0.6, 0.0]), np.array([2, 11]), np.array([[0.5, np.inf], [np.inf, np.inf]]),
        (0.2, 0.3, 0.5),
    )  # fmt: skip
    assert u == pytest.approx([0.2 * 0.6 + 0.3 / 2 + 0.5 * (2 + 0) / 2, 0.3 / 11], rel=1e-7)


def test_attenuate_stays_between_and_arrives():
    rng = np.random.default_rng(5)
    x = (rng.normal(size=2000) * 10.0 ** rng.integers(-6, 7, size=2000)).astype(np.float32)
    b = (rng.normal(size=2000) * 10.0 ** rng.integers(-6, 7, size=2000)).astype(np.float32)
    for severity in (0.1, 0.25, 0.9, 0.99999999):
        moved = attenuate(x, b, severity)
        assert moved.dtype == np.float32
        assert (moved >= np.minimum(x, b)).all()
        assert (moved <= np.maximum(x, b)).all()
    assert (attenuate(x, b, 1.0) == b).all()
    assert attenuate(np.float32([8]), np.float32([4]), 0.25).tolist() == [7]


def test_a_missing_value_stays_in_its_own_group():
    def predict(rows):
        # a model that reads NaN as evidence, as tree libraries do
        p = np.where(np.isnan(rows[:, 0]), 0.9, 0.2)
        assert not np.isnan(rows[:, 1]).any()
        return np.stack([1 - p, p], axis=1)

    found = certify([[np.nan, 1.0]], singles(2), [0.0, 0.0], predict, Protocol())
    assert found.predicted.tolist() == [1]
    assert found.order[0].tolist() == [0, 1]
    assert found.flip_budget.tolist() == [1]
    assert found.lambda_star[0].tolist() == [1, 1, 1]


# ---- forward rows


class Recorder:
    """A softmax model that keeps every row it is asked."""

    def __init__(self, d, classes=2):
        self.weights = np.random.default_rng(d).normal(size=(d, classes))
        self.rows = []

    def __call__(self, rows):
        self.rows += [row.tobytes() for row in rows]
        powers = np.exp(rows @ self.weights)
        return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_groups", [4, 5, 9, 10, 12])
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 10])
@pytest.mark.parametrize(
    "operators", [("top1", "top3", "all"), ("all",), ("prefix", "top1"), ("top3",)]
)
def test_no_state_of_a_case_is_asked_twice(n_groups, depth, operators):
    rng = np.random.default_rng(n_groups)
    groups = random_groups(rng, n_groups)
    x = rng.normal(size=(1, groups.n_coordinates))
    model = Recorder(groups.n_coordinates)
    baseline = rng.normal(size=groups.n_coordinates)
    protocol = Protocol(depth=depth, operators=operators)
    found = certify(x, groups, baseline, model, protocol)
    assert len(model.rows) == len(set(model.rows))
    # x̄ is the same state for every case and counts for none
    assert found.rows_per_case == len(model.rows) - 1

    # states by name: which groups are at x̄ for good, and which are on their way
    k = min(depth, n_groups)
    order = tuple(found.order[0].tolist())
    states = {((), 0.0)} | {((g,), 1.0) for g in range(n_groups)}
    states |= {(tuple(sorted(order[:j])), 1.0) for j in range(1, k + 1)}
    for operator in operators:
        for severity in protocol.severities:
            if operator == "prefix":
                states.add((tuple(sorted(order[: math.ceil(severity * k)])), 1.0))
            else:
                top = {"top1": 1, "top3": 3, "all": n_groups}[operator]
                states.add((tuple(sorted(order[:top])), severity))
    states.discard((tuple(range(n_groups)), 1.0))
    assert found.rows_per_case == len(states)
    formula = 1 + n_groups + (k - 1) + len(operators) * len(protocol.severities)
    assert expected_rows(n_groups, protocol) == formula
    assert found.rows_per_case <= formula


@pytest.mark.parametrize("n_groups", [1, 2, 3])
def test_rows_of_few_groups_stay_within_the_formula(n_groups):
    groups = random_groups(np.random.default_rng(n_groups), n_groups)
    x = np.random.default_rng(1).normal(size=(4, groups.n_coordinates))
    protocol = Protocol()
    found = certify(
        x, groups, np.zeros(groups.n_coordinates), Recorder(groups.n_coordinates), protocol
    )
    assert found.rows_per_case <= expected_rows(n_groups, protocol)


@pytest.mark.parametrize("depth", [1, 3, 5])
def test_rows_of_the_greedy_order(depth):
    # each step asks what is left: G + (G - 1) + ...; 9 more for three operators below λ = 1
    model = Recorder(6)
    protocol = Protocol(depth=depth, order="greedy")
    found = certify(np.ones((2, 6)), singles(6), np.zeros(6), model, protocol)
    top3_alone = 1 if depth < 3 else 0
    assert found.rows_per_case == 1 + sum(6 - j for j in range(depth)) + 9 + top3_alone


# ---- contract of the engine


def test_shapes_types_and_time():
    X, groups, baseline, model = random_problem(6, "softmax", 12, 3)
    found = certify(X, groups, baseline, rowwise(model), Protocol())
    assert len(found) == 3
    assert found.path_margin.shape == found.path_label.shape == (3, 11)
    assert found.path_proba.shape == (3, 11, 3)
    assert found.delta.shape == found.order.shape == (3, 12)
    for name in ("predicted", "order", "path_label", "flip_budget"):
        assert getattr(found, name).dtype == np.int16, name
    for name in ("proba", "margin", "delta", "rcma", "u", "fds", "path_margin", "path_proba"):
        assert getattr(found, name).dtype == np.float64, name
    assert found.dtype == "float64"
    assert found.model_seconds > 0


def test_float32_answers_are_scored_in_float64():
    def predict(rows):
        return np.tile(np.float32([0.1, 0.9]), (len(rows), 1))

    found = certify(np.ones((1, 2)), singles(2), np.zeros(2), predict, Protocol())
    assert found.dtype == "float32"
    assert found.margin[0] == math.log(float(np.float32(0.9))) - math.log(float(np.float32(0.1)))


@pytest.mark.parametrize("order", ["static", "greedy"])
def test_no_case_gives_an_empty_certificate(order):
    def predict(rows):
        assert len(rows)  # as many libraries want it
        return logistic([1, 1, 1])(rows)

    found = certify(np.empty((0, 3)), singles(3), np.zeros(3), predict, Protocol(order=order))
    assert len(found) == 0
    assert found.path_margin.shape == (0, 4)
    assert found.lambda_star.shape == (0, 3)


def test_inputs_are_checked_and_left_alone():
    ones = np.ones((2, 3))
    predict = logistic([1, 1, 1])
    with pytest.raises(CfcError, match="3 coordinates"):
        certify(np.ones((2, 4)), singles(3), np.zeros(3), predict, Protocol())
    with pytest.raises(CfcError, match=r"baseline has shape \(2,\)"):
        certify(ones, singles(3), np.zeros(2), predict, Protocol())
    with pytest.raises(CfcError, match="not finite at coordinate 1"):
        certify(ones, singles(3), [0, np.nan, 0], predict, Protocol())
    certify(ones, singles(3), np.zeros(3), predict, Protocol())
    assert (ones == 1).all()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n: np.full((n, 2), np.nan), "NaN or infinity"),
        (lambda n: np.full((n, 1), 1.0), "at least two class probabilities"),
        (lambda n: np.full(n, 0.5), "shape"),
        (lambda n: np.full((n + 1, 2), 0.5), "shape"),
        (lambda n: np.full((n, 2 + (n > 1)), 0.3), "3 classes after 2"),
    ],
)
def test_bad_answers_of_a_model_are_refused(answer, message):
    with pytest.raises(ModelError, match=message):
        certify(
            np.ones((2, 3)), singles(3), np.zeros(3), lambda rows: answer(len(rows)), Protocol()
        )


def test_progress_ends_with_all_cases():
    seen = []
    certify(
        np.ones((5, 3)),
        singles(3),
        np.zeros(3),
        logistic([1, 1, 1]),
        Protocol(),
        chunk_bytes=1,
        progress=seen.append,
    )
    assert seen == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("n_groups", "depth"), [(5, 3), (4, 4), (6, 10)])
def test_forward_rows_of_the_greedy_order(n_groups, depth):
    """G = 5, K = 3: 1 + 5 one-step rows, 4 + 3 at the later steps, 3 operators x 4 severities."""
    protocol = Protocol(order="greedy", depth=depth)
    k = min(depth, n_groups)
    later = sum(n_groups - removed for removed in range(1, k))
    assert expected_rows(n_groups, protocol) == 1 + n_groups + later + 12
    if (n_groups, depth) == (5, 3):
        assert expected_rows(n_groups, protocol) == 25


def test_a_forest_is_clipped_at_half_a_vote_where_the_protocol_says_so():
    """100 trees: a unanimous vote counts as 1/200 against 1, so the margin is log 200."""
    groups = Groups(("a", "b"), ([0], [1]), 2)
    X = np.ones((1, 2), dtype=np.float32)

    def unanimous(rows):
        return np.tile([0.0, 1.0], (len(rows), 1))

    protocol = Protocol(clip_forest_votes=True)
    found = certify(X, groups, np.zeros(2), unanimous, protocol, forest_trees=100)
    assert found.margin[0] == pytest.approx(math.log(200))
    found = certify(X, groups, np.zeros(2), unanimous, protocol)
    assert found.margin[0] == pytest.approx(math.log(1e12))
