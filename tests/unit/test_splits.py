"""Splits, halves of train, audited cases."""

import numpy as np
import pytest

from cfc.errors import DataError
from cfc.splits import SPLITS, audited_cases, stratified_split, train_halves


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [700, 283, 17]))


def test_every_class_is_cut_at_its_shares(labels):
    split = stratified_split(labels, 0)
    assert set(split) == set(SPLITS)
    for code, count in zip(*np.unique(labels, return_counts=True), strict=True):
        for name, share in zip(SPLITS, (0.6, 0.2, 0.2), strict=True):
            found = ((split == name) & (labels == code)).sum()
            assert abs(found - share * count) <= 1
            assert found >= 1


@pytest.mark.parametrize("count", range(3, 40))
def test_small_classes_are_in_every_split(count):
    labels = np.repeat([0, 1], [count, 100])
    split = stratified_split(labels, 1)[:count]
    sizes = [(split == name).sum() for name in SPLITS]
    assert sum(sizes) == count
    assert min(sizes) >= 1
    assert all(abs(s - w * count) <= 1 for s, w in zip(sizes, (0.6, 0.2, 0.2), strict=True))


def test_two_rows_of_a_class_are_not_enough():
    with pytest.raises(DataError, match=r"class code 4 has 2 row"):
        stratified_split(np.array([0, 0, 0, 4, 4]), 0)


def test_other_shares(labels):
    split = stratified_split(labels, 0, (0.5, 0.1, 0.4))
    counts = [(split == name).mean() for name in SPLITS]
    assert counts == pytest.approx([0.5, 0.1, 0.4], abs=0.002)


def test_a_seed_is_repeatable_and_another_differs(labels):
    first = stratified_split(labels, 0)
    assert (stratified_split(labels, 0) == first).all()
    other = stratified_split(labels, 1)
    # two independent splits agree on .6² + .2² + .2² of the rows
    agree = (first == other).mean()
    assert abs(agree - 0.44) < 5 * np.sqrt(0.44 * 0.56 / len(labels))


def test_a_class_s_rows_are_shuffled(labels):
    train = np.flatnonzero(stratified_split(np.zeros(1000, dtype=int), 0) == "train")
    # mean of 600 of 1000 positions: five standard errors
    assert abs(train.mean() - 499.5) < 5 * 288.7 * np.sqrt(0.4 / 600)


def test_halves_are_disjoint_and_cover_train(labels):
    split = stratified_split(labels, 0)
    half = train_halves(split, 0)
    assert half.dtype == np.int8
    assert ((half >= 0) == (split == "train")).all()
    assert abs((half == 0).sum() - (half == 1).sum()) <= 1
    assert (train_halves(split, 0) == half).all()
    assert (train_halves(split, 1) != half).any()


@pytest.fixture(scope="module")
def confidence():
    return np.random.default_rng(3).uniform(0.5, 1, size=1000)


def test_audited_cases_are_both_samples(confidence):
    positions, uniform = audited_cases(confidence, 0, uniform=200, confident=150)
    assert (np.diff(positions) > 0).all()
    assert uniform.sum() == 200
    confident = confidence[positions] >= 0.85
    assert confident.sum() == 150
    # nothing is there without a reason
    assert (uniform | confident).all()


def test_all_confident_cases_when_there_are_fewer(confidence):
    positions, uniform = audited_cases(confidence, 0, uniform=10, confident=5000)
    assert set(np.flatnonzero(confidence >= 0.85)) <= set(positions)
    assert uniform.sum() == 10


def test_everything_when_the_split_is_small(confidence):
    positions, uniform = audited_cases(confidence[:50], 0, uniform=200, confident=200)
    assert positions.tolist() == list(range(50))
    assert uniform.all()


def test_no_confident_case(confidence):
    positions, uniform = audited_cases(np.full(30, 0.6), 0, uniform=10, confident=10)
    assert len(positions) == uniform.sum() == 10


def test_the_threshold_counts_with_equality():
    positions, uniform = audited_cases(np.full(30, 0.85), 0, uniform=1, confident=20)
    assert len(positions) == 20
    assert uniform.sum() == 1
    positions, _ = audited_cases(np.full(30, 0.85), 0, uniform=1, confident=20, threshold=0.86)
    assert len(positions) == 1


def test_a_larger_audit_holds_the_smaller(confidence):
    small, small_uniform = audited_cases(confidence, 0, uniform=50, confident=60)
    large, large_uniform = audited_cases(confidence, 0, uniform=100, confident=90)
    assert set(small) <= set(large)
    assert set(small[small_uniform]) <= set(large[large_uniform])


def test_the_uniform_sample_does_not_depend_on_the_model(confidence):
    first = audited_cases(confidence, 0, uniform=100, confident=50)
    second = audited_cases(confidence[::-1], 0, uniform=100, confident=50)
    assert (first[0][first[1]] == second[0][second[1]]).all()
    third = audited_cases(confidence, 1, uniform=100, confident=50)
    assert (first[0][first[1]] != third[0][third[1]]).any()


def test_every_case_is_as_likely_as_any_other():
    confidence = np.where(np.arange(40) < 20, 0.9, 0.6)
    seeds = 2000
    uniform, confident = np.zeros(40), np.zeros(40)
    for seed in range(seeds):
        positions, flags = audited_cases(confidence, seed, uniform=10, confident=12)
        uniform[positions[flags]] += 1
        confident[positions[confidence[positions] >= 0.85]] += 1
    for counts, share in ((uniform, 10 / 40), (confident[:20], 12 / 20)):
        error = 5 * np.sqrt(seeds * share * (1 - share))
        assert (np.abs(counts - seeds * share) < error).all()
