"""What the engines ask of a model: a function from rows to class probabilities, checked."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cfc.errors import ModelError

Predict = Callable[[np.ndarray], np.ndarray]
_CHUNK_BYTES = 64 << 20


@dataclass
class CountedPredictor:
    """Wraps a prediction function: checks its answers, counts rows, takes the time it spends.

    Attributes:
        predict: function from float32 rows [n, d] to probabilities [n, C].
        rows: rows asked so far.
        seconds: wall time spent inside ``predict``.
        dtype: dtype of the probabilities as the model returned them.

    Raises:
        ModelError: when called, if the answer is not [n, C >= 2], holds NaN or infinity, or
            changes its number of classes.
    """

    predict: Predict
    rows: int = 0
    seconds: float = 0.0
    dtype: str = ""
    n_classes: int = 0

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the model's probabilities [n, C] of rows [n, d], checked and counted."""
        start = time.perf_counter()
        proba = np.asarray(self.predict(rows))
        self.seconds += time.perf_counter() - start
        self.rows += len(rows)
        if proba.ndim != 2 or len(proba) != len(rows) or proba.shape[1] < 2:
            raise ModelError(
                f"the model answered {len(rows)} rows with an array of shape {proba.shape}; "
                "expected one row of at least two class probabilities for each"
            )
        if self.n_classes not in (0, proba.shape[1]):
            raise ModelError(
                f"the model answered with {proba.shape[1]} classes after {self.n_classes}"
            )
        if not np.isfinite(proba).all():
            bad = int(np.flatnonzero(~np.isfinite(proba).all(axis=1))[0])
            raise ModelError(f"the model returned NaN or infinity (first at row {bad} of a batch)")
        self.n_classes = proba.shape[1]
        self.dtype = str(proba.dtype)
        return proba


def cases_per_chunk(
    states: int, n_coordinates: int, chunk_bytes: int | None = None, itemsize: int = 4
) -> int:
    """Return how many cases fit a chunk whose state matrix stays under ``chunk_bytes``.

    Args:
        states: states of one case.
        n_coordinates: d.
        chunk_bytes: size of the largest state matrix; None = 64 MiB.
        itemsize: bytes of a number.
    """
    return max(1, (chunk_bytes or _CHUNK_BYTES) // (itemsize * n_coordinates * states))
