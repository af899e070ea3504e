"""The bootstrap against SciPy, exact enumeration and hand cases."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from cfc.bootstrap import bootstrap_mean, bootstrap_means, grouped_mean, paired_bootstrap
from cfc.errors import DataError


def test_plain_interval_agrees_with_scipy():
    values = np.random.default_rng(0).normal(size=40)
    ours = bootstrap_mean(values, seed=1, resamples=20_000)
    theirs = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(5)
    ).confidence_interval
    assert ours.value == pytest.approx(values.mean())
    # two Monte Carlo quantiles: each has a standard error near 0.003
    assert ours.low == pytest.approx(theirs.low, abs=0.02)
    assert ours.high == pytest.approx(theirs.high, abs=0.02)


@pytest.mark.parametrize("scheme", ["units", "stratified", "clustered"])
def test_interval_agrees_with_all_resamples_listed(scheme):
    values = np.array([0.0, 1.0, 5.0, 7.0])
    groups = np.array(["a", "a", "b", "b"])
    means = []
    if scheme == "clustered":
        means = [np.mean([{"a": 0.5, "b": 6.0}[g] for g in pick]) for pick in product("ab", "ab")]
    else:
        for pick in product(range(4), repeat=4):
            chosen = np.array(pick)
            if scheme == "stratified" and not (groups[chosen] == groups).all():
                continue
            means.append(
                np.mean(
                    [values[chosen][groups[chosen] == g].mean() for g in sorted({*groups[chosen]})]
                )
            )
    low, high = np.quantile(means, [0.1, 0.9], method="inverted_cdf")
    ours = bootstrap_mean(values, groups, scheme=scheme, level=0.8, resamples=40_000)
    assert ours.value == 3.25
    assert (ours.low, ours.high) == (pytest.approx(low), pytest.approx(high))


def test_the_statistic_is_the_mean_of_group_means():
    assert grouped_mean([1, 1, 1, 5], ["a", "a", "a", "b"]) == 3
    assert grouped_mean([1, 1, 1, 5]) == 2


def test_stratified_is_narrower_when_groups_differ():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(4), 10)
    values = groups + rng.normal(size=40) * 0.1
    stratified = bootstrap_mean(values, groups, scheme="stratified")
    clustered = bootstrap_mean(values, groups, scheme="clustered")
    assert stratified.high - stratified.low < (clustered.high - clustered.low) / 5


def test_pairing_removes_what_the_units_share():
    rng = np.random.default_rng(3)
    shared = rng.normal(size=50)
    interval = paired_bootstrap(shared + 0.1, shared)
    assert interval.low == pytest.approx(0.1)
    assert interval.high == pytest.approx(0.1)


def test_seeded():
    values = np.random.default_rng(0).normal(size=30)
    assert bootstrap_mean(values, seed=4) == bootstrap_mean(values, seed=4)
    assert bootstrap_mean(values, seed=4) != bootstrap_mean(values, seed=5)


def test_edges():
    assert np.isnan(bootstrap_mean([]).value)
    single = bootstrap_mean([0.7])
    assert (single.value, single.low, single.high) == (0.7, 0.7, 0.7)
    with pytest.raises(DataError, match="NaN"):
        bootstrap_mean([0.1, np.nan])
    with pytest.raises(DataError, match="unknown bootstrap scheme"):
        bootstrap_mean([0.1, 0.2], scheme="blocks")
    with pytest.raises(DataError, match="group labels"):
        bootstrap_mean([0.1, 0.2], ["a"])
    with pytest.raises(DataError, match="paired"):
        paired_bootstrap([0.1], [0.1, 0.2])


def test_columns_share_their_resamples_and_equal_single_calls():
    rng = np.random.default_rng(6)
    values = rng.normal(size=(30, 3))
    groups = np.repeat(["a", "b", "c"], [5, 10, 15])
    for scheme in ("units", "stratified", "clustered"):
        together = bootstrap_means(values, groups, scheme=scheme, resamples=2_500)
        alone = [
            bootstrap_mean(column, groups, scheme=scheme, resamples=2_500) for column in values.T
        ]
        for a, b in zip(together, alone, strict=True):
            assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high), abs=1e-12)
