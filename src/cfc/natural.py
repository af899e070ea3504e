"""Field unavailability as it really occurs (paper, Appendix M and Algorithm 9; protocol section 9).

The events are the patterns in which fields of training rows are unavailable together: a number
declared as a marker, a category declared as "not available", a code outside the dictionary, or a
missing cell. A row in which everything is available is no event. Each event replaces the groups
that hold its fields by the protocol's baseline, as a certificate would.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cfc.data.registry import DatasetSpec
from cfc.errors import DataError
from cfc.groups import Groups
from cfc.predictor import CountedPredictor, Predict, cases_per_chunk
from cfc.scores import CLIP, margin_of, predicted_label
from cfc.seeding import uniforms

OPERATOR = "natural"


@dataclass(frozen=True)
class Patterns:
    """Observed patterns of unavailable fields, the most frequent first.

    Attributes:
        fields: fields that are unavailable in some training row, in column order.
        missing: which of them are unavailable in each pattern, bool [P, F]; no row is all False.
        count: training rows that show exactly this pattern, int64 [P].
        n_rows: training rows looked at, those without any unavailable field included.
    """

    fields: tuple[str, ...]
    missing: np.ndarray
    count: np.ndarray
    n_rows: int

    def __len__(self) -> int:
        return len(self.count)

    @property
    def share(self) -> np.ndarray:
        """Share of each pattern among the rows with an unavailable field, float64 [P]."""
        return self.count / self.count.sum()


def unavailable_cells(table: pd.DataFrame, spec: DatasetSpec) -> tuple[tuple[str, ...], np.ndarray]:
    """Tell which cells of a cleaned table say "not available".

    Args:
        table: one column a field, as the acquire stage leaves it; a missing cell is null.
        spec: its declaration: ``markers``, ``unavailable`` and ``unavailable_codes``.

    Returns:
        the fields with at least one such cell, in column order, and bool [n, fields].
    """
    fields, columns = [], []
    for field in spec.fields:
        column = table[field.name]
        cells = column.isna().to_numpy(dtype=bool)
        codes = (*field.markers, *field.unavailable, *spec.unavailable_codes.get(field.name, ()))
        if codes:
            cells = cells | column.isin(codes).to_numpy(dtype=bool)
        if cells.any():
            fields.append(field.name)
            columns.append(cells)
    cells = np.stack(columns, axis=1) if columns else np.empty((len(table), 0), dtype=bool)
    return tuple(fields), cells


def observed_patterns(fields: Sequence[str], cells: np.ndarray) -> Patterns:
    """Count the distinct non-empty rows of unavailable cells.

    Args:
        fields: names of the columns.
        cells: bool [n, F] of the training rows.

    Returns:
        patterns by falling count; ties in the order of the fields they miss.
    """
    rows = cells[cells.any(axis=1)]
    missing, count = np.unique(rows, axis=0, return_counts=True)
    # np.unique sorts the patterns, so a stable sort by count leaves ties in a fixed order
    order = np.argsort(-count, kind="stable")
    return Patterns(
        tuple(fields),
        missing[order].reshape(len(order), len(fields)),
        count[order].astype(np.int64),
        len(cells),
    )


def replaced_groups(
    patterns: Patterns, groups: Groups, field_of_coordinate: Sequence[str]
) -> np.ndarray:
    """Tell which groups an event replaces: each that holds a coordinate of a missing field.

    A group of several fields (a domain block, merged fields) is replaced whole as soon as one of
    its fields is unavailable: groups are what the protocol declares to fail together.

    Returns:
        bool [P, G].

    Raises:
        DataError: a field has no coordinate, so the matrix belongs to another declaration.
    """
    names = np.asarray(field_of_coordinate, dtype=object)
    result = np.zeros((len(patterns), len(groups)), dtype=bool)
    for position, field in enumerate(patterns.fields):
        own = np.flatnonzero(names == field)
        if not len(own):
            raise DataError(f"field {field!r} has no column in the matrix; rerun preprocess")
        touched = np.unique(groups.of_coordinate[own])
        result[:, touched] |= patterns.missing[:, position, None]
    return result


@dataclass(frozen=True)
class NaturalResult:
    """Outcome of every drawn event.

    Attributes:
        predicted: class before stress, int16 [n].
        margin: margin before stress, float64 [n].
        pattern: number of the drawn pattern, int32 [n, H].
        margins: margin of the original class, float32 [n, H].
        labels: predicted class under the event, int16 [n, H].
        model_seconds: time spent inside the model.
        rows: forward rows made.
    """

    predicted: np.ndarray
    margin: np.ndarray
    pattern: np.ndarray
    margins: np.ndarray
    labels: np.ndarray
    model_seconds: float
    rows: int


def draw_patterns(share: np.ndarray, *, seed: int, case_ids: np.ndarray, draws: int) -> np.ndarray:
    """Draw patterns with their shares, int32 [n, H]; a draw depends on its case and number only.

    Args:
        share: probability of each pattern [P], sum 1.
        seed: root seed of the unit.
        case_ids: whole numbers in [0, 2**32), [n].
        draws: H.
    """
    u = uniforms(seed, OPERATOR, case_ids, 0, np.arange(draws), 1)[:, :, 0]
    drawn = np.searchsorted(np.cumsum(share), u.astype(np.float64), side="right")
    return np.minimum(drawn, len(share) - 1).astype(np.int32)


def natural_stress(
    X: np.ndarray,
    groups: Groups,
    baseline: np.ndarray,
    predict: Predict,
    share: np.ndarray,
    replaced: np.ndarray,
    *,
    seed: int,
    case_ids: np.ndarray,
    draws: int,
    clip: float = CLIP,
    chunk_bytes: int | None = None,
) -> NaturalResult:
    """Let ``draws`` events happen to every row of X.

    Args:
        X: rows [n, d], float32.
        groups: partition of the coordinates.
        baseline: x̄ [d].
        predict: float32 rows [r, d] -> probabilities [r, C].
        share: probability of each pattern [P].
        replaced: groups replaced by each pattern, bool [P, G].
        seed: root seed of the unit.
        case_ids: stable whole numbers in [0, 2**32), [n].
        draws: events a case.
        clip: lower bound of a probability.
        chunk_bytes: size of the largest state matrix (default 64 MiB).
    """
    X = np.ascontiguousarray(X, dtype=np.float32)
    baseline = np.ascontiguousarray(baseline, dtype=np.float32)
    model = CountedPredictor(predict)
    n, d = X.shape
    pattern = draw_patterns(share, seed=seed, case_ids=case_ids, draws=draws)
    coordinates = replaced[:, groups.of_coordinate]
    predicted, margin = np.empty(n, dtype=np.int16), np.empty(n)
    margins = np.empty((n, draws), dtype=np.float32)
    labels = np.empty((n, draws), dtype=np.int16)
    step = cases_per_chunk(draws + 1, d, chunk_bytes)
    for start in range(0, n, step):
        part = slice(start, start + step)
        states = np.empty((len(X[part]), draws + 1, d), dtype=np.float32)
        states[:, 0] = X[part]
        states[:, 1:] = np.where(coordinates[pattern[part]], baseline, X[part][:, None, :])
        proba = model(states.reshape(-1, d))
        own = predicted_label(proba[:: draws + 1])
        found = margin_of(proba, np.repeat(own, draws + 1), clip).reshape(-1, draws + 1)
        predicted[part], margin[part] = own, found[:, 0]
        margins[part] = found[:, 1:]
        labels[part] = predicted_label(proba).reshape(-1, draws + 1)[:, 1:]
    return NaturalResult(predicted, margin, pattern, margins, labels, model.seconds, model.rows)
