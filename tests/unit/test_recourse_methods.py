"""Each recourse method where the right answer is known: by geometry, by brute force, by SciPy."""

import itertools

import numpy as np
import pytest
from recourse_toys import (
    cheapest_by_enumeration,
    linear_net,
    random_net,
    refused,
    toy_data,
    toy_problem,
)
from scipy.optimize import linprog, minimize
from scipy.stats import beta

from cfc.errors import ConfigError, ModelError
from cfc.recourse.methods.apas import APAS, SLACK, Cloud, LocalSolver, sample_size
from cfc.recourse.methods.betarce import BetaRCE, votes_needed
from cfc.recourse.methods.kdtree import NearestFavourable
from cfc.recourse.methods.rbr import RBR, Inner, boundary_point, diameter, objective, project_l1
from cfc.recourse.methods.rnce import RNCE, IntervalNet, certify_rows
from cfc.recourse.methods.roar_lime import RoarLime, surrogate, worst_logit
from cfc.recourse.methods.robx import RobXBalanced, RobXRobustFirst
from cfc.recourse.methods.spheres import Shells, growing_sphere
from cfc.recourse.methods.wachter import Wachter

SLOPE = linear_net([2.0, 0.0], 0.0)  # favourable where the first coordinate is at least 0


def test_the_nearest_neighbour_is_that_of_brute_force():
    problem = toy_problem(random_net(3, seed=1), toy_data(3))
    X, ids = refused(problem)
    found = NearestFavourable(problem).generate(X, ids)
    rows = problem.X_train[problem.net.accepts(problem.X_train)]
    for x, z in zip(X, found, strict=True):
        assert np.linalg.norm(rows - x, axis=1).min() == pytest.approx(np.linalg.norm(z - x))
        assert (rows == z.astype(np.float32)).all(axis=1).any()


def test_no_accepted_row_means_no_neighbour_and_no_certified_row():
    problem = toy_problem(linear_net([1.0, 0.0], -100.0))
    X, ids = refused(problem)
    for method in (NearestFavourable, RNCE, RBR, RobXBalanced, RoarLime):
        answer = method(problem, {"samples": 50} if "samples" in method.PARAMS else {}).generate(
            X[:1], ids[:1]
        )
        points = getattr(answer, "points", answer)
        assert np.isnan(points).all(), method.name


def test_wachter_ends_one_step_past_the_crossing_of_a_linear_model():
    problem = toy_problem(SLOPE)
    X = np.array([[-1.0, 0.3], [-0.2, -2.0]], dtype=np.float32)
    lr = 0.01
    found = Wachter(problem, {"lam": 0.1, "lr": lr}).generate(X, np.arange(2))
    crossing = np.log(0.501 / 0.499) / 2  # where 1/(1 + exp(−2z)) is 0.501
    assert (found[:, 0] >= crossing).all()
    assert (found[:, 0] <= crossing + 2.5 * lr).all()
    assert np.allclose(found[:, 1], X[:, 1], atol=1e-6)  # nothing pulls the other coordinate


def test_wachter_gives_each_request_the_same_answer_alone_and_returns_its_last_point():
    problem = toy_problem(random_net(4, seed=1), toy_data(4))
    X, ids = refused(problem)
    method = Wachter(problem, {"lam": 0.01})
    together = method.generate(X, ids)
    alone = np.concatenate([method.generate(X[i : i + 1], ids[i : i + 1]) for i in range(len(X))])
    assert np.allclose(together, alone, atol=1e-5)
    heavy = Wachter(toy_problem(SLOPE), {"lam": 50.0, "max_steps": 20}).generate(
        X[:1, :2] * 0 - 3, ids[:1]
    )
    assert np.isfinite(heavy).all()
    assert (heavy[:, 0] < 0).all()


# --- growing spheres, BetaRCE, RobX ---------------------------------------------------------------


def test_a_sphere_stops_in_the_first_shell_that_reaches_the_half_space():
    shells = Shells(samples=400, order=2, step=0.1, most=50)
    found = growing_sphere([-0.55, 0.0], lambda p: p[:, 0] >= 0, shells, np.random.default_rng(0))
    assert found[0] >= 0
    assert 0.55 <= np.linalg.norm(found - [-0.55, 0]) < 0.7
    diamond = Shells(
        samples=400, order=1, step=0.1, most=50, low=np.array([-1, -0.01]), high=np.array([1, 0.01])
    )
    found = growing_sphere([-0.55, 0.0], lambda p: p[:, 0] >= 0, diamond, np.random.default_rng(0))
    assert abs(found[1]) <= 0.011


def test_a_sphere_ends_when_nothing_passes():
    asked = []
    shells = Shells(samples=10, order=2, most=7)

    def never(points):
        asked.append(np.linalg.norm(points, axis=1).max())
        return np.zeros(len(points), dtype=bool)

    assert growing_sphere(np.zeros(3), never, shells, np.random.default_rng(0)) is None
    assert len(asked) == 7
    assert all(0.1 * k <= far <= 0.1 * (k + 1) + 1e-6 for k, far in enumerate(asked))


def test_votes_follow_the_beta_bound_and_32_voters_must_agree():
    def is_enough(k, n, share):  # without the quantile function: probability of a share below
        return beta.cdf(share, 0.5 + k, 0.5 + n - k) < 0.05

    for n, share in ((32, 0.9), (18, 0.9), (17, 0.9), (8, 0.7), (40, 0.8)):
        passing = [k for k in range(n + 1) if is_enough(k, n, share)]
        assert votes_needed(n, share, 0.05) == (min(passing) if passing else None)
    assert votes_needed(32, 0.9, 0.05) == 32
    assert votes_needed(17, 0.9, 0.05) is None


def test_betarce_returns_a_point_every_voter_accepts_and_none_without_enough_voters():
    problem = toy_problem(SLOPE, voters=32)
    X, ids = refused(problem, 3)
    for i in range(3):
        z = BetaRCE(problem).generate(X[i : i + 1], ids[i : i + 1])
        assert (problem.ensemble.logits(z) >= 0).all()
        assert problem.net.accepts(z)[0]
    few = toy_problem(SLOPE, voters=8)
    assert np.isnan(BetaRCE(few).generate(X[:1], ids[:1])).all()
    assert np.isfinite(BetaRCE(few, {"delta": 0.7}).generate(X[:1], ids[:1])).all()
    with pytest.raises(ConfigError, match="needs an ensemble"):
        BetaRCE(toy_problem(SLOPE))


def test_stability_is_the_mean_less_the_deviation_and_a_point_without_noise_its_probability():
    problem = toy_problem(random_net(3, seed=3), toy_data(3))
    still = RobXBalanced(problem, {"noise": 0.0, "samples": 20})
    points = problem.X_train[:7]
    assert np.allclose(still.stability(points), problem.net.proba(points), atol=1e-6)
    method = RobXBalanced(problem, {"samples": 300})
    noise = problem.rng("robx_noise").standard_normal((300, 3), dtype=np.float32)
    for x, score in zip(points, method.stability(points), strict=True):
        p = problem.net.proba(x + 0.1 * noise).astype(float)
        assert score == pytest.approx(p.mean() - p.std(), abs=1e-5)


def test_robx_passes_its_threshold_and_the_robust_first_one_is_higher():
    problem = toy_problem(SLOPE)
    X, ids = refused(problem, 3)
    thresholds = []
    for kind in (RobXBalanced, RobXRobustFirst):
        method = kind(problem, {"samples": 200, "start_samples": 100})
        thresholds.append(method.threshold)
        for i in range(3):
            z = method.generate(X[i : i + 1], ids[i : i + 1]).points.astype(np.float32)
            assert method.stability(z)[0] > method.threshold
            assert problem.net.accepts(z)[0]
    assert thresholds[0] < thresholds[1]
    assert RobXBalanced(problem, {"quantile": 0.0, "samples": 200}).threshold == 0.5


# --- RBR ------------------------------------------------------------------------------------------


def test_the_boundary_point_is_the_nearest_crossing_of_all_segments():
    problem = toy_problem(random_net(3, seed=4), toy_data(3, n=200))
    for x in refused(problem, 4)[0]:
        rows = problem.favourable.astype(float)
        best = (np.inf, None)
        for row in rows:  # every segment in full
            for share in np.linspace(0, 1, 100):
                z = (1 - share) * x.astype(float) + share * row
                if problem.net.accepts(z[None])[0]:
                    best = min(best, (np.abs(z - x).sum(), tuple(z)))
                    break
        point, away = boundary_point(x, problem, len(rows))
        assert away == pytest.approx(best[0], abs=1e-9)
        assert np.allclose(point, best[1])


@pytest.mark.parametrize("kind", ["adverse", "favourable"])
def test_inner_problems_reach_the_best_of_a_fine_grid(kind):
    inner = Inner(p=4, sigma=1.0, epsilon=0.5, steps=1000)
    # the published step is too long for far favourable samples, which end beside the optimum
    c = np.array([[0.2, 0.7, 1.3, 2.5]] if kind == "adverse" else [[0.1, 0.3, 0.5, 0.7]])
    a, b = inner.solve(c, np.ones_like(c, dtype=bool), kind)
    reach = 0.5 if kind == "adverse" else 0.25
    assert (a >= 0).all()
    assert (b >= 0).all()
    assert (a**2 + b**2 <= reach**2 + 1e-12).all()
    grid = np.stack(np.meshgrid(*[np.linspace(0, reach, 201)] * 2), axis=-1).reshape(-1, 2)
    grid = grid[(grid**2).sum(axis=1) <= reach**2]
    value = getattr(inner, kind)
    for i in range(4):
        lowest = value(c[0, i], grid[:, 0], grid[:, 1]).min()
        assert value(c[0, i], a[0, i], b[0, i]) <= lowest + 2e-3


def test_the_objective_has_the_gradient_of_finite_differences(monkeypatch):
    rng = np.random.default_rng(0)
    samples, z = rng.normal(size=(2, 20, 3)), rng.normal(size=(2, 3))
    labels = rng.random((2, 20)) > 0.4
    labels[1] = True  # no adverse sample: that term drops out
    inner = Inner(3, 1.0, 0.5, 1000)
    held = {"adverse": (0.1, 0.2), "favourable": (0.12, 0.05)}
    monkeypatch.setattr(
        Inner, "solve", lambda self, c, used, kind: tuple(np.full_like(c, v) for v in held[kind])
    )
    value, slope = objective(z, samples, labels, inner)
    for j in range(3):
        h = np.zeros(3)
        h[j] = 1e-5
        up, _ = objective(z + h, samples, labels, inner)
        down, _ = objective(z - h, samples, labels, inner)
        assert np.allclose((up - down) / 2e-5, slope[:, j], atol=1e-6)
    assert np.isfinite(value).all()
    # the first objective from its definition: two log-sums over the samples of each class
    c = np.linalg.norm(z[0] - samples[0], axis=1)
    low = inner.adverse(c[~labels[0]], 0.1, 0.2)
    high = inner.favourable(c[labels[0]], 0.12, 0.05)
    assert value[0] == pytest.approx(np.log(np.exp(-low).sum()) - np.log(np.exp(high).sum()))


def test_projection_to_the_l1_ball_is_the_nearest_point_of_it():
    rng = np.random.default_rng(1)
    z, centre = rng.normal(size=(4, 3)) * 2, rng.normal(size=(4, 3))
    radius = np.array([0.5, 1.0, 2.0, 50.0])
    found = project_l1(z, centre, radius)
    assert np.array_equal(found[3], z[3])
    for i in range(3):
        assert np.abs(found[i] - centre[i]).sum() <= radius[i] + 1e-9

        # the same as a smooth problem in u − v
        def cost(t, i=i):
            return ((centre[i] + t[:3] - t[3:] - z[i]) ** 2).sum()

        solved = minimize(
            cost,
            np.full(6, 0.01),
            bounds=[(0, None)] * 6,
            constraints={"type": "ineq", "fun": lambda t, i=i: radius[i] - t.sum()},
            method="SLSQP",
        )
        assert ((found[i] - z[i]) ** 2).sum() == pytest.approx(solved.fun, abs=1e-4)


def test_rbr_stays_within_its_ball_and_its_batch_does_not_matter():
    problem = toy_problem(SLOPE)
    X, ids = refused(problem, 3)
    method = RBR(problem, {"samples": 40, "neighbours": 50})
    together = method.generate(X, ids)
    for i in range(3):
        alone = method.generate(X[i : i + 1], ids[i : i + 1])
        assert np.allclose(alone[0], together[i], atol=1e-9)
        _, away = boundary_point(X[i], problem, 50)
        assert np.abs(together[i] - X[i]).sum() <= away + 0.2 + 1e-9
    assert diameter(X) == pytest.approx(max(np.linalg.norm(a - b) for a in X for b in X), rel=1e-5)


# --- RNCE -----------------------------------------------------------------------------------------


def worst_by_enumeration(net, x, radius):
    """Smallest logit of the interval network: one linear program a second-layer pattern."""
    (w1, w2, w3), (b1, b2, b3) = net.doubles()
    reach = radius * (np.abs(x).sum() + 1)
    u = w1 @ x + b1
    low, high = np.maximum(u - reach, 0), np.maximum(u + reach, 0)
    a = w3[0] - radius
    best = np.inf
    for on in itertools.product([0, 1], repeat=len(b2)):
        on = np.array(on)
        w = np.where((a > 0)[:, None], w2 - radius, w2 + radius)
        b = np.where(a > 0, b2 - radius, b2 + radius)
        sign = np.where(on, 1.0, -1.0)
        found = linprog(
            (a * on) @ w,
            A_ub=-sign[:, None] * w,
            b_ub=sign * b,
            bounds=np.column_stack([low, high]),
        )
        if found.status == 0:
            best = min(best, found.fun + (a * on) @ b + b3[0] - radius)
    return best


def test_the_worst_logit_is_that_of_enumerating_all_patterns_for_inputs_of_either_sign():
    rng = np.random.default_rng(0)
    for seed in range(6):
        net = random_net(3, seed=seed)
        box = IntervalNet(net, 0.1)
        X = rng.normal(size=(4, 3)) - 1.0
        low, high = box.first_layer(X)
        bound, attack = box.interval_bound(low, high), box.attack(low, high)
        for i, x in enumerate(X):
            exact = worst_by_enumeration(net, x, 0.1)
            assert box.worst_logit(low[i], high[i]) == pytest.approx(exact, abs=1e-5)
            assert bound[i] <= exact + 1e-9 <= attack[i] + 2e-9


def test_no_sampled_network_within_the_radius_refutes_a_certified_row():
    net, radius = random_net(3, seed=2, scale=1.5), 0.05
    X = (np.random.default_rng(1).normal(size=(300, 3)) * 2).astype(np.float32)
    found = certify_rows(net, X, radius).certified
    assert 10 < found.sum() < 290
    assert net.accepts(X[found]).all()
    rng = np.random.default_rng(2)
    for number in range(400):
        noise = rng.uniform(-radius, radius, len(net.flat()))
        if number % 2:
            noise = radius * np.sign(noise)  # corners refute more often than the inside
        assert (net.with_flat(net.flat() + noise).logits(X[found]) > 0).all()


def test_rnce_returns_the_nearest_certified_row_and_a_radius_of_zero_is_the_nearest_neighbour():
    problem = toy_problem(random_net(3, seed=2, scale=1.5), toy_data(3))
    X, ids = refused(problem)
    method = RNCE(problem, {"radius": 0.02})
    for x, z in zip(X, method.generate(X, ids), strict=True):
        assert np.linalg.norm(method.rows - x, axis=1).min() == pytest.approx(np.linalg.norm(z - x))
    plain = NearestFavourable(problem).generate(X, ids)
    assert np.array_equal(RNCE(problem, {"radius": 0.0}).generate(X, ids), plain)
    with pytest.raises(ModelError, match="two hidden layers"):
        certify_rows(random_net(3, (4,)), X, 0.1)


# --- ROAR-LIME ------------------------------------------------------------------------------------


def test_the_worst_surrogate_is_that_of_trying_every_corner():
    rng = np.random.default_rng(0)
    z, w, b = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), rng.normal(size=5)
    found = worst_logit(z, w, b, 0.1)
    for i in range(5):
        corners = [
            (w[i] + 0.1 * np.array(s[:3])) @ z[i] + b[i] + 0.1 * s[3]
            for s in itertools.product([-1, 1], repeat=4)
        ]
        assert found[i] == pytest.approx(min(corners))


def test_the_surrogate_of_a_linear_model_points_where_the_model_does():
    w = np.array([3.0, -1.5, 0.0])
    problem = toy_problem(linear_net(w, 0.4), toy_data(3))
    x = refused(problem, 1)[0][0]
    weight, bias = surrogate(x, 3, problem, 4000, 0.75)
    assert weight @ w / np.linalg.norm(weight) / np.linalg.norm(w) > 0.995
    assert bias / np.linalg.norm(weight) == pytest.approx(0.4 / np.linalg.norm(w), abs=0.05)
    assert np.array_equal(np.round(weight, 4), weight)
    assert surrogate(x, 3, toy_problem(linear_net(w, 99.0), toy_data(3)), 100, 0.75) is None


def test_roar_ends_where_the_loss_is_flat_and_more_distance_weight_moves_less():
    problem = toy_problem(SLOPE)
    X, ids = refused(problem, 3)
    options = {"samples": 1000, "lr": 0.01}
    near, far = (RoarLime(problem, {"lam": lam, **options}).generate(X, ids) for lam in (0.5, 0.01))
    assert (np.abs(near - X).sum(axis=1) < np.abs(far - X).sum(axis=1)).all()
    for i in range(3):
        weight, bias = surrogate(X[i], int(ids[i]), problem, 1000, 0.75)
        z = far[i : i + 1]
        assert worst_logit(z, weight[None], np.array([bias]), 0.1)[0] > 0
        alone = RoarLime(problem, {"lam": 0.01, **options}).generate(X[i : i + 1], ids[i : i + 1])
        assert np.allclose(alone[0], far[i])


# --- APΔS -----------------------------------------------------------------------------------------


def test_the_sample_size_is_the_least_that_keeps_the_promise():
    assert sample_size(0.999, 0.995) == 1379
    assert 0.995**1379 <= 0.001 < 0.995**1378
    assert sample_size(0.95, 0.9) == 29


def test_the_local_solver_finds_the_cheapest_counterfactual_of_tiny_networks():
    gaps = []
    for seed in range(5):
        net = random_net(3, seed=seed)
        data = toy_data(3, seed=seed)
        problem = toy_problem(net, data)
        for x in refused(problem, 1)[0]:
            solver = LocalSolver(net, x, data.low, data.high)
            starts = [s for s in [solver.path_to(0.1 + 2 * SLACK)] if s is not None]
            starts += [r.astype(float) for r in problem.favourable if solver.logit(r) > 0.2][:5]
            found = solver.solve(0.1, starts)
            exact = cheapest_by_enumeration(net, x.astype(float), data.low, data.high, 0.1 + SLACK)
            if found is None:
                assert not starts
                continue
            assert solver.logit(found) >= 0.1
            assert (found >= data.low).all()
            assert (found <= data.high).all()
            cost = np.abs(found - x).sum()
            assert cost >= exact - 1e-6
            gaps.append(cost / exact - 1)
    assert len(gaps) >= 3
    assert np.median(gaps) < 1e-6
    assert max(gaps) < 0.25  # a local optimum: no proof, but never far on networks this small


def test_flips_left_out_by_duality_are_only_those_that_do_not_help(monkeypatch):
    costs = {}
    for name in ("pruned", "all"):
        for seed in range(4):
            net, data = random_net(4, hidden=(6, 6), seed=seed), toy_data(4, seed=seed)
            x = refused(toy_problem(net, data), 1)[0]
            solver = LocalSolver(net, x[0], data.low, data.high)
            if name == "all":

                def every(at):
                    tight = np.flatnonzero(at.slack[:-1] <= 1e-6)
                    return [*(np.array([i]) for i in tight), *([tight] if len(tight) > 1 else [])]

                monkeypatch.setattr(solver, "flips", every)
            start = solver.path_to(0.1)
            found = None if start is None else solver.solve(0.05, [start])
            costs.setdefault(seed, []).append(None if found is None else np.abs(found - x[0]).sum())
    compared = [c for c in costs.values() if None not in c]
    assert compared
    for pruned, every in compared:
        assert pruned == pytest.approx(every, abs=1e-7)


def test_apas_candidates_survive_the_search_sample_and_the_check_is_another_sample():
    problem = toy_problem(random_net(3, hidden=(6, 6), seed=6), toy_data(3))
    X, ids = refused(problem, 2)
    method = APAS(problem, {"networks": 60, "copies": 3})
    for i in range(len(X)):
        answer = method.generate(X[i : i + 1], ids[i : i + 1])
        if np.isnan(answer.points).all():
            assert answer.remarks == [{"certified": False}]
            continue
        assert (method.cloud.logits(answer.points[0].astype(np.float32)) >= 0).all()
        fresh = problem.seeds.rng("apas_check", 0, replicate=int(ids[i]))
        other = Cloud(problem.net, method.radius, 60, fresh)
        assert not np.array_equal(other.weights[0], method.cloud.weights[0])
        accepted = bool((other.logits(answer.points[0].astype(np.float32)) >= 0).all())
        assert answer.remarks[0]["certified"] == accepted
    wider = APAS(problem, {"networks": 10, "copies": 3, "lr": 0.01})
    assert wider.radius > method.radius > 0


def test_a_cloud_stays_within_its_radius_and_asks_every_network():
    net = random_net(3)
    cloud = Cloud(net, 0.01, 50, np.random.default_rng(0))
    for own, around in zip(net.weights, cloud.weights, strict=True):
        assert np.abs(around - own).max() <= 0.01 + 1e-6
        assert np.abs(around - own).max() > 0.005
    x = np.array([0.3, -0.2, 1.0], dtype=np.float32)
    for m in (0, 7, 49):
        one = net.with_flat(
            np.concatenate(
                [
                    a[m].ravel()
                    for pair in zip(cloud.weights, cloud.biases, strict=True)
                    for a in pair
                ]
            )
        )
        assert cloud.logits(x)[m] == pytest.approx(float(one.logits(x[None])[0]), abs=1e-5)
    refusing = Cloud(linear_net([1.0, 0.0], -1.0), 0.01, 5, np.random.default_rng(0))
    assert not refusing.accepts(np.zeros(2))
    assert refusing.accepts(np.array([3.0, 0.0]))
    assert not refusing.accepts(np.zeros(2))
