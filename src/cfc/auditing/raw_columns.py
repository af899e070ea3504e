"""Asking a Pipeline with raw columns, without running its preprocessor on what did not change.

Most of the states of an audit differ from a row in few columns, and every nominal column holds few
different levels. So where a step works row by row and column by column, each level of a nominal
column is transformed once, when the target is made, and looked up from then on; only the other
columns pass through their steps in each call. The matrix is the same, byte for byte: that is
checked on sample rows, and where it does not hold the Pipeline is asked as it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from cfc.auditing.probing import quietly
from cfc.auditing.tables import ColumnCodec
from cfc.auditing.tracing import chosen_positions, trace
from cfc.errors import CfcError

# steps that transform a cell by what they learned of its column, whatever stands beside it
_COLUMNWISE = {
    "Binarizer",
    "KBinsDiscretizer",
    "MaxAbsScaler",
    "MinMaxScaler",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PowerTransformer",
    "QuantileTransformer",
    "RobustScaler",
    "SimpleImputer",
    "StandardScaler",
    "TargetEncoder",
}
_BLOCK_ROWS = 1024
_SELECTING = {"SelectKBest", "SelectPercentile", "SelectFromModel", "VarianceThreshold"}
_LEVEL_ENCODERS = {"OneHotEncoder", "OrdinalEncoder", "TargetEncoder"}


def is_rowwise(step: Any) -> bool:
    """Say whether a step is known to give a row the same bytes whatever rows are beside it."""
    return step is None or all(name in _COLUMNWISE | _SELECTING for name in _inner_names(step))


def used_positions(step: Any, n: int) -> list[int]:
    """Return the raw columns a fitted preprocessor reads, of n; others need not be there."""
    first = step.steps[0][1] if isinstance(step, Pipeline) else step
    if not isinstance(first, ColumnTransformer) or not hasattr(first, "feature_names_in_"):
        return list(range(n))
    used: set[int] = set()
    for _, inner, chosen in first.transformers_:
        if not (isinstance(inner, str) and inner == "drop"):
            used |= set(chosen_positions(chosen, first).tolist())
    return sorted(used)


def encoded_levels(step: Any, n: int) -> dict[int, list | None]:
    """Return the columns a fitted preprocessor takes as levels, and those it knows.

    The numbers in such a column are codes. Levels are None where an encoder does not list them.
    """
    if isinstance(step, Pipeline) and step.steps and not _encoder_at_end(step):
        return encoded_levels(step.steps[0][1], n)
    if not isinstance(step, ColumnTransformer):
        return dict(zip(range(n), _categories(step, n), strict=True)) if _encodes(step) else {}
    found: dict[int, list | None] = {}
    for _, inner, chosen in step.transformers_:
        if _encodes(inner):
            at = chosen_positions(chosen, step).tolist()
            found |= dict(zip(at, _categories(inner, len(at)), strict=True))
    return found


def _encodes(step: Any) -> bool:
    return bool(_LEVEL_ENCODERS & set(_inner_names(step)))


def _encoder_at_end(step: Any) -> Any:
    """Return the encoder whose columns are those of a step: itself, or after imputers."""
    if isinstance(step, Pipeline):
        *before, last = [inner for _, inner in step.steps if not isinstance(inner, str)]
        keeps = all(type(s).__name__ == "SimpleImputer" and not s.add_indicator for s in before)
        return _encoder_at_end(last) if keeps else None
    return step if type(step).__name__ in _LEVEL_ENCODERS else None


def _categories(step: Any, n: int) -> list[list | None]:
    known = getattr(_encoder_at_end(step), "categories_", None)
    if known is None or len(known) != n:
        return [None] * n
    return [[c for c in categories.tolist() if not pd.isna(c)] for categories in known]


def _inner_names(step: Any) -> list[str]:
    """Return the class names of the simple steps inside a step; a foreign class is no name."""
    if step is None or isinstance(step, str):
        return []
    if isinstance(step, ColumnTransformer):
        inner = [transformer for _, transformer, _ in step.transformers_]
    elif isinstance(step, Pipeline):
        inner = [transformer for _, transformer in step.steps]
    elif isinstance(step, FeatureUnion):
        inner = [transformer for _, transformer in step.transformer_list]
    else:
        is_own = type(step).__module__.startswith("sklearn.")
        return [type(step).__name__ if is_own else f"{type(step).__module__}.{type(step)}"]
    return [name for transformer in inner for name in _inner_names(transformer)]


class Preprocessor:
    """A Pipeline's steps before the model, from the codes of raw columns to what the model sees.

    Attributes:
        is_fast: levels are looked up instead of transformed.
    """

    def __init__(
        self, steps: Pipeline, names: Sequence[str], codec: ColumnCodec, sample: np.ndarray
    ):
        """Prepare the look-ups and check them on sample rows.

        Args:
            steps: fitted.
            names: columns they were fitted on.
            codec: of those they use, in that order.
            sample: float64 [n, columns used], rows the steps accept.
        """
        self.codec = codec
        self.steps = steps
        self.is_fast = False
        first = steps.steps[0][1]
        is_known = type(first) is ColumnTransformer and not first.transformer_weights
        if not is_known or codec.container not in ("pandas", "numpy"):
            return
        self._rest = steps.steps[1:]
        # the same rows in another order, with columns taken from other rows
        mixed = np.stack([np.roll(sample[:, i], i) for i in range(sample.shape[1])], axis=1)
        try:
            self._first = _FirstStep(first, names, codec, sample)
            self.is_fast = all(
                _same(self._plain(rows), self._fast(rows)) for rows in (sample, sample[::-1], mixed)
            )
        except (CfcError, ValueError, TypeError):
            return  # a step that cannot be taken apart, or refuses the mixture

    def __call__(self, matrix: np.ndarray) -> Any:
        """Return what the model sees of rows float64 [r, columns]: an array, matrix or frame."""
        return self._fast(matrix) if self.is_fast else self._plain(matrix)

    def _plain(self, matrix: np.ndarray) -> Any:
        return self.steps.transform(self.codec.decode(matrix))

    def _fast(self, matrix: np.ndarray) -> Any:
        rows = self._first(matrix)
        if rows is None:  # a state the look-ups do not hold: the steps say what is wrong with it
            return self._plain(matrix)
        for _, step in self._rest:
            rows = step.transform(rows)
        return rows


@dataclass(frozen=True)
class _Lookup:
    """Outputs that depend on one nominal column: level position -> their values.

    Positions that are not held, of levels the step refuses, have none.
    """

    column: int
    outputs: np.ndarray | slice
    values: np.ndarray
    is_held: np.ndarray


class _FirstStep:
    """A fitted ColumnTransformer on codes."""

    def __init__(
        self,
        step: ColumnTransformer,
        names: Sequence[str],
        codec: ColumnCodec,
        sample: np.ndarray,
    ):
        self.codec = codec
        place = {column.name: i for i, column in enumerate(codec.columns)}
        rows = codec.decode(sample)
        example = quietly(step.transform, rows)
        self.is_sparse = sparse.issparse(example)
        self.frame = example.columns if isinstance(example, pd.DataFrame) else None
        self.width = example.shape[1]
        dtype = example.dtypes.iloc[0] if self.frame is not None else example.dtype
        self.dtype = np.result_type(dtype, np.float32)
        self.lookups: list[_Lookup] = []
        self.fixed: list[tuple[np.ndarray | slice, np.ndarray]] = []
        self.parts: list[tuple[Callable, list[int], slice]] = []
        steps = [name for name, _, _ in step.transformers_]
        if len(set(steps)) < len(steps):
            raise TypeError("output_indices_ cannot tell steps of one name apart")
        if codec.container == "pandas":
            rows = rows.set_axis(list(place), axis=1).reindex(columns=names)
        traced = trace(step, names, rows)
        for name, inner, chosen in step.transformers_:
            span = step.output_indices_[name]
            if span.stop == span.start:
                continue
            at = [place[names[i]] for i in chosen_positions(chosen, step)]
            if np.isscalar(chosen):
                raise TypeError("a step that is given one column alone, not a table")
            outputs = traced.outputs[span]
            is_nominal = all(codec.columns[i].is_nominal for i in at)
            if is_nominal and not isinstance(inner, str) and is_columnwise(inner):
                of = [o.columns for o in outputs]
                self.lookups += self._lookups(inner, at, span, of, sample)
            else:
                inner = None if isinstance(inner, str) else inner
                self.parts.append((inner, at, span))

    def _lookups(self, inner, at: Sequence[int], span: slice, of, sample) -> list[_Lookup]:
        """Transform every level of each column once, the other columns held fixed."""
        base = sample[:1]
        made = []
        for i in at:
            column = self.codec.columns[i]
            own = [k for k, columns in enumerate(of) if columns == (column.name,)]
            codes = (
                np.arange(len(column.levels), dtype=np.float64)
                if column.is_coded
                else np.asarray(column.levels, dtype=np.float64)
            )
            rows = np.repeat(base, len(codes) + 1, axis=0)
            rows[:-1, i] = codes
            rows[-1, i] = np.nan
            values, is_held = self._of_levels(inner, rows, at)
            if own:
                values = np.ascontiguousarray(values[:, own])
                made.append(_Lookup(i, _range(span.start, own), values, is_held))
        if any(len(columns) > 1 for columns in of):
            raise TypeError("an output of several columns")
        fixed = [k for k, columns in enumerate(of) if not columns]
        if fixed:
            values = self._transformed(inner, base, at)[:, fixed]
            self.fixed.append((_range(span.start, fixed), values))
        return made

    def _of_levels(self, inner, rows, at) -> tuple[np.ndarray, np.ndarray]:
        """Return what a step makes of rows, one a level, and which it takes."""
        try:
            return self._transformed(inner, rows, at), np.ones(len(rows), dtype=bool)
        except (CfcError, ValueError, TypeError):
            pass
        made: list[np.ndarray | None] = []
        for k in range(len(rows)):
            try:
                made.append(self._transformed(inner, rows[k : k + 1], at)[0])
            except (CfcError, ValueError, TypeError):
                made.append(None)
        width = next(len(row) for row in made if row is not None)
        empty = np.zeros(width, dtype=self.dtype)
        values = np.stack([empty if row is None else row for row in made])
        return values, np.array([row is not None for row in made])

    def _transformed(self, inner: Any, rows: np.ndarray, at: Sequence[int]) -> np.ndarray:
        given = self.codec.decode(rows, only=at)
        made = given if inner is None else inner.transform(given)
        made = made.toarray() if sparse.issparse(made) else np.asarray(made)
        return made.astype(self.dtype, copy=False)

    def __call__(self, matrix: np.ndarray) -> Any:
        out = np.empty((len(matrix), self.width), dtype=self.dtype)
        looked_up = []
        for lookup in self.lookups:
            column = self.codec.columns[lookup.column]
            at = self.codec.positions(column, matrix[:, lookup.column])
            if not (lookup.is_held.all() or lookup.is_held[at].all()):
                return None
            looked_up.append((lookup, at))
        for start in range(0, len(out), _BLOCK_ROWS):
            block = out[start : start + _BLOCK_ROWS]  # stays in the cache while it is filled
            for lookup, at in looked_up:
                rows = at[start : start + _BLOCK_ROWS]
                block[:, lookup.outputs] = lookup.values.take(rows, axis=0)
        for outputs, values in self.fixed:
            out[:, outputs] = values
        for inner, at, span in self.parts:
            out[:, span] = self._transformed(inner, matrix, at)
        if self.is_sparse:
            return sparse.csr_matrix(out)
        return out if self.frame is None else pd.DataFrame(out, columns=self.frame, copy=False)


def _range(start: int, own: list[int]) -> np.ndarray | slice:
    """Return output numbers, as a slice where they follow one another."""
    if own == list(range(own[0], own[0] + len(own))):
        return slice(start + own[0], start + own[0] + len(own))
    return start + np.array(own)


def is_columnwise(step: Any) -> bool:
    """Say whether a step treats every column by itself, whatever stands beside it."""
    return all(name in _COLUMNWISE for name in _inner_names(step))


def _same(a: Any, b: Any) -> bool:
    """Say whether two answers are the same bytes, -0.0 and 0.0 told apart."""
    a, b = (m.toarray() if sparse.issparse(m) else np.asarray(m) for m in (a, b))
    if a.shape != b.shape or a.dtype.kind not in "biuf":
        return False
    a, b = a.astype(np.float64), b.astype(np.float64)
    return a.tobytes() == b.tobytes()
