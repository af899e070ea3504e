"""Random streams: the published answers of Philox, independence of order, uniformity."""

import numpy as np
import pytest

from cfc.seeding import generator, philox4x32, purpose_key, uniforms

# Random123's known answers for philox4x32-10: counter, key, result
ONES = 0xFFFFFFFF
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_known_answers(counter, key, expected):
    words = philox4x32(tuple(np.array([c]) for c in counter), key)
    assert tuple(int(w[0]) for w in words) == expected


def test_philox_works_on_arrays_at_once():
    counter, key, expected = KNOWN[2]
    words = philox4x32((np.array([[counter[0]], [0]]), *map(np.array, counter[1:])), key)
    assert [int(w[0, 0]) for w in words] == list(expected)
    alone = philox4x32(tuple(np.array([c]) for c in (0, *counter[1:])), key)
    assert [int(w[1, 0]) for w in words] == [int(w[0]) for w in alone]


def test_uniforms_are_the_top_24_bits_of_the_documented_counter():
    # counter (case, draw, block, stream), key (seed, crc32 of the purpose); four numbers a block
    values = uniforms(11, "mask", np.array([5, 4000000000]), 100_000, np.array([0, 7]), 6)
    assert values.shape == (2, 2, 6)
    assert values.dtype == np.float32
    for i, case in enumerate((5, 4000000000)):
        for j, draw in enumerate((0, 7)):
            for position in range(6):
                words = philox4x32(
                    tuple(np.array([c]) for c in (case, draw, position // 4, 100_000)),
                    (11, purpose_key("mask")),
                )
                assert values[i, j, position] == int(words[position % 4][0] >> 8) / 2**24


def test_a_number_depends_on_its_own_key_only():
    ids, draws = np.arange(40), np.arange(9)
    whole = uniforms(3, "noise", ids, 250_000, draws, 13)
    some, few = np.array([7, 2, 39]), np.array([8, 0])
    part = uniforms(3, "noise", some, 250_000, few, 13)
    assert (part == whole[np.ix_(some, few, np.arange(13))]).all()
    shorter = uniforms(3, "noise", ids, 250_000, draws, 5)
    assert (shorter == whole[:, :, :5]).all()


@pytest.mark.parametrize(
    "other",
    [
        (4, "mask", 0, 100_000),
        (3, "noise", 0, 100_000),
        (3, "mask", 1, 100_000),
        (3, "mask", 0, 200_000),
    ],
)
def test_every_part_of_the_key_counts(other):
    seed, purpose, case, stream = other
    first = uniforms(3, "mask", np.array([0]), 100_000, np.arange(2), 8)
    second = uniforms(seed, purpose, np.array([case]), stream, np.arange(2), 8)
    assert not np.isin(first, second).any()
    assert not np.isin(first[:, 0], first[:, 1]).any()


def test_uniforms_look_uniform():
    values = uniforms(0, "swap", np.arange(500), 1, np.arange(20), 10).astype(np.float64)
    n = values.size
    assert values.min() >= 0
    assert values.max() < 1
    # five standard errors of the mean and of each tenth's count
    assert abs(values.mean() - 0.5) < 5 * np.sqrt(1 / 12 / n)
    counts = np.histogram(values, bins=10, range=(0, 1))[0]
    assert (abs(counts - n / 10) < 5 * np.sqrt(n * 0.1 * 0.9)).all()
    # neighbours in each of the three axes are not correlated
    for axis in range(3):
        a = np.delete(values, -1, axis=axis).ravel() - 0.5
        b = np.delete(values, 0, axis=axis).ravel() - 0.5
        assert abs((a * b).mean() * 12) < 5 / np.sqrt(a.size)


def test_no_numbers_wanted():
    assert uniforms(0, "noise", np.arange(3), 0, np.arange(2), 0).shape == (3, 2, 0)


def test_generators_are_named_and_repeatable():
    first = generator(1, "split").random(5)
    assert (generator(1, "split").random(5) == first).all()
    assert (generator(2, "split").random(5) != first).all()
    assert (generator(1, "audited cases").random(5) != first).all()
    with pytest.raises(ValueError, match="non-negative"):
        generator(-1, "split")


def test_global_random_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    generator(1, "split").random()
    uniforms(0, "mask", np.arange(3), 0, np.arange(2), 4)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize(("seed", "ids"), [(-1, [0]), (2**32, [0]), (0, [-1]), (0, [2**32])])
def test_keys_outside_32_bits_are_refused(seed, ids):
    with pytest.raises(ValueError, match="2\\*\\*32"):
        uniforms(seed, "mask", np.array(ids), 0, np.arange(1), 1)
