"""Value exposure: every group swept over values that really occur (protocol, section 13).

A certificate knows one alternative per group, the baseline. Exposure asks instead: were this group
to take the values it takes in the training rows, how much support would be lost on average, and how
often would the label change? The values come from one half of train; the swap stress takes its
own from the other half, so the score is built on no value a label was made with.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cfc.errors import CfcError, DataError
from cfc.groups import Groups
from cfc.predictor import CountedPredictor, Predict, cases_per_chunk
from cfc.prepared import arrays_hash
from cfc.scores import CLIP, margin_of, predicted_label, relative_collapse
from cfc.seeding import generator

if TYPE_CHECKING:
    import pandas as pd

    from cfc.data.registry import FieldSpec

POINTS = 16


@dataclass(frozen=True)
class ExposureGrid:
    """Values each group is swept over, in the transformed space.

    Attributes:
        values: for each group, distinct points [q_g, d_g] of one float dtype, columns as the
            group's indices.
        weights: for each group, float64 [q_g], positive, sum 1.
    """

    values: tuple[np.ndarray, ...]
    weights: tuple[np.ndarray, ...]

    @property
    def rows_per_case(self) -> int:
        """Forward rows of one case, the case itself left out."""
        return sum(map(len, self.weights))

    @property
    def hash(self) -> str:
        """16 hexadecimal digits of points and weights."""
        return arrays_hash([*self.values, *self.weights])


@dataclass(frozen=True)
class Exposure:
    """Exposure of n cases.

    Attributes:
        e: mean relative loss of support per group, Σ_v w_v κ⁺_g(v), in [0, ∞), float64 [n, G].
        f: weighted share of values that change the label, in [0, 1], float64 [n, G].
        total: X = Σ_g (e_g + f_g), float64 [n].
        root_square: R = sqrt(Σ_g Σ_v w_v κ⁺²), float64 [n]; the variant without label changes.
        rows: forward rows made.
        model_seconds: time spent inside the model.
    """

    e: np.ndarray
    f: np.ndarray
    total: np.ndarray
    root_square: np.ndarray
    rows: int = 0
    model_seconds: float = 0.0


def field_points(
    column: "pd.Series", spec: "FieldSpec", points: int = POINTS
) -> tuple[list, np.ndarray]:
    """Return raw values one field is swept over, with weights.

    Numeric: the mid-quantiles (i + ½)/points of the present values (inverted CDF, so each is a
    value that occurs), sharing the weight of the present cells; then each marker and plain
    missingness with its own share. Nominal: the ``points`` most frequent levels, missing being one
    of them, shares renormalised; ties go to the level first in text order.

    Args:
        column: cells of the field in the rows the grid is made from, at least one.
        spec: the field's declaration.
        points: quantiles, or most levels.

    Returns:
        raw values (None or NaN for missing), repeats possible; weights float64, sum 1.
    """
    import pandas as pd

    if spec.kind == "nominal":
        cells = column.astype(object)
        counts = cells.dropna().value_counts().to_dict()
        if absent := int(cells.isna().sum()):
            counts[None] = absent
        levels = sorted(counts, key=lambda level: (-counts[level], level is None, str(level)))
        weights = np.array([counts[level] for level in levels[:points]], dtype=np.float64)
        return levels[:points], weights / weights.sum()
    cells = pd.to_numeric(column).to_numpy(dtype=np.float64)
    missing = np.isnan(cells)
    markers = [m for m in spec.markers if (cells == m).any()]
    present = np.sort(cells[~missing & ~np.isin(cells, markers)])
    values: list[float] = []
    weights: list[float] = []
    if len(present):
        at = np.ceil((np.arange(points) + 0.5) / points * len(present)).astype(int) - 1
        values += present[at].tolist()
        weights += [len(present) / len(cells) / points] * points
    for marker in markers:
        values.append(float(marker))
        weights.append(float((cells == marker).mean()))
    if missing.any():
        values.append(float("nan"))
        weights.append(float(missing.mean()))
    return values, np.array(weights)


def exposure_grid(
    rows: "pd.DataFrame",
    groups: Groups,
    fields_of_group: Sequence[Sequence[str]],
    fields: Mapping[str, "FieldSpec"],
    transform: Callable[["pd.DataFrame"], np.ndarray],
    *,
    points: int = POINTS,
    seed: int = 0,
) -> ExposureGrid:
    """Return the grid of every group.

    A group of one field takes `field_points`. A group of several takes 2 × ``points`` seeded
    vectors as they occur together in ``rows``, with equal weights. All points pass through the
    fitted preprocessor, so a value and its indicators move together; points equal after it are
    merged and their weights added.

    Args:
        rows: raw training rows the values come from; the half that no stress draws from.
        groups: partition of the coordinates.
        fields_of_group: raw fields of each group, in the order of the groups.
        fields: field name -> declaration.
        transform: raw table -> float matrix [n, d], the fitted preprocessor.
        points: resolution Q, at least 1.
        seed: root seed of the unit.

    Raises:
        DataError: there is no row to take values from.
    """
    if not len(rows):
        raise DataError("the exposure grid needs at least one training row to take values from")
    values, weights = [], []
    for (name, index), names in zip(groups, fields_of_group, strict=True):
        if len(names) == 1:
            raw, weight = field_points(rows[names[0]], fields[names[0]], points)
            # every other field of the point is cut away again after the transformation
            table = rows.iloc[np.zeros(len(raw), dtype=int)].reset_index(drop=True)
            kind = object if fields[names[0]].kind == "nominal" else np.float64
            table[names[0]] = np.array(raw, dtype=kind)
        else:
            chosen = _observed(len(rows), 2 * points, seed, name)
            table = rows.iloc[chosen].reset_index(drop=True)
            weight = np.full(len(chosen), 1.0 / len(chosen))
        point, weight = _merged(transform(table)[:, index], weight)
        values.append(point)
        weights.append(weight)
    return ExposureGrid(tuple(values), tuple(weights))


def _observed(n: int, count: int, seed: int, name: str) -> np.ndarray:
    return generator(seed, f"exposure grid: {name}").permutation(n)[:count]


def _merged(points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct points in order of first occurrence, with summed weights."""
    # adding 0 makes −0.0 and 0.0 one value; bytes, because NaN differs from itself
    points = np.ascontiguousarray(points) + points.dtype.type(0)
    place: dict[bytes, int] = {}
    inverse = [place.setdefault(point.tobytes(), len(place)) for point in points]
    _, first = np.unique(inverse, return_index=True)
    summed = np.bincount(inverse, weights=weights)
    return points[first], summed / summed.sum()


def expose(
    X: np.ndarray,
    groups: Groups,
    grid: ExposureGrid,
    predict: Predict,
    *,
    clip: float = CLIP,
    dtype: str | np.dtype = "float32",
    chunk_bytes: int | None = None,
    progress=None,
) -> Exposure:
    """Sweep every group of every row over its grid, one group at a time.

    With κ⁺_g(v) = max(0, m(x) − m(x with g := v)) / (|m(x)| + 1e-8), the margin always being
    that of the class predicted for x: e_g = Σ_v w_v κ⁺_g(v), f_g = Σ_v w_v 1[label changes].

    Args:
        X: rows [n, d]; taken as ``dtype`` in C order.
        groups: partition of the d coordinates.
        grid: points and weights of each group.
        predict: rows [r, d] of ``dtype`` -> probabilities [r, C].
        clip: lower bound of a probability.
        dtype: ``float32`` or ``float64``, in which states are made and the model is asked.
        chunk_bytes: size of the largest state matrix (default 64 MiB).
        progress: called with the number of cases done after each chunk.

    Raises:
        CfcError: rows, groups and grid do not fit together.
        ModelError: the model's answers are not probabilities.
    """
    X = np.ascontiguousarray(X, dtype=dtype)
    _check_shapes(X, groups, grid)
    model = CountedPredictor(predict)
    n, count = len(X), grid.rows_per_case
    stops = np.cumsum([len(w) for w in grid.weights])
    e, f = np.zeros((n, len(groups))), np.zeros((n, len(groups)))
    squares = np.zeros(n)
    step = cases_per_chunk(1 + count, X.shape[1], chunk_bytes, X.itemsize)
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        states = np.repeat(X[part, None, :], 1 + count, axis=1)
        for (_, index), values, stop in zip(groups, grid.values, stops, strict=True):
            states[:, 1 + stop - len(values) : 1 + stop, index] = values
        size = len(states)
        proba = model(states.reshape(-1, X.shape[1]))
        labels = predicted_label(proba).reshape(size, 1 + count)
        own = np.repeat(labels[:, 0], 1 + count)
        margins = margin_of(proba, own, clip).reshape(size, 1 + count)
        loss = relative_collapse(margins[:, :1], margins[:, 1:])
        changed = labels[:, 1:] != labels[:, :1]
        for g, (weight, stop) in enumerate(zip(grid.weights, stops, strict=True)):
            own_states = slice(stop - len(weight), stop)
            # sums along the short axis, not a matrix product: its rounding follows the batch size
            e[part, g] = (loss[:, own_states] * weight).sum(axis=1)
            f[part, g] = (changed[:, own_states] * weight).sum(axis=1)
            squares[part] += (loss[:, own_states] ** 2 * weight).sum(axis=1)
        if progress:
            progress(part.stop)
    total = (e + f).sum(axis=1)
    return Exposure(e, f, total, np.sqrt(squares), model.rows, model.seconds)


def _check_shapes(X: np.ndarray, groups: Groups, grid: ExposureGrid) -> None:
    if X.ndim != 2 or X.shape[1] != groups.n_coordinates:
        raise CfcError(
            f"rows have shape {X.shape}, but the groups partition {groups.n_coordinates} "
            "coordinates"
        )
    if len(grid.values) != len(groups):
        raise CfcError(f"the grid has {len(grid.values)} groups, but {len(groups)} are declared")
    for (name, index), values, weights in zip(groups, grid.values, grid.weights, strict=True):
        if values.shape != (len(weights), len(index)) or not len(weights):
            raise CfcError(
                f"the grid of group {name!r} has shape {values.shape} with {len(weights)} weights, "
                f"expected at least one point of {len(index)} coordinates"
            )
