"""Agreement of labels and rankings against other libraries, ceilings against simulation."""

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.metrics import cohen_kappa_score, roc_auc_score

from cfc.agreement import auroc_bound, auroc_ceiling_beta, cohen_kappa, spearman
from cfc.errors import DataError


@pytest.mark.parametrize("seed", range(4))
def test_kappa_is_that_of_another_library(seed):
    rng = np.random.default_rng(seed)
    a = rng.random(60) < 0.4
    b = np.where(rng.random(60) < 0.7, a, rng.random(60) < 0.5)
    assert cohen_kappa(a, b) == pytest.approx(cohen_kappa_score(a, b))


def test_kappa_by_hand_and_undefined():
    assert cohen_kappa([1, 1, 0, 0], [1, 0, 0, 0]) == pytest.approx((0.75 - 0.5) / 0.5)
    assert cohen_kappa([1, 0], [1, 0]) == 1
    assert np.isnan(cohen_kappa([], []))
    assert np.isnan(cohen_kappa([0, 0], [0, 0]))
    assert cohen_kappa([0, 0], [1, 1]) == 0
    with pytest.raises(DataError, match="one length"):
        cohen_kappa([1], [1, 0])


@pytest.mark.parametrize("seed", range(3))
def test_spearman_is_that_of_another_library(seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 6, 40).astype(float)  # many ties
    b = a + rng.normal(0, 2, 40).round()
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


def test_spearman_undefined():
    assert np.isnan(spearman([1.0], [1.0]))
    assert np.isnan(spearman([1.0, 1.0], [1.0, 2.0]))
    assert spearman([1, 2, 3], [30, 20, 10]) == pytest.approx(-1)


@pytest.mark.parametrize(("a", "b"), [(0.5, 2.0), (1.0, 1.0), (3.0, 9.0), (0.2, 0.3)])
def test_beta_ceiling_is_the_integral(a, b):
    """AUROC of π itself: P(π of a brittle case > π of another), by numerical integration."""
    kappa, p = 1 / (a + b + 1), a / (a + b)
    brittle, other = stats.beta(a + 1, b), stats.beta(a, b + 1)
    area, _ = integrate.quad(lambda x: brittle.pdf(x) * other.cdf(x), 0, 1, limit=200)
    assert auroc_ceiling_beta(kappa, p) == pytest.approx(area, abs=1e-6)


def test_ceiling_is_reached_by_the_chance_itself():
    rng = np.random.default_rng(0)
    chance = rng.beta(0.6, 1.8, 200_000)
    first, second = (rng.random(len(chance)) < chance for _ in range(2))
    kappa = cohen_kappa(first, second)
    assert kappa == pytest.approx(1 / (0.6 + 1.8 + 1), abs=0.01)
    found = roc_auc_score(first, chance)
    assert auroc_ceiling_beta(kappa, first.mean()) == pytest.approx(found, abs=0.005)
    assert auroc_bound(kappa, first.mean()) >= found


def test_the_bound_is_reached_by_a_uniform_chance():
    assert auroc_bound(1 / 3, 0.5) == pytest.approx(0.5 + 1 / 3)
    assert auroc_ceiling_beta(1 / 3, 0.5) == pytest.approx(0.5 + 1 / 3)


@pytest.mark.parametrize("rate", [0.03, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("kappa", [0.05, 0.3, 0.7, 0.99])
def test_the_bound_holds_for_two_values_of_chance_and_for_beta(kappa, rate):
    assert auroc_ceiling_beta(kappa, rate) <= auroc_bound(kappa, rate) + 1e-12
    # a share w of cases with a high chance, the rest with a low one: A = ½ + 2 w (1 − w) (h − l) /
    # (4 p (1 − p))
    for w in (0.2, 0.5, 0.8):
        gap = np.sqrt(kappa * rate * (1 - rate) / (w * (1 - w)))
        low, high = rate - w * gap, rate + (1 - w) * gap
        if low >= 0 and high <= 1:
            area = 0.5 + 2 * w * (1 - w) * gap / (4 * rate * (1 - rate))
            assert area <= auroc_bound(kappa, rate) + 1e-12


def test_edges_of_the_ceilings():
    for ceiling in (auroc_bound, auroc_ceiling_beta):
        assert ceiling(0.0, 0.3) == 0.5
        assert ceiling(-0.2, 0.3) == 0.5
        assert ceiling(1.0, 0.1) == 1.0
        assert np.isnan(ceiling(0.5, 0.0))
        assert np.isnan(ceiling(0.5, 1.0))
        assert np.isnan(ceiling(float("nan"), 0.3))
    assert auroc_ceiling_beta(1e-6, 0.3) == pytest.approx(0.5, abs=1e-3)
