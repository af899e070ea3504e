"""What a function of rows depends on, found by asking it.

One raw column at a time is set to values that occur in other sample rows; the outputs that change
depend on it. Values that do not occur are never made up, as a function may not take them.
"""

import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from cfc.errors import DataError

ROWS = 1024  # most rows asked for each raw column, before and after its change
_CELLS = 2**25  # most numbers in one answer; wide ones are asked for fewer rows
_CASES = 256  # most different sample rows among them
_NUMBERS = 32  # most values a numeric column is set to
_LEVELS = 256  # most values any other column is set to


class Sample:
    """Rows with the raw columns of a model, in order: a DataFrame or an array [n, c].

    Raises:
        DataError: there are no rows, or the columns are not the declared ones.
    """

    def __init__(self, rows: Any, columns: Sequence[str]):
        if isinstance(rows, pd.DataFrame):
            names = list(map(str, rows.columns))
            absent = [name for name in columns if names.count(name) != 1]
            if absent:
                raise DataError(f"the sample must have these columns, once each: {absent}")
            if names != list(columns):
                rows = rows.iloc[:, [names.index(name) for name in columns]]
        else:
            rows = np.asarray(rows)
            if rows.ndim != 2 or rows.shape[1] != len(columns):
                raise DataError(
                    f"the sample has shape {rows.shape}, expected rows of {len(columns)} columns"
                )
        if not len(rows):
            raise DataError("the sample has no rows")
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, position: int) -> pd.Series:
        """Return one column, numbered from 0."""
        if isinstance(self.rows, pd.DataFrame):
            return self.rows.iloc[:, position].reset_index(drop=True)
        return pd.Series(self.rows[:, position])

    def take(self, at: np.ndarray, position: int | None = None, donors=None):
        """Return rows, one column of them taken from as many other rows."""
        if isinstance(self.rows, np.ndarray):
            taken = self.rows[at]
            if position is not None:
                taken[:, position] = self.rows[donors, position]
            return taken
        taken = self.rows.iloc[at].reset_index(drop=True)
        if position is not None:
            donated = self.rows.iloc[donors, position].reset_index(drop=True)
            taken.isetitem(position, donated)  # keeps the dtype
        return taken

    @cached_property
    def spread(self) -> list[np.ndarray]:
        """Rows that hold the different values of each column, spread over them if many."""
        return [_spread_of(self.column(i)) for i in range(self.rows.shape[1])]

    @cached_property
    def cases(self) -> np.ndarray:
        """Rows that differ: most hold values that no earlier one has, in turn of columns."""
        turns = itertools.chain.from_iterable(itertools.zip_longest(*self.spread))
        varied = dict.fromkeys(int(row) for row in turns if row is not None)
        evenly = _thinned(np.arange(len(self)), _CASES).tolist()
        chosen = dict.fromkeys([*list(varied)[: _CASES * 3 // 4], *evenly])
        return np.array(list(chosen)[:_CASES])


@dataclass(frozen=True)
class Findings:
    """What probing found about a function with d outputs.

    Attributes:
        changed: raw column -> which outputs changed with it, bool [d]; columns with only one value
            in the sample are left out.
        is_input: the output always equals the input of the same number, bool [d].
        is_binary: the output is always 0 or 1, bool [d].
        is_two_valued: the output takes at most two values, bool [d].
        is_repeatable: the same rows get the same answer twice.
        is_rowwise: a row's answer does not depend on the rows beside it.
    """

    changed: dict[int, np.ndarray]
    is_input: np.ndarray
    is_binary: np.ndarray
    is_two_valued: np.ndarray
    is_repeatable: bool
    is_rowwise: bool


def probe(
    sample: Sample,
    columns: Iterable[int],
    feed: Callable[[Any], Any],
    answer: Callable[[Any, int | None], np.ndarray],
) -> Findings:
    """Find what the outputs of a function depend on.

    Args:
        sample: raw rows.
        columns: raw columns to change.
        feed: raw rows -> what the function is given.
        answer: what it is given, number of outputs if known -> its answer [n, d].
    """
    width = answer(feed(sample.take(np.arange(1))), None).shape[1]
    most = int(np.clip(_CELLS // max(1, width), 128, ROWS))
    # every answer is to as many rows in the same places: elsewhere a matrix product could round
    # differently, which would look like a change
    rows = np.resize(sample.cases[:most], most)
    given = feed(sample.take(rows))
    before = answer(given, width)
    is_repeatable = bool(equal(before, answer(feed(sample.take(rows)), width)).all())
    half = max(1, most // 2)
    is_rowwise = _is_close(before[:half], answer(feed(sample.take(rows[:half])), width))
    is_input = _where_equal(given, before)
    values = _Values(before)
    changed = {}
    if is_repeatable and is_input.all():
        columns = ()  # a change of container or type: nothing is left to find out
    for position in columns:
        donors = _thinned(sample.spread[position], most // 4)
        if len(donors) < 2:
            continue
        donors = np.resize(np.repeat(donors, most // len(donors)), most)  # each meets many cases
        given = feed(sample.take(rows, position, donors))
        after = answer(given, width)
        changed[position] = ~equal(before, after).all(axis=0)
        is_input &= _where_equal(given, after)
        values.add(after)
    return Findings(
        changed, is_input, values.is_binary, values.is_two_valued, is_repeatable, is_rowwise
    )


def _where_equal(given: Any, result: np.ndarray) -> np.ndarray:
    """Return which outputs equal the input of the same number in all rows, bool [d]."""
    given = dense(given)
    if given.shape != result.shape:
        return np.zeros(result.shape[1], dtype=bool)
    return equal(given, result).all(axis=0)


class _Values:
    """The lowest and highest value of each output, and whether there is any other."""

    def __init__(self, answer: np.ndarray):
        self.is_number = answer.dtype.kind in "biuf"
        self.ends = np.empty((0, answer.shape[1]))
        self.is_two_valued = np.full(answer.shape[1], self.is_number)
        self.add(answer)

    def add(self, answer: np.ndarray) -> None:
        if not self.is_number or not len(answer):
            return
        answer = np.vstack([self.ends, answer])
        self.ends = np.stack([answer.min(axis=0), answer.max(axis=0)])
        self.is_two_valued &= ((answer == self.ends[0]) | (answer == self.ends[1])).all(axis=0)

    @property
    def is_binary(self) -> np.ndarray:
        return self.is_two_valued & np.isin(self.ends, (0, 1)).all(axis=0)


def holds_numbers(column: pd.Series) -> bool:
    """Say whether a column holds numbers; booleans, dates and categories are none."""
    if pd.api.types.is_object_dtype(column.dtype):
        kinds = ("integer", "floating", "mixed-integer-float", "empty")
        return pd.api.types.infer_dtype(column, skipna=True) in kinds
    is_number = pd.api.types.is_numeric_dtype(column.dtype)
    return is_number and not pd.api.types.is_bool_dtype(column.dtype)


def _spread_of(column: pd.Series) -> np.ndarray:
    try:
        codes = pd.factorize(column, use_na_sentinel=False)[0]
    except TypeError:  # cells that cannot be compared, such as lists
        codes = np.arange(len(column))
    first = np.unique(codes, return_index=True)[1]
    most = _LEVELS
    if holds_numbers(column):
        most = _NUMBERS
        values = column.iloc[first].to_numpy(dtype=np.float64, na_value=np.nan)
        first = first[np.argsort(values, kind="stable")]
    return _thinned(first, most)


def _thinned(values: np.ndarray, most: int) -> np.ndarray:
    """Return at most so many values, evenly spaced, with the first and the last."""
    return values[np.linspace(0, len(values) - 1, min(most, len(values))).astype(int)]


def quietly(function: Callable, given: Any) -> Any:
    """Return a function's answer without its warnings: a probe is no use of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(given)


def dense(matrix: Any) -> np.ndarray:
    """Return any matrix as an array; in one of objects every absent value is None."""
    if sparse.issparse(matrix):
        return matrix.toarray()
    matrix = matrix.to_numpy() if hasattr(matrix, "to_numpy") else np.asarray(matrix)
    return np.where(pd.isna(matrix), None, matrix) if matrix.dtype == object else matrix


def equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return where two arrays are equal, an absent value being equal to another."""
    return (a == b) | ((a != a) & (b != b))


def _is_close(a: np.ndarray, b: np.ndarray) -> bool:
    # a matrix product rounds differently for another number of rows
    if a.dtype.kind == "f" and b.dtype.kind == "f":
        return np.allclose(a, b, rtol=1e-4, equal_nan=True)
    return bool(equal(a, b).all())
