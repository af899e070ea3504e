"""Baseline replacement vectors x̄ in the transformed space (paper, section 3.1; Appendix Q).

None of them is causal or neutral by nature. The mean of a one-hot block is a vector of category
frequencies, which a tree model that splits at zero reads as "every level is on": that is why
``mean_off`` exists.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cfc.protocol import BASELINES


@dataclass(frozen=True)
class Coordinate:
    """One column of the transformed matrix.

    Attributes:
        alias: safe column name, ``f0000`` and so on: some libraries refuse ``[ ] <`` or quotes.
        field: raw field it comes from.
        kind: ``value`` (a number, which may be averaged and faded), ``indicator`` (0/1 of a marker
            or of missingness), ``level`` (0/1 of one level of a nominal field) or ``code`` (a
            nominal column held as a number: replaced, never averaged or faded).
        level: marker or category it stands for, as text; None for a value.
        is_missing: the level or indicator stands for an absent value.
    """

    alias: str
    field: str
    kind: str
    level: str | None = None
    is_missing: bool = False

    @property
    def name(self) -> str:
        """Readable name, for people only: it need not be unique."""
        return self.field if self.level is None else f"{self.field} = {self.level}"


def baseline_vectors(
    X_train: np.ndarray, coordinates: Sequence[Coordinate]
) -> dict[str, np.ndarray]:
    """Return the five baselines of a training matrix.

    - ``mean``: mean of every coordinate (the paper's default).
    - ``mean_off``: mean of values, one-hot levels and indicators all 0.
    - ``median``: median of every coordinate.
    - ``zero``: all 0.
    - ``mode``: median of values, indicators 0; of a one-hot block the level that stands for
      "missing" where the field has one, else its most frequent level (ties: first).

    Args:
        X_train: float32 [n, d], n >= 1.
        coordinates: what each column is, length d.

    Returns:
        name -> float32 [d], in the order of `cfc.protocol.BASELINES`.
    """
    mean = X_train.mean(axis=0, dtype=np.float64)
    median = np.median(X_train, axis=0)
    is_value = np.array([c.kind == "value" for c in coordinates])
    mode = np.where(is_value, median, 0.0)
    blocks: dict[str, list[int]] = {}
    for index, coordinate in enumerate(coordinates):
        if coordinate.kind == "level":
            blocks.setdefault(coordinate.field, []).append(index)
    for block in blocks.values():
        missing = [i for i in block if coordinates[i].is_missing]
        mode[missing[0] if missing else block[int(np.argmax(mean[block]))]] = 1.0
    vectors = {
        "mean": mean,
        "mean_off": np.where(is_value, mean, 0.0),
        "median": median,
        "zero": np.zeros(len(mean)),
        "mode": mode,
    }
    return {name: vectors[name].astype(np.float32) for name in BASELINES}
