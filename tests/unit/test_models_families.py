"""What is special to one family, each against an independent computation."""

import logging
from pathlib import Path

import numpy as np
import pytest
import yaml

from cfc.errors import ModelError
from cfc.models import FAMILIES, TrainingData, get_family

ROOT = Path(__file__).parents[2]


def data(n_classes=3, seed=0, n=240):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 80, 6)).astype(np.float32)
    score = X[:, :n_classes] * 2 + rng.normal(size=(n + 80, n_classes))
    y = score.argmax(axis=1)
    groups = [np.array([0, 3]), np.array([1]), np.array([2, 4, 5])]
    return TrainingData(X[:n], y[:n], X[n:], y[n:], n_classes, groups, X[:n].mean(axis=0))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_lr_is_the_librarys_prediction(n_classes):
    train = data(n_classes)
    model = get_family("lr").fit(train, {}, seed=0)
    expected = model.estimator.predict_proba(train.X_valid.astype(np.float64))
    np.testing.assert_allclose(model.predict_proba(train.X_valid), expected, rtol=1e-12)


def test_lr_keeps_the_digits_of_a_tiny_probability():
    model = get_family("lr").fit(data(2), {}, seed=0)
    far = np.sign(model.estimator.coef_).astype(np.float32) * 40
    p = model.predict_proba(np.concatenate([far, -far]))
    z = float(model.estimator.coef_[0] @ far[0].astype(np.float64) + model.estimator.intercept_[0])
    assert p[0, 0] == pytest.approx(np.exp(-z), rel=1e-9)
    assert 0 < p[0, 0] < 1e-16


def test_lr_that_does_not_converge_says_so(caplog):
    with caplog.at_level(logging.WARNING):
        model = get_family("lr").fit(data(3), {"max_iter": 1}, seed=0)
    assert not model.facts["is_converged"]
    assert "raise max_iter" in caplog.text


@pytest.mark.parametrize("family", ["rf", "extratrees"])
def test_forests_give_the_librarys_bytes(family):
    train = data()
    model = get_family(family).fit(train, {"n_estimators": 20}, seed=0)
    expected = model.estimator.predict_proba(train.X_valid)
    assert np.array_equal(model.predict_proba(train.X_valid), expected)


@pytest.mark.parametrize("family", ["rf", "extratrees"])
def test_leaves_are_bounded(family):
    settings = {"n_estimators": 5, "max_leaf_nodes": 7, "min_samples_leaf": 4}
    model = get_family(family).fit(data(), settings, seed=0)
    assert model.facts["max_leaves"] == 7
    for member in model.estimator.estimators_:
        tree = member.tree_
        assert tree.n_node_samples[tree.children_left == -1].min() >= 2  # bootstrap repeats rows
        assert tree.weighted_n_node_samples[tree.children_left == -1].min() >= 4


@pytest.mark.parametrize("n_classes", [2, 3])
def test_xgboost_keeps_the_best_iteration_only(n_classes):
    import xgboost

    train = data(n_classes)
    model = get_family("xgboost").fit(
        train, {"n_estimators": 60, "early_stopping_rounds": 5}, seed=0
    )
    assert model.facts["n_iterations"] > model.facts["best_iteration"] + 1
    assert model.booster.num_boosted_rounds() == model.facts["best_iteration"] + 1
    expected = model.booster.predict(xgboost.DMatrix(train.X_valid))
    p = model.predict_proba(train.X_valid)
    assert np.array_equal(p[:, 1] if n_classes == 2 else p, expected)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_lightgbm_sums_its_own_leaves(n_classes):
    train = data(n_classes)
    model = get_family("lightgbm").fit(train, {"n_estimators": 15}, seed=0)
    raw = model.booster.predict(train.X_valid.astype(np.float64), raw_score=True)
    p = model.predict_proba(train.X_valid)
    if n_classes == 2:
        np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-raw)), rtol=1e-12)
    else:
        e = np.exp(raw - raw.max(axis=1, keepdims=True))
        np.testing.assert_allclose(p, e / e.sum(axis=1, keepdims=True), rtol=1e-12)


def test_catboost_writes_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    get_family("catboost").fit(data(), {"iterations": 5}, seed=0)
    assert list(tmp_path.iterdir()) == []


def numpy_fragility_loss(z, z2, y, alpha, beta):
    """The loss of protocol section 10, row by row."""
    ce, kl, collapse = [], [], []
    for a, b, label in zip(z, z2, y, strict=True):
        p, q = (np.exp(v - v.max()) / np.exp(v - v.max()).sum() for v in (a, b))
        ce.append(-np.log(p[label]))
        kl.append((p * np.log(p / q)).sum() + (q * np.log(q / p)).sum())
        top = int(np.argmax(p))
        others = [c for c in range(len(p)) if c != top]
        m = np.log(p[top]) - max(np.log(p[c]) for c in others)
        m2 = np.log(q[top]) - max(np.log(q[c]) for c in others)
        collapse.append(max(0.0, (m - m2) / (abs(m) + 1e-8)))
    return np.mean(ce) + alpha * np.mean(kl) + beta * np.mean(collapse)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.1), (0.0, 1.0), (1.0, 0.0)])
def test_fragility_loss_by_hand(n_classes, alpha, beta):
    import torch

    from cfc.models.neural import fragility_loss

    rng = np.random.default_rng(n_classes)
    z, z2 = rng.normal(size=(2, 30, n_classes))
    y = rng.integers(n_classes, size=30)
    found = fragility_loss(
        torch.from_numpy(z), torch.from_numpy(z2), torch.from_numpy(y), alpha=alpha, beta=beta
    )
    assert float(found) == pytest.approx(numpy_fragility_loss(z, z2, y, alpha, beta), rel=1e-10)


def test_fragility_margin_gradient_leaves_the_denominator_alone():
    import torch

    from cfc.models.neural import fragility_loss

    # m = 2 and m̃ = 1: d/dz of (m − m̃) / 2 with a constant 2 is (½, −½), not (¼, −¼).
    z = torch.tensor([[2.0, 0.0]], dtype=torch.float64, requires_grad=True)
    z2 = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    y = torch.tensor([0])
    plain = torch.autograd.grad(fragility_loss(z, z2, y, alpha=0.0, beta=0.0), z)[0]
    full = torch.autograd.grad(fragility_loss(z, z2, y, alpha=0.0, beta=1.0), z)[0]
    np.testing.assert_allclose((full - plain).numpy(), [[0.5, -0.5]], atol=1e-7)


def test_degradation_moves_one_to_three_groups_part_of_the_way():
    import torch

    from cfc.models.neural import Degradation, FragilityRegularisedResMLPModel

    train = data()
    params = FragilityRegularisedResMLPModel.check_params({"max_groups": 2})
    degrade = Degradation(train, params, torch.device("cpu"), seed=0)
    x = torch.from_numpy(train.X_train)
    share = ((degrade(x) - x) / (torch.from_numpy(train.baseline) - x)).numpy()
    moved = np.stack([np.abs(share[:, g]).max(axis=1) > 1e-3 for g in train.groups], axis=1)
    assert set(moved.sum(axis=1)) == {1, 2}
    assert moved.mean(axis=0).min() > 0.3  # every group has its turn
    sizes = np.array([np.median(row[np.abs(row) > 1e-3]) for row in share])
    assert sizes.min() > 0.1 - 1e-3
    assert sizes.max() < 0.5 + 1e-3
    assert (sizes < 0.2).any()
    assert (sizes > 0.4).any()


def test_fr_resmlp_starts_as_resmlp_and_ends_elsewhere():
    settings = {"max_epochs": 1, "learning_rate": 1e-8, "weight_decay": 0.0, "width": 8}
    train = data()
    models = [get_family(f).fit(train, settings, seed=0) for f in ("resmlp", "fr_resmlp")]
    p, q = (m.predict_proba(train.X_valid) for m in models)
    np.testing.assert_allclose(p, q, atol=1e-5)
    settings = {"max_epochs": 3, "width": 8}
    p, q = (
        get_family(f).fit(train, settings, seed=0).predict_proba(train.X_valid)
        for f in ("resmlp", "fr_resmlp")
    )
    assert np.abs(p - q).max() > 1e-3


def test_fr_resmlp_needs_groups():
    train = data()
    bare = TrainingData(
        train.X_train, train.y_train, train.X_valid, train.y_valid, 3, [], train.baseline
    )
    with pytest.raises(ModelError, match="needs the groups"):
        get_family("fr_resmlp").fit(bare, {}, seed=0)
    with pytest.raises(ModelError, match="min_groups is above max_groups"):
        get_family("fr_resmlp").fit(train, {"min_groups": 5}, seed=0)


def test_networks_log_one_line_an_epoch(caplog):
    with caplog.at_level(logging.INFO, logger="cfc.models.neural"):
        model = get_family("mlp").fit(data(), {"max_epochs": 3, "width": 8}, seed=0)
    lines = [r.getMessage() for r in caplog.records if "epoch " in r.getMessage()]
    assert len(lines) == len(model.history) == len(model.timings["epoch_seconds"])
    assert "mlp: epoch 1/3, train loss" in lines[0]
    assert "valid NLL" in lines[0]
    assert lines[0].endswith(" s")


@pytest.mark.parametrize(
    ("n", "expected"), [(50, 50), (600, 64), (29_305, 256), (348_607, 2048), (10**7, 2048)]
)
def test_batch_grows_with_the_rows(n, expected):
    from cfc.models.neural import MLPModel, batch_size

    assert batch_size(n, MLPModel.check_params({})) == expected


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ModelError, match="device 'nonsense' cannot be used"):
        get_family("mlp").fit(data(), {}, seed=0, device="nonsense")


def test_training_leaves_torch_as_it_was():
    import torch

    torch.manual_seed(3)
    before = (
        torch.get_rng_state().tolist(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
    )
    model = get_family("mlp").fit(data(), {"max_epochs": 1, "width": 8}, seed=0, threads=2)
    model.predict_proba(data().X_valid)
    after = (
        torch.get_rng_state().tolist(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
    )
    assert after == before


@pytest.fixture(scope="module")
def shipped():
    return yaml.safe_load((ROOT / "config" / "models.yaml").read_text(encoding="utf-8"))


def test_shipped_registry_matches_its_schema(shipped):
    import jsonschema

    schema = yaml.safe_load((ROOT / "workflow/schemas/models.schema.yaml").read_text("utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    assert list(validator.iter_errors(shipped)) == []
    shipped_typo = {"model_registry": {"lr": {"title": "x", "gpu": False, "parms": {}}}}
    assert [e.validator for e in validator.iter_errors(shipped_typo)] == ["additionalProperties"]


@pytest.mark.parametrize("family", FAMILIES)
def test_shipped_values_are_the_documented_defaults(family, shipped):
    entry = shipped["model_registry"][family]
    cls = get_family(family)
    assert entry["params"] == {name: p.default for name, p in cls.PARAMS.items()}
    assert entry["gpu"] == cls.is_neural


def test_fr_resmlp_shares_everything_with_resmlp(shipped):
    registry = shipped["model_registry"]
    twin = registry["resmlp"]["params"]
    assert {k: registry["fr_resmlp"]["params"][k] for k in twin} == twin
