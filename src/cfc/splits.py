"""Train, validation and test rows of one seed (paper, section 4; protocol section 1)."""

from collections.abc import Sequence

import numpy as np

from cfc.errors import DataError
from cfc.seeding import generator

SPLITS = ("train", "valid", "test")


def stratified_split(
    labels: np.ndarray, seed: int, shares: Sequence[float] = (0.6, 0.2, 0.2)
) -> np.ndarray:
    """Assign every row to train, valid or test, stratified by class.

    Each class is shuffled and cut at its rounded shares, so every split's class counts are within
    one row of the share; a class of at least three rows is in all three splits.

    Args:
        labels: class codes [n].
        seed: root seed.
        shares: three positive numbers with sum 1.

    Returns:
        array of the texts ``train``, ``valid``, ``test`` [n].

    Raises:
        DataError: a class has fewer than three rows.
    """
    rng = generator(seed, "split")
    result = np.empty(len(labels), dtype=object)
    for code in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == code))
        if len(rows) < 3:
            raise DataError(f"class code {code} has {len(rows)} row(s); a split needs at least 3")
        cuts = np.rint(np.cumsum(shares)[:2] * len(rows)).astype(int)
        cuts[0] = np.clip(cuts[0], 1, len(rows) - 2)
        cuts[1] = np.clip(cuts[1], cuts[0] + 1, len(rows) - 1)
        for name, part in zip(SPLITS, np.split(rows, cuts), strict=True):
            result[part] = name
    return result


def train_halves(split: np.ndarray, seed: int) -> np.ndarray:
    """Cut the training rows in two halves that share no row.

    Stress takes swapped values from half 0; scores that look at training values use half 1, so
    that no score is built on the values a label was made with.

    Returns:
        int8 [n]: 0 or 1 for training rows, −1 elsewhere.
    """
    half = np.full(len(split), -1, dtype=np.int8)
    train = generator(seed, "train halves").permutation(np.flatnonzero(split == "train"))
    middle = len(train) // 2
    half[train[:middle]] = 0
    half[train[middle:]] = 1
    return half


def audited_cases(
    confidence: np.ndarray,
    seed: int,
    *,
    uniform: int,
    confident: int,
    threshold: float = 0.85,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose the rows of a split that are audited.

    A uniform sample stands for the whole split; confident rows are added, in the order of the
    same shuffle, until ``confident`` of them are in or there are no more. Within either sample
    every row was equally likely, so means over it are unbiased.

    Args:
        confidence: p̂ of every row [n].
        seed: root seed.
        uniform: size of the uniform sample.
        confident: number of rows with p̂ >= ``threshold`` wanted.
        threshold: lowest confidence of any label rule.

    Returns:
        positions of the audited rows, ascending; and whether each is in the uniform sample.
    """
    order = generator(seed, "audited cases").permutation(len(confidence))
    in_uniform = np.zeros(len(confidence), dtype=bool)
    in_uniform[order[:uniform]] = True
    extra = order[confidence[order] >= threshold][:confident]
    chosen = in_uniform.copy()
    chosen[extra] = True
    positions = np.flatnonzero(chosen)
    return positions, in_uniform[positions]
