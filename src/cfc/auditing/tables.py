"""A user's table: containers, kinds of cells, a numeric matrix and back, a hash of the content.

A cell is a number, a truth value, a text, a moment, or missing. How a library holds it (NumPy,
nullable or Arrow-backed pandas, strings or categories, polars, Arrow, before or after a file) makes
no difference here: `values_of` brings every column to one form, and all else is built on that form.
"""

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from cfc.errors import DataError, ProblemList, nearest

UNSEEN = -1.0  # code of a level that is not in the vocabulary
_SHOWN = 5
_KIND_NAMES = {
    "number": "numbers",
    "boolean": "truth values",
    "text": "text",
    "time": "dates",
    "instant": "dates with a time zone",
}


# ---- containers -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Rows as a user gave them, in a plain pandas frame.

    Attributes:
        frame: n >= 1 rows numbered 0..n-1, distinct text column names.
        index: the user's index, unique, [n]; 0..n-1 for containers without one.
        container: ``pandas``, ``polars``, ``arrow`` or ``numpy``.
        labels: column labels as the user's container has them.
        dtypes: type of each column in the user's container.
    """

    frame: pd.DataFrame
    index: pd.Index
    container: str
    labels: tuple[Hashable, ...]
    dtypes: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.frame)


def as_frame(X: Any, columns: Sequence[str] | None = None, *, where: str = "X") -> Table:
    """Return rows of any accepted container as a `Table`.

    Args:
        X: pandas or polars DataFrame, ``pyarrow.Table``, or NumPy array [n, d].
        columns: names for the columns of an array; default ``x0``, ``x1`` and so on.
        where: what to call the rows in errors.

    Raises:
        DataError: another container, no rows or columns, an index or column names that repeat.
    """
    module = type(X).__module__.partition(".")[0]
    name = type(X).__name__
    if isinstance(X, Table):
        return X
    if isinstance(X, pd.DataFrame):
        frame, index, dtypes = X, X.index, tuple(X.dtypes)
        labels, container = tuple(X.columns), "pandas"
        if X.columns.nlevels > 1:
            raise DataError(
                f"{where}: column names have {X.columns.nlevels} levels; join them into one"
            )
    elif module == "polars" and name == "DataFrame":
        arrow = X.to_arrow()
        frame = _arrow_frame(arrow, where)
        index, labels, dtypes = frame.index, tuple(X.columns), tuple(X.dtypes)
        container = "polars"
    elif module == "pyarrow" and name == "Table":
        frame = _arrow_frame(X, where)
        index, labels, container = frame.index, tuple(frame.columns), "arrow"
        dtypes = tuple(X.schema.field(label).type for label in labels)
    elif isinstance(X, np.ndarray):
        frame = _array_frame(X, columns, where)
        index, labels, container = frame.index, tuple(frame.columns), "numpy"
        dtypes = (X.dtype,) * X.shape[1]
    else:
        raise DataError(f"{where}: {_refused_container(X, module, name)}")
    problems = ProblemList()
    names = [str(label) for label in labels]
    if repeated := _repeated(names):
        problems.append(f"column names occur more than once: {_listed(repeated)}")
    if not names:
        problems.append("there is no column")
    if not len(frame):
        problems.append("there is no row; at least one is needed")
    if not index.is_unique:
        again = index[index.duplicated()].unique()
        problems.append(
            f"the index is not unique: {_listed(map(str, again))} occur more than once; rows "
            "are told apart by it (reset_index() gives each row a number)"
        )
    problems.raise_if_any(DataError, where)
    plain = frame.set_axis(pd.RangeIndex(len(frame)), axis=0).set_axis(names, axis=1)
    return Table(plain, index, container, labels, dtypes)


def _arrow_frame(table: Any, where: str) -> pd.DataFrame:
    import pyarrow as pa

    if repeated := _repeated(table.column_names):
        raise DataError(f"{where}: column names occur more than once: {_listed(repeated)}")
    for at, column in enumerate(table.schema):
        if str(column.type) in ("string_view", "binary_view"):
            table = table.set_column(at, column.name, table.column(at).cast(pa.large_string()))
        elif pa.types.is_dictionary(column.type):  # pandas takes signed positions only
            parts = [
                pa.DictionaryArray.from_arrays(
                    part.indices.cast(pa.int64()), part.dictionary, ordered=column.type.ordered
                )
                for part in table.column(at).chunks
            ]
            if parts:
                table = table.set_column(at, column.name, pa.chunked_array(parts))

    def keep(kind):
        return None if pa.types.is_dictionary(kind) else pd.ArrowDtype(kind)

    # the index pandas noted in the file becomes the index again
    return table.to_pandas(types_mapper=keep)


def _array_frame(X: np.ndarray, columns: Sequence[str] | None, where: str) -> pd.DataFrame:
    if X.dtype.names is not None:
        raise DataError(f"{where}: structured arrays are not accepted; use pandas.DataFrame(X)")
    if isinstance(X, np.ma.MaskedArray):
        raise DataError(f"{where}: masked arrays are not accepted; use X.filled(numpy.nan)")
    if X.ndim != 2:
        hint = "; a single row is X.reshape(1, -1)" if X.ndim == 1 else ""
        raise DataError(f"{where}: the array has shape {X.shape}, expected [rows, columns]{hint}")
    if columns is None:
        columns = [f"x{i}" for i in range(X.shape[1])]
    if len(columns) != X.shape[1]:
        raise DataError(
            f"{where}: the array has {X.shape[1]} columns, expected {len(columns)}"
            f" ({_listed(columns)})"
        )
    return pd.DataFrame(np.asarray(X), columns=list(columns), copy=False)


def _refused_container(X: Any, module: str, name: str) -> str:
    hints = {
        "LazyFrame": "collect() it first",
        "Series": "a table is needed; for one row use a frame of one row, such as X.iloc[[0]]",
        "RecordBatch": "use pyarrow.Table.from_batches([X])",
        "list": "use pandas.DataFrame(X)",
        "dict": "use pandas.DataFrame(X)",
        "Tensor": "use X.numpy(force=True)",
    }
    hint = hints.get(name)
    if module == "scipy":
        hint = "sparse rows are not accepted; use X.toarray()"
    return (
        f"a {module}.{name} is not accepted"
        + (f": {hint}" if hint else "")
        + " (accepted: pandas or polars DataFrame, pyarrow.Table, NumPy array of two dimensions)"
    )


def _repeated(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    return [name for name, count in seen.items() if count > 1]


def _listed(items: Iterable[Any]) -> str:
    items = [repr(str(i)) for i in items]
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more


# ---- cells ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Values:
    """The cells of a column in one form.

    Attributes:
        kind: ``number``, ``boolean``, ``text``, ``time`` (no time zone), ``instant`` (moments, in
            UTC) or ``missing`` (no cell is present).
        data: float64 [n], NaN = missing (number; boolean as 0 and 1; missing); object [n] of str
            or None (text); datetime64 [n], NaT = missing (time, instant).
    """

    kind: str
    data: np.ndarray

    @property
    def missing(self) -> np.ndarray:
        """Which cells are missing, bool [n]."""
        return pd.isna(self.data)

    def take(self, codes: np.ndarray) -> "Values":
        """Return the cells at positions ``codes``; -1 gives a missing one."""
        filled = np.append(self.data, _absent(self.kind, 1).astype(self.data.dtype))
        return _settled(self.kind, filled[codes])


def values_of(column: pd.Series) -> Values:
    """Return the cells of a column in one form, whatever the column's dtype.

    Categories are what they stand for, objects what they hold: truth values held as objects are
    truth values, numbers held as objects numbers.

    Raises:
        DataError: types are mixed, or are none a model can be asked about; the message does not
            name the column.
    """
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy()
        if not len(dtype.categories):
            return _settled("missing", np.full(len(column), np.nan))
        return values_of(pd.Series(dtype.categories)).take(codes)
    if isinstance(dtype, pd.SparseDtype):
        return values_of(column.sparse.to_dense())
    kind = pd.api.types.infer_dtype(
        column if dtype.kind in "biuf" else column.to_numpy(dtype=object, na_value=None),
        skipna=True,
    )
    if kind == "boolean":
        return _settled("boolean", _floats(column))
    if kind in ("integer", "floating", "mixed-integer-float"):
        _check_integers(column)
        return _settled("number", _floats(column))
    if kind == "string":
        cells = column.to_numpy(dtype=object, na_value=None)
        return Values("text", np.where(pd.isna(cells), None, cells))
    if kind in ("datetime", "datetime64", "date"):
        return _moments(column)
    if kind == "empty":
        return _settled("missing", np.full(len(column), np.nan))
    hints = {
        "decimal": "decimals; cast it to float64",
        "timedelta": "durations; turn it into a number, for example of seconds",
        "timedelta64": "durations; turn it into a number, for example of seconds",
        "bytes": "bytes; decode it to text",
        "period": "periods; turn it into dates or text",
        "complex": "complex numbers",
    }
    raise DataError(f"holds {hints.get(kind) or _mixture(column)}")


def _absent(kind: str, n: int) -> np.ndarray:
    """Return n missing cells of a kind."""
    if kind == "text":
        return np.full(n, None, dtype=object)
    if kind in ("time", "instant"):
        return np.full(n, np.datetime64("NaT"), dtype="datetime64[us]")
    return np.full(n, np.nan)


def _settled(kind: str, data: np.ndarray) -> Values:
    """Return values, as ``missing`` when no cell is present: their type cannot be known."""
    if pd.isna(data).all():
        return Values("missing", np.full(len(data), np.nan))
    return Values(kind, data)


def _floats(column: pd.Series) -> np.ndarray:
    if column.dtype == object:
        cells = column.to_numpy()
        out = np.full(len(cells), np.nan)
        present = ~pd.isna(cells)
        out[present] = cells[present].astype(np.float64)
        return out
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _check_integers(column: pd.Series) -> None:
    """Refuse whole numbers that are changed by float64; some above 2**53 are not."""
    if column.dtype == object:
        cells = [int(c) for c in column if isinstance(c, (int, np.integer))]
    elif column.dtype.kind in "iu":
        present = column.dropna()
        cells = present[(present > 2**53) | (present < -(2**53))].tolist()
    else:
        return
    changed = [c for c in cells if int(float(c)) != c]
    if changed:
        raise DataError(
            f"holds whole numbers beyond 2**53, such as {changed[0]}, which no float64 can tell "
            "apart; if they are identifiers turn them into text or leave the column out"
        )


def _moments(column: pd.Series) -> Values:
    if column.dtype == object:
        cells = column.to_numpy()
        zones = {getattr(c, "tzinfo", None) is not None for c in cells[~pd.isna(cells)]}
        if len(zones) > 1:
            raise DataError("holds dates with and without a time zone")
        column = pd.Series(pd.to_datetime(column, utc=True if zones == {True} else None))
    elif isinstance(column.dtype, pd.ArrowDtype):
        kind = column.dtype.pyarrow_dtype
        unit, zone = getattr(kind, "unit", "s"), getattr(kind, "tz", None)
        column = column.astype(pd.DatetimeTZDtype(unit, zone) if zone else f"datetime64[{unit}]")
    if column.dt.tz is None:
        return _settled("time", column.to_numpy())
    return _settled("instant", column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())


def _mixture(column: pd.Series) -> str:
    examples: dict[str, str] = {}
    for row, cell in enumerate(column.to_numpy(dtype=object, na_value=None)):
        if not np.ndim(cell) and pd.isna(cell):
            continue
        examples.setdefault(type(cell).__name__, f"{type(cell).__name__} ({cell!r}, row {row})")
    if len(examples) == 1:
        return f"values of a type that is not accepted: {next(iter(examples.values()))}"
    return "mixed types: " + ", ".join(examples.values())


# ---- columns a model wants ------------------------------------------------------------------


def table_values(
    table: Table, columns: Sequence[str] | None = None, *, where: str = "X"
) -> dict[str, Values]:
    """Return the cells of each column, in one form.

    Raises:
        DataError: columns of mixed or unusable types, all at once.
    """
    problems, found = ProblemList(), {}
    for name in table.frame.columns if columns is None else columns:
        try:
            found[name] = values_of(table.frame[name])
        except DataError as error:
            problems.append(f"column {name!r} {error}")
    problems.raise_if_any(DataError, where)
    return found


def align(
    rows: Any,
    kinds: Mapping[str, str | None],
    *,
    unused: Iterable[str] = (),
    ignore_extra: bool = False,
    where: str = "X",
) -> dict[str, Values]:
    """Return the columns a model wants, in its order, checked against the kind it saw.

    Truth values are accepted as the numbers 0 and 1 and the other way round; a column without any
    present cell fits every kind.

    Args:
        rows: any accepted container, or a `Table`.
        kinds: column name -> kind of `Values` the model saw, None = any; in the model's order.
        unused: columns the model knows but does not use: they may be there, and are left out.
        ignore_extra: leave out columns the model does not know instead of refusing them.
        where: what to call the rows in errors.

    Raises:
        DataError: columns missing, unknown or repeated, of another kind or of mixed types, all at
            once.
    """
    table = as_frame(rows, list(kinds), where=where)
    problems = _name_problems(table, kinds, unused, ignore_extra)
    found: dict[str, Values] = {}
    for name, wanted in kinds.items():
        if name not in table.frame.columns:
            continue
        try:
            found[name] = _as_kind(values_of(table.frame[name]), wanted)
        except DataError as error:
            problems.append(f"column {name!r} {error}")
    problems.raise_if_any(DataError, where)
    return found


def check_names(
    table: Table,
    names: Iterable[str],
    *,
    unused: Iterable[str] = (),
    ignore_extra: bool = False,
    where: str = "X",
) -> None:
    """Check that a table has the columns a model wants, as `align` does, whatever they hold.

    Raises:
        DataError: columns missing or unknown, all at once.
    """
    _name_problems(table, list(names), unused, ignore_extra).raise_if_any(DataError, where)


def _name_problems(
    table: Table, names: Iterable[str], unused: Iterable[str], ignore_extra: bool
) -> ProblemList:
    own = list(table.frame.columns)
    problems = ProblemList(
        f"column {name!r} is missing; {nearest(name, own)}" for name in names if name not in own
    )
    expected = {*names, *unused}
    extra = [name for name in own if name not in expected]
    if extra and not ignore_extra:
        problems.append(f"columns the model does not know: {_listed(extra)}")
    return problems


def _as_kind(values: Values, wanted: str | None) -> Values:
    """Return values as the wanted kind, or raise `DataError` saying what they are instead."""
    if wanted in (None, values.kind, "missing"):
        return values
    if values.kind == "missing":
        return Values(wanted, _absent(wanted, len(values.data)))
    if {wanted, values.kind} == {"number", "boolean"}:
        present = values.data[~values.missing]
        if wanted == "number" or np.isin(present, (0.0, 1.0)).all():
            return Values(wanted, values.data)
    row = int(np.flatnonzero(~values.missing)[0])
    hint = {
        ("number", "text"): "; if the text is numbers, pandas.to_numeric turns it",
        ("time", "text"): "; if the text is dates, pandas.to_datetime turns it",
        ("instant", "text"): "; if the text is dates, pandas.to_datetime turns it",
        ("text", "number"): "; .astype(str) turns it, if the model's levels are spelled so",
    }.get((wanted, values.kind), "")
    raise DataError(
        f"holds {_KIND_NAMES[values.kind]} (first: {level_text(values.kind, values.data[row])!r}, "
        f"row {row}) where the model saw {_KIND_NAMES[wanted]}{hint}"
    )


def level_text(kind: str, level: Any) -> str:
    """Return a present cell as text: whole numbers without a fraction, dates in ISO form."""
    if kind == "boolean":
        return str(bool(level))
    if kind == "number":
        return str(int(level)) if float(level).is_integer() else repr(float(level))
    return str(level)


def row_count(n: int) -> str:
    """Return ``1 row``, ``2 rows`` and so on."""
    return "1 row" if n == 1 else f"{int(n)} rows"


# ---- raw columns <-> matrix -----------------------------------------------------------------


@dataclass(frozen=True)
class Unseen:
    """Cells whose level a model does not know.

    Attributes:
        mask: bool [n, columns].
        levels: column -> {level as text: number of rows}, columns without any left out.
    """

    mask: np.ndarray
    levels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def problems(self) -> list[str]:
        """Return one line a column that has unseen levels."""
        return [
            f"column {name!r} has levels the model does not know: "
            + ", ".join(f"{text!r} ({row_count(n)})" for text, n in list(found.items())[:_SHOWN])
            + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
            for name, found in self.levels.items()
        ]


@dataclass(frozen=True)
class Column:
    """One raw column of a model.

    Attributes:
        name: text name.
        label: label in the container the model is given.
        kind: kind of its `Values`.
        dtype: its type in that container.
        levels: known levels of a nominal column in the form of `Values`, else None.
        is_coded: the matrix holds a level's position; False: the level's own number.
        missing: what stands for a missing cell in a column of objects.
    """

    name: str
    label: Hashable
    kind: str
    dtype: Any
    levels: np.ndarray | None = None
    is_coded: bool = True
    missing: Any = np.nan

    @property
    def is_nominal(self) -> bool:
        """Whether the column holds levels, which cannot be averaged."""
        return self.levels is not None

    def texts(self) -> list[str]:
        """Return the known levels as text, in code order."""
        return [level_text(self.kind, level) for level in self.levels]

    def encode(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """Return numbers float64 [n] (missing NaN, unseen `UNSEEN`) and where levels are unseen."""
        if not self.is_nominal:
            return values.data.astype(np.float64, copy=False), np.zeros(len(values.data), bool)
        at = _index(self.levels).get_indexer(_index(values.data))
        missing = values.missing
        unseen = (at < 0) & ~missing
        if not self.is_coded:
            return values.data.astype(np.float64, copy=False), unseen
        codes = at.astype(np.float64)
        codes[unseen] = UNSEEN
        codes[missing] = np.nan
        return codes, unseen


def _index(cells: np.ndarray) -> pd.Index:
    return pd.Index(cells, dtype=cells.dtype)  # left to itself, pandas 3 makes strings of objects


class ColumnCodec:
    """Turns raw columns into a matrix float64 [n, d], one coordinate a column, and back.

    A numeric column is itself. A nominal one (text, categories, truth values, dates, or numbers
    declared nominal) becomes the position of the level in its vocabulary; a missing cell is NaN.

    Attributes:
        columns: what each coordinate is.
        container: container `decode` makes.
    """

    def __init__(self, columns: Sequence[Column], container: str):
        self.columns = tuple(columns)
        self.container = container

    @classmethod
    def of(
        cls,
        table: Table,
        names: Sequence[str] | None = None,
        *,
        known: Mapping[str, Sequence[Any]] | None = None,
        nominal: Iterable[str] = (),
        uncoded: Iterable[str] = (),
        more: Table | None = None,
        where: str = "background",
    ) -> "ColumnCodec":
        """Learn kinds, types and vocabularies from rows.

        Args:
            table: training rows.
            names: the columns to take, in order; default all.
            known: column -> levels the model knows, in its order; they come first in the
                vocabulary, then those of the rows, sorted.
            nominal: numeric columns to treat as nominal.
            uncoded: nominal columns whose levels are numbers and stay themselves in the matrix.
            more: further rows, whose types count as well: a column is float32 only if all are.
            where: what to call the rows in errors.

        Raises:
            DataError: unusable columns; ``nominal`` names an unknown column.
        """
        known = known or {}
        names = list(table.frame.columns if names is None else names)
        problems = ProblemList(
            f"nominal: column {name!r} is unknown; {nearest(name, names)}"
            for name in nominal
            if name not in names
        )
        problems.raise_if_any(DataError, where)
        values = table_values(table, names, where=where)
        columns = []
        for name in names:
            at = table.frame.columns.get_loc(name)
            own = values[name]
            first = None
            if known.get(name) is not None and len(known[name]):
                first = values_of(pd.Series(list(known[name]), dtype=object))
            kind = own.kind
            if kind == "missing":
                kind = "number" if table.frame[name].dtype.kind in "iuf" else "text"
                kind = kind if first is None else first.kind
            elif first is not None and first.kind != kind:
                problems.append(
                    f"column {name!r} holds {_KIND_NAMES[kind]}, but the levels the model knows "
                    f"are {_KIND_NAMES[first.kind]}"
                )
                continue
            dtype = table.dtypes[at]
            is_category = isinstance(table.frame[name].dtype, pd.CategoricalDtype)
            is_number = kind == "number" and not (is_category or name in nominal or name in known)
            if is_number and more is not None and name in more.frame.columns:
                other = more.dtypes[more.frame.columns.get_loc(name)]
                dtype = dtype if str(dtype) == str(other) else np.dtype(np.float64)
            columns.append(
                Column(
                    name=name,
                    label=table.labels[at],
                    kind=kind,
                    dtype=dtype,
                    levels=None if is_number else _levels(kind, own, dtype, first),
                    is_coded=name not in uncoded and not _is_numeric_array(table),
                    missing=_missing_marker(table.frame[name]),
                )
            )
        problems.raise_if_any(DataError, where)
        return cls(columns, table.container)

    @property
    def kinds(self) -> dict[str, str]:
        """Column name -> kind of its cells, as `align` wants it."""
        return {c.name: c.kind for c in self.columns}

    def encode(self, rows: Any, *, where: str = "X", **allowed: Any) -> tuple[np.ndarray, Unseen]:
        """Return the matrix float64 [n, d] of rows, and their unseen levels.

        Args:
            rows: any accepted container.
            where: what to call the rows in errors.
            allowed: ``unused`` and ``ignore_extra`` of `align`.

        Raises:
            DataError: see `align`; a number is infinite.
        """
        return self.encode_values(align(rows, self.kinds, where=where, **allowed), where=where)

    def encode_values(
        self, values: Mapping[str, Values], *, where: str = "X"
    ) -> tuple[np.ndarray, Unseen]:
        """Return the matrix of aligned cells, as `encode`."""
        n = len(next(iter(values.values())).data)
        matrix = np.empty((n, len(self.columns)))
        mask = np.zeros((n, len(self.columns)), dtype=bool)
        levels: dict[str, dict[str, int]] = {}
        problems = ProblemList()
        for i, column in enumerate(self.columns):
            own = values[column.name]
            matrix[:, i], mask[:, i] = column.encode(own)
            if mask[:, i].any():
                strange, counts = np.unique(own.data[mask[:, i]], return_counts=True)
                levels[column.name] = {
                    level_text(column.kind, s): int(c) for s, c in zip(strange, counts, strict=True)
                }
            if (infinite := np.isinf(matrix[:, i])).any():
                problems.append(
                    f"column {column.name!r} is infinite in {row_count(infinite.sum())}, first in "
                    f"row {int(infinite.argmax())}"
                )
        problems.raise_if_any(DataError, where)
        return matrix, Unseen(mask, levels)

    def extended(self, values: Mapping[str, Values]) -> "ColumnCodec":
        """Return a codec that knows the levels of these cells as well."""
        columns = []
        for column in self.columns:
            if column.is_nominal:
                own = values[column.name]
                strange = np.unique(own.data[column.encode(own)[1]])
                if len(strange):
                    column = replace(column, levels=np.concatenate([column.levels, strange]))
            columns.append(column)
        return ColumnCodec(columns, self.container)

    def decode(self, matrix: np.ndarray, only: Sequence[int] | None = None) -> Any:
        """Return rows in the container and types the model was given.

        Numeric columns are float64 (float32 if they were), so a type never depends on the rows.

        Args:
            matrix: float [r, d].
            only: coordinates to decode, default all.

        Raises:
            DataError: a code is no position in its column's vocabulary.
        """
        chosen = range(len(self.columns)) if only is None else only
        dtype = self.columns[0].dtype
        if self.container == "numpy" and dtype.kind in "biuf":
            if dtype.kind == "b" and np.isnan(matrix).any():
                raise DataError("an array of truth values has no missing cells")
            return matrix[:, chosen].astype(np.float64 if dtype.kind in "iu" else dtype)
        labels = [self.columns[i].label for i in chosen]
        if self.container == "pandas" and not any(self.columns[i].is_nominal for i in chosen):
            singles = {str(self.columns[i].dtype) == "float32" for i in chosen}
            if len(singles) == 1:
                block = matrix[:, list(chosen)]
                block = block.astype(np.float32 if singles == {True} else np.float64, copy=False)
                return pd.DataFrame(block, columns=pd.Index(labels), copy=False)
        made = [self._cells(self.columns[i], matrix[:, i]) for i in chosen]
        if self.container == "pandas":
            # by position first: labels may be anything that can be hashed
            columns = {
                i: pd.Series(cells, dtype=cells.dtype, copy=False) for i, cells in enumerate(made)
            }
            frame = pd.DataFrame(columns, copy=False)
            return frame.set_axis(pd.Index(labels), axis=1)
        if self.container == "polars":
            import polars

            return polars.DataFrame([s.alias(n) for s, n in zip(made, labels, strict=True)])
        if self.container == "arrow":
            import pyarrow as pa

            return pa.table(made, names=labels)
        out = np.empty((len(matrix), len(made)), dtype=object)
        for i, cells in enumerate(made):
            out[:, i] = cells
        return out

    def positions(self, column: Column, numbers: np.ndarray) -> np.ndarray:
        """Return the position of each level in the vocabulary, intp [r]; missing is the last + 1.

        Raises:
            DataError: a number that stands for no level.
        """
        missing = np.isnan(numbers)
        if column.is_coded:
            at = np.where(missing, len(column.levels), numbers).astype(np.intp)
            bad = (at < 0) | (at > len(column.levels)) | (~missing & (at != numbers))
        else:
            at = _index(column.levels).get_indexer(_index(numbers))
            at[missing] = len(column.levels)
            bad = at < 0
        if bad.any():
            raise DataError(
                f"column {column.name!r}: {float(numbers[bad][0])} stands for no known level; the "
                "codes of a nominal column can be replaced by others, but not averaged or faded"
            )
        return at

    def _cells(self, column: Column, numbers: np.ndarray) -> Any:
        if not column.is_nominal:
            return self._numbers(column, numbers)
        at = self.positions(column, numbers)
        if self.container == "pandas" and isinstance(column.dtype, pd.CategoricalDtype):
            return self._categorical(column, at)
        return self._dictionary(column, (at == len(column.levels)).any())(at)

    def _numbers(self, column: Column, numbers: np.ndarray) -> Any:
        if self.container == "polars":
            import polars

            return polars.Series(values=numbers.astype(np.float64), nan_to_null=True)
        if self.container == "arrow":
            import pyarrow as pa

            return pa.array(numbers.astype(np.float64), from_pandas=True)
        is_single = str(column.dtype) == "float32"
        return numbers.astype(np.float32 if is_single else np.float64)

    def _categorical(self, column: Column, at: np.ndarray) -> pd.Categorical:
        """Return levels as a pandas category whose list is the column's own, in its order."""
        own = column.dtype.categories
        words = values_of(pd.Series(own)).data if len(own) else column.levels[:0]
        is_new = ~np.isin(column.levels, words)
        if is_new.any():
            new = pd.Series(_plain(replace(column, levels=column.levels[is_new])))
            own = own.append(pd.Index(new.astype(own.dtype)))
            words = np.concatenate([words, column.levels[is_new]])
        code_of = np.append(_index(words).get_indexer(_index(column.levels)), -1)
        dtype = pd.CategoricalDtype(own, ordered=column.dtype.ordered)
        return pd.Categorical.from_codes(code_of[at], dtype=dtype)

    def _dictionary(self, column: Column, with_missing: bool):
        """Return a function from positions to cells of the column's type."""
        levels = _plain(column)
        if self.container == "polars":
            import polars

            cells = polars.Series(values=[*levels, None], dtype=column.dtype)
            return cells.gather
        if self.container == "arrow":
            import pyarrow as pa

            kind = column.dtype
            if pa.types.is_dictionary(kind):
                words = pa.array(levels, kind.value_type)
                last = len(levels)
                return lambda at: pa.DictionaryArray.from_arrays(
                    pa.array(at, kind.index_type, mask=at == last), words
                )
            return pa.array([*levels, None], kind).take
        dtype = column.dtype if self.container == "pandas" else np.dtype(object)
        if dtype == np.dtype(object):
            cells = np.empty(len(levels) + 1, dtype=object)
            cells[:] = [*levels, column.missing]
        elif isinstance(dtype, np.dtype) and dtype.kind == "b":
            if with_missing:
                raise DataError(f"column {column.name!r} of type {dtype} has no missing cells")
            cells = np.array(levels, dtype=dtype)
        elif isinstance(dtype, np.dtype) and dtype.kind in "iu":
            # as pandas has it: a column of whole numbers with a missing one is a column of floats
            is_whole = not with_missing and all(isinstance(level, int) for level in levels)
            cells = np.array([*levels, np.nan])
            cells = cells[:-1].astype(dtype) if is_whole else cells
        else:
            cells = pd.Series([*levels, None]).astype(dtype).array
        return cells.take


def _is_numeric_array(table: Table) -> bool:
    return table.container == "numpy" and table.dtypes[0].kind in "biuf"


def _levels(kind: str, values: Values, dtype: Any, first: Values | None) -> np.ndarray:
    """Return the vocabulary: the levels known first, then those of the rows, sorted."""
    if first is None and kind == "boolean":
        return np.array([0.0, 1.0])
    if first is None and isinstance(dtype, pd.CategoricalDtype) and len(dtype.categories):
        first = values_of(pd.Series(dtype.categories))
    own = values.data[~values.missing]
    own = np.unique(own) if len(own) else _absent(kind, 0)
    return own if first is None else np.concatenate([first.data, own[~np.isin(own, first.data)]])


def _plain(column: Column) -> list[Any]:
    """Return the levels as Python values of their own kind."""
    if column.kind == "boolean":
        return [bool(level) for level in column.levels]
    if column.kind == "number":
        is_whole = all(float(level).is_integer() for level in column.levels)
        return [int(level) if is_whole else float(level) for level in column.levels]
    if column.kind in ("time", "instant"):
        zone = "UTC" if column.kind == "instant" else None
        return [pd.Timestamp(level, tz=zone) for level in column.levels]
    return list(column.levels)


def _missing_marker(column: pd.Series) -> Any:
    if column.dtype == object:
        cells = column.to_numpy()
        if len(absent := cells[pd.isna(cells)]):
            return absent[0]
    return np.nan


# ---- hash -----------------------------------------------------------------------------------


def content_hash(rows: Any) -> str:
    """Return 64 hexadecimal digits naming the content of a table.

    Equal values in equal order under equal column names give equal digits, whatever the container,
    file format or dtype: 1 and 1.0, -0.0 and 0.0, a category and its text, all kinds of missing,
    are alike. A truth value is not a number, a text not the number it spells. The index is not part
    of the content.

    It is the SHA-256 of: ``cfc table 1`` and a newline; the numbers of rows and columns; then for
    each column the length of its name in UTF-8, the name, one letter and the cells. Lengths, counts
    and positions are little-endian int64, numbers little-endian float64.

    - ``m``: no cell is present; nothing follows.
    - ``n`` numbers: each cell, NaN (quiet, positive, no payload) for a missing one.
    - ``b`` truth values: one byte a cell, 0, 1, or 2 for a missing one.
    - ``s`` text: the number of distinct texts; each in code point order with its length before it,
      in UTF-8; then each cell's position among them, -1 for a missing one.
    - ``t`` dates, ``z`` moments with a time zone: seconds since 1970-01-01 (in UTC) of each cell,
      -2**63 for a missing one; then the nanoseconds beyond of each, 0 for a missing one.

    Args:
        rows: any container `as_frame` accepts.

    Raises:
        DataError: unusable columns, all at once.
    """
    table = as_frame(rows, where="table")
    digest = hashlib.sha256(b"cfc table 1\n")
    digest.update(_integers([len(table), table.frame.shape[1]]))
    for name, values in table_values(table, where="table").items():
        text = _utf8(name)
        digest.update(_integers([len(text)]) + text)
        for part in _cell_bytes(values):
            digest.update(part)
    return digest.hexdigest()


def _cell_bytes(values: Values) -> Iterable[bytes]:
    data, missing = values.data, values.missing
    if values.kind == "missing":
        yield b"m"
    elif values.kind == "number":
        yield b"n"
        yield np.where(missing, np.nan, data + 0.0).astype("<f8").tobytes()
    elif values.kind == "boolean":
        yield b"b"
        yield np.where(missing, 2.0, data).astype(np.uint8).tobytes()
    elif values.kind == "text":
        yield b"s"
        codes, levels = pd.factorize(data)
        order = sorted(range(len(levels)), key=levels.__getitem__)
        yield _integers([len(order)])
        for at in order:
            text = _utf8(levels[at])
            yield _integers([len(text)]) + text
        rank = np.empty(len(order) + 1, dtype=np.int64)
        rank[order] = np.arange(len(order))
        rank[-1] = -1
        yield _integers(rank[codes])
    else:
        yield b"t" if values.kind == "time" else b"z"
        seconds = data.astype("datetime64[s]")
        beyond = (data - seconds).astype("timedelta64[ns]").astype(np.int64)
        yield _integers(seconds.astype(np.int64))
        yield _integers(np.where(missing, 0, beyond))


def _integers(numbers: Any) -> bytes:
    return np.asarray(numbers, dtype="<i8").tobytes()


def _utf8(text: str) -> bytes:
    return str(text).encode("utf-8", "surrogatepass")
