"""Random streams: named, reproducible, independent of order and batch.

Two kinds are used. `generator` gives an ordinary NumPy generator for one purpose of one seed
(splits, samples, bootstrap). `uniforms` is counter-based: the number drawn is a pure function of
its key, so a case's stress draws do not depend on which other cases are drawn, in what order or in
what batch. It is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, SC 2011).
"""

import zlib

import numpy as np

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = 0x9E3779B9
_WEYL_1 = 0xBB67AE85
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def purpose_key(purpose: str) -> int:
    """Return a stable 32-bit integer for a purpose's name."""
    return zlib.crc32(purpose.encode())


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Return the NumPy generator of one purpose under one root seed.

    Raises:
        ValueError: the seed is negative.
    """
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence([int(seed), purpose_key(purpose)]))
    )


def spawned_sequence(root: int, key: tuple[int, ...]) -> np.random.SeedSequence:
    """Return the seed sequence of a numbered stream under one root seed.

    Args:
        root: root seed, not negative.
        key: whole numbers in [0, 2**32) that name the stream; sequences of different keys are
            independent.
    """
    return np.random.SeedSequence(entropy=int(root), spawn_key=tuple(int(k) for k in key))


def philox4x32(counter: tuple[np.ndarray, ...], key: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """Apply the Philox4x32-10 bijection.

    Args:
        counter: four arrays (broadcastable) of values in [0, 2**32).
        key: two integers in [0, 2**32).

    Returns:
        four uint64 arrays of the broadcast shape holding 32-bit values.
    """
    c0, c1, c2, c3 = (np.asarray(c, dtype=np.uint64) for c in counter)
    k0, k1 = int(key[0]), int(key[1])
    for _ in range(_ROUNDS):
        p0 = c0 * _MULTIPLIER_0
        p1 = c2 * _MULTIPLIER_1
        c0, c1, c2, c3 = (
            (p1 >> _32) ^ c1 ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> _32) ^ c3 ^ np.uint64(k1),
            p0 & _LOW,
        )
        k0 = (k0 + _WEYL_0) & 0xFFFFFFFF
        k1 = (k1 + _WEYL_1) & 0xFFFFFFFF
    shape = np.broadcast_shapes(c0.shape, c1.shape, c2.shape, c3.shape)
    return tuple(np.broadcast_to(c, shape) for c in (c0, c1, c2, c3))


def uniforms(
    seed: int, purpose: str, case_ids: np.ndarray, stream: int, draws: np.ndarray, count: int
) -> np.ndarray:
    """Return uniforms in [0, 1) keyed by (seed, purpose, case, stream, draw, position).

    Args:
        seed: root seed of the unit, in [0, 2**32).
        purpose: name of the stream family, e.g. the stress operator.
        case_ids: int array [n], each in [0, 2**32).
        stream: integer in [0, 2**32) telling sub-streams apart, e.g. the severity in millionths.
        draws: int array [h], indices of the draws.
        count: numbers wanted per (case, draw).

    Returns:
        float32 array [n, h, count]; the value at (i, j, p) depends only on the seed, the purpose,
        ``case_ids[i]``, ``stream``, ``draws[j]`` and ``p``. 24 random bits each, so every value
        is exact in float32 and below 1.

    Raises:
        ValueError: a case id or the seed is outside [0, 2**32).
    """
    ids = np.asarray(case_ids)
    if not 0 <= int(seed) < 2**32 or (len(ids) and (ids.min() < 0 or ids.max() >= 2**32)):
        raise ValueError("seed and case ids must be whole numbers in [0, 2**32)")
    blocks = -(-count // 4)
    words = philox4x32(
        (
            ids.reshape(-1, 1, 1),
            np.asarray(draws).reshape(1, -1, 1),
            np.arange(blocks).reshape(1, 1, -1),
            np.full((1, 1, 1), stream),
        ),
        (int(seed), purpose_key(purpose)),
    )
    bits = np.stack([(w >> np.uint64(8)).astype(np.float32) for w in words], axis=-1)
    bits *= np.float32(2.0**-24)
    return bits.reshape(bits.shape[0], bits.shape[1], blocks * 4)[..., :count]
