"""A model of the user's as the engines want it: a matrix in, class probabilities out.

`target_of` takes every accepted kind of model, checks that it is what it should be, and says what
each coordinate of its matrix is. In the transformed space of a Pipeline the matrix is what the last
step sees; in the space of raw columns it holds numbers as they are and levels as codes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from cfc.auditing.engines import Engine, checked, engine_of, python_labels
from cfc.auditing.model_files import load_model_file
from cfc.auditing.model_hash import model_hash
from cfc.auditing.probing import quietly
from cfc.auditing.tables import (
    ColumnCodec,
    Table,
    Unseen,
    align,
    as_frame,
    check_names,
    row_count,
    values_of,
)
from cfc.baselines import Coordinate
from cfc.errors import CfcError, ConfigError, DataError, ModelError, ProblemList, nearest

__all__ = ["Probe", "Target", "load_model_file", "probe", "target_of"]

SPACES = ("transformed", "columns")
_SAMPLE_ROWS = 256
_TRACED_ROWS = 1024
_TRIED_ROWS = 4


@dataclass(frozen=True)
class Target:
    """A fitted model, asked with a matrix.

    Attributes:
        predict: matrix [r, d] of ``dtype`` -> probabilities [r, C], columns as ``classes``.
        encode: rows in any accepted container -> matrix [n, d], C order. Raises `DataError` naming
            every misfit column, every level the model does not know, and every column with missing
            cells the model does not take. With ``unseen="mark"`` cells with unknown levels become
            `cfc.auditing.tables.UNSEEN` instead: such a matrix row must not be asked for.
        unseen: rows -> their levels that the model does not know; in the transformed space it is
            the background that does not know them, as a Pipeline has its own rules for them.
        decode: matrix -> rows as the model is given them, where space is ``columns``; None else.
        transform: rows -> matrix [n, d] of a Pipeline's steps, missing cells allowed everywhere;
            None if ``encode`` suffices.
        columns: raw columns the user has to give, in order.
        coordinates: what each column of the matrix is, length d.
        origins: raw columns each coordinate depends on, length d; several where a step of a
            Pipeline mixes columns, none for a constant.
        column_kinds: raw column -> ``numeric`` or ``nominal``.
        levels: raw nominal column -> its known levels as text, in code order.
        classes: original labels in column order of ``predict`` (str, int, bool or float).
        dtype: dtype of the matrix: ``float32`` where the model itself casts to it or is given
            nothing else, otherwise ``float64``.
        space: ``transformed``, ``columns`` or ``matrix``.
        kind: ``sklearn``, ``xgboost``, ``lightgbm``, ``catboost``, ``torch``, ``cfc`` or
            ``callable``.
        takes_missing: where NaN is a legal value of a coordinate, bool [d].
        is_exact: a row's answer is the same bytes whatever its batch; then ``predict`` also gives
            the bytes of the model's own ``predict_proba``.
        n_trees: of a forest whose probabilities are votes, else None.
        model_hash: 64 hexadecimal digits of what the model learned; None where it cannot be told.
        notes: what was assumed, in sentences for people.
    """

    predict: Callable[[np.ndarray], np.ndarray]
    encode: Callable[..., np.ndarray]
    unseen: Callable[[Any], Unseen]
    decode: Callable[[np.ndarray], Any] | None
    transform: Callable[[pd.DataFrame], np.ndarray] | None
    columns: tuple[str, ...]
    coordinates: tuple[Coordinate, ...]
    origins: tuple[tuple[str, ...], ...]
    column_kinds: Mapping[str, str]
    levels: Mapping[str, Sequence[str]]
    classes: tuple
    dtype: str
    space: str
    kind: str
    takes_missing: np.ndarray
    is_exact: bool
    n_trees: int | None
    model_hash: str | None
    notes: tuple[str, ...] = ()


def target_of(
    model: Any,
    *,
    background: Any,
    rows: Any = None,
    classes: Sequence[Any] | None = None,
    space: str | None = None,
    output: str | None = None,
    nominal: Iterable[str] = (),
    ignore_extra: bool = False,
) -> Target:
    """Return a fitted model as a `Target`.

    Args:
        model: a scikit-learn classifier or Pipeline (or a search that found one); an XGBoost,
            LightGBM or CatBoost classifier or booster, native categoricals included; a torch
            module; a `cfc.models.Model`; or a function from rows, in the container the background
            has, to probabilities.
        background: training rows. They tell column types and levels; None only for a model on a
            matrix of numbers.
        rows: rows to be audited; stand in for the background where there is none.
        classes: labels in the order of the model's columns. For a model that knows its labels they
            must be those, in that order; default 0..C-1 for one that does not.
        space: for a Pipeline: ``transformed`` (default: coordinates are what its last step sees) or
            ``columns`` (raw columns; the preprocessor is part of the model).
        output: what a torch module gives: ``logits``, ``probabilities``, or ``logit`` (one number).
        nominal: numeric columns to treat as nominal: they can be replaced, not averaged.
        ignore_extra: leave out columns the model does not know instead of refusing them.

    Raises:
        ModelError: the model is not fitted, is no classifier with probabilities, its answers are
            none, or ``classes`` are not its labels.
        DataError: the background does not fit the model.
        ConfigError: unknown ``space``.
    """
    if space not in (None, *SPACES):
        raise ConfigError(f"space={space!r} is unknown; {nearest(space, SPACES)}")
    steps, last = _split(model)
    engine = engine_of(last, output)
    if steps is None and space == "transformed":
        raise ConfigError(
            "space='transformed' is for a Pipeline with steps before its model; this model is "
            "asked with its columns as they are"
        )
    given = _Given(background, rows, tuple(nominal), ignore_extra)
    if steps is None:
        asked = _of_columns(engine, given)
    else:
        source = _Source.of(steps, given)
        make = _of_raw_columns if space == "columns" else _of_transformed
        asked = make(steps, engine, source)
    return _finished(asked, engine, model, classes)


def _split(model: Any) -> tuple[Any, Any]:
    """Return the steps before the model that predicts, or None, and that model."""
    if all(cls.__module__.partition(".")[0] != "sklearn" for cls in type(model).__mro__):
        return None, model
    from sklearn.model_selection._search import BaseSearchCV

    from cfc.auditing.tracing import check_fitted, split_pipeline

    check_fitted(model)
    if isinstance(model, BaseSearchCV):
        if not hasattr(model, "best_estimator_"):
            raise ModelError(
                "the search kept no model (refit=False); give the model itself, fitted"
            )
        return _split(model.best_estimator_)
    return split_pipeline(model)


@dataclass(frozen=True)
class _Given:
    """What the user gave beside the model."""

    background: Any
    rows: Any
    nominal: tuple[str, ...]
    ignore_extra: bool

    @property
    def first(self) -> Any:
        """Rows that tell what columns hold: the background, else the rows to audit, else None."""
        return self.rows if self.background is None else self.background

    @property
    def where(self) -> str:
        """What to call them in errors."""
        return "X" if self.background is None and self.rows is not None else "background"

    def table(self, names: Sequence[str] | None, n_features: int | None) -> Table:
        """Return them as a table, checked to have the columns of the model.

        Args:
            names: columns the model was fitted on, None if it was fitted on arrays.
            n_features: how many, None if not known.
        """
        rows = self.first
        if rows is None:
            if n_features is None:
                raise DataError(
                    "background: the columns of this model cannot be known without rows; give "
                    "background= (the rows to audit themselves if there are no others)"
                )
            rows = np.zeros((1, n_features))
        table = as_frame(rows, names, where=self.where)
        if names is None and n_features not in (None, table.frame.shape[1]):
            raise DataError(
                f"{self.where}: there are {table.frame.shape[1]} columns, but the model was fitted "
                f"on {n_features}"
            )
        return table

    def more(self, table: Table) -> Table | None:
        """Return the rows to audit as a table, where they were given beside a background."""
        if self.background is None or self.rows is None:
            return None
        return as_frame(self.rows, list(table.frame.columns), where="X")


@dataclass(frozen=True)
class _Asked:
    """A model that can be asked with a matrix, before that is tried.

    Attributes:
        codec: of the raw columns.
        to_matrix: rows -> matrix, where it is not the codec that makes it.
        sample: rows of the matrix, which the model should take.
        others: see `Target`.
    """

    given: _Given
    codec: ColumnCodec
    coordinates: tuple[Coordinate, ...]
    predict: Callable[[np.ndarray], np.ndarray]
    sample: np.ndarray
    dtype: str
    space: str
    is_exact: bool
    allowed: Mapping[str, Any]
    to_matrix: Callable[[Any], np.ndarray] | None = None
    origins: tuple[tuple[str, ...], ...] | None = None
    notes: tuple[str, ...] = ()


# ---- a model on columns -----------------------------------------------------------------------


def _of_columns(engine: Engine, given: _Given) -> _Asked:
    names = _as_spelt(engine.names, given.first)
    table = given.table(names, engine.n_features)
    names = list(table.frame.columns) if names is None else names
    allowed = {"ignore_extra": given.ignore_extra}
    check_names(table, names, where=given.where, **allowed)
    known = _known_levels(engine, table, names, given.where)
    uncoded = set(names) - set(known) if engine.takes == "array" else ()
    codec = ColumnCodec.of(
        table if engine.kind == "callable" else _pandas_or_numpy(table, engine.takes == "table"),
        names,
        known=known,
        nominal=[*given.nominal, *(names[i] for i in engine.codes if names[i] not in known)],
        uncoded=uncoded,
        more=given.more(table),
        where=given.where,
    )
    if engine.takes == "array":
        ProblemList(
            f"column {c.name!r} holds {'text' if c.kind == 'text' else 'dates'}, but the model was "
            "fitted on numbers; encode it as in training, or audit the Pipeline that does"
            for c in codec.columns
            if c.name in uncoded and c.kind not in ("number", "boolean")
        ).raise_if_any(DataError, given.where)
    if engine.kind == "catboost" and engine.takes == "table":
        codec = _with_categories(codec)
    is_matrix = codec.container == "numpy" and codec.columns[0].dtype.kind in "biuf"
    is_as_given = is_matrix and codec.columns[0].dtype.kind != "b" and engine.kind == "callable"
    is_decoded = engine.takes == "table" and not is_as_given
    is_single = all(str(column.dtype) == "float32" for column in codec.columns)
    dtype = "float32" if is_single else engine.dtype  # single precision is what the model gets
    sample, _ = codec.encode(_head(table), where=given.where, **allowed)
    return _Asked(
        given=given,
        codec=codec,
        coordinates=_column_coordinates(codec),
        predict=(lambda matrix: engine.ask(codec.decode(matrix))) if is_decoded else engine.ask,
        sample=sample.astype(dtype),
        dtype=dtype,
        space="matrix" if is_matrix else "columns",
        is_exact=engine.is_exact,
        allowed=allowed,
    )


def _as_spelt(names: Sequence[str] | None, rows: Any) -> list[str] | None:
    """Return the model's column names as the rows spell them: LightGBM puts _ for a blank."""
    if names is None:
        return None
    own = [str(c) for c in getattr(rows, "column_names", getattr(rows, "columns", ()))]
    spelt = {name.replace(" ", "_"): name for name in own}
    return [name if name in own else spelt.get(name, name) for name in names]


def _known_levels(
    engine: Engine, table: Table, names: Sequence[str], where: str
) -> dict[str, Sequence[Any]]:
    """Return the levels of native categoricals whose codes the model is asked with."""
    known, problems = {}, ProblemList()
    codes = {**engine.codes, **_listed_categories(engine, table, names, where)}
    for i, levels in codes.items():
        column = table.frame.get(names[i])
        if engine.takes == "table" or column is None:
            continue
        if levels is None and isinstance(column.dtype, pd.CategoricalDtype):
            levels = list(column.dtype.categories)
        if levels is not None:
            known[names[i]] = levels
        elif not pd.api.types.is_numeric_dtype(column.dtype):
            problems.append(
                f"column {names[i]!r} is categorical in the model, which does not say in which "
                "order; give it as a pandas category, as in training"
            )
    problems.raise_if_any(DataError, where)
    return known


def _listed_categories(
    engine: Engine, table: Table, names: Sequence[str], where: str
) -> dict[int, Sequence[Any]]:
    """Return position -> levels where a model lists levels without saying of which columns.

    They are those of the columns that were pandas categories in training; where the rows hold them
    otherwise (as text, say), those the model splits by category, if their number is right.
    """
    lists = engine.category_lists
    if not lists:
        return {}
    dtypes = [table.frame[name].dtype for name in names]
    at = [i for i, dtype in enumerate(dtypes) if isinstance(dtype, pd.CategoricalDtype)]
    if len(at) != len(lists):
        at = sorted(engine.codes)
    if len(at) != len(lists):
        raise DataError(
            f"{where}: the model was fitted with {len(lists)} columns of pandas categories and "
            "does not say which; give them as categories, as in training"
        )
    return dict(zip(at, lists, strict=True))


def _pandas_or_numpy(table: Table, is_named: bool) -> Table:
    """Return a polars or Arrow table as pandas with NumPy's types.

    Args:
        table: the rows.
        is_named: the model looks columns up by name, which an array does not have.
    """
    if table.container == "numpy" and is_named:
        return as_frame(table.frame)
    if table.container in ("pandas", "numpy"):
        return table
    import pyarrow as pa

    return as_frame(pa.Table.from_pandas(table.frame, preserve_index=False).to_pandas())


def _with_categories(codec: ColumnCodec) -> ColumnCodec:
    """Return a codec that gives levels as pandas categories, which CatBoost reads fastest."""
    columns = []
    for column in codec.columns:
        if not column.is_nominal:
            column = replace(column, dtype=np.dtype(np.float32))  # it casts to that itself
        elif column.kind in ("text", "number"):
            levels = pd.Index(column.levels, dtype=object if column.kind == "text" else int)
            column = replace(column, dtype=pd.CategoricalDtype(levels))
        columns.append(column)
    return ColumnCodec(columns, "pandas")


def _column_coordinates(codec: ColumnCodec) -> tuple[Coordinate, ...]:
    return tuple(
        Coordinate(f"f{i:04d}", column.name, "code" if column.is_nominal else "value")
        for i, column in enumerate(codec.columns)
    )


# ---- a Pipeline -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """The raw columns of a Pipeline.

    Attributes:
        names: columns it was fitted on.
        codec: of those it uses; its rows are what the steps accept.
        table: rows that tell what columns hold.
    """

    given: _Given
    names: list[str]
    codec: ColumnCodec
    table: Table
    notes: tuple[str, ...]

    @classmethod
    def of(cls, steps: Any, given: _Given) -> "_Source":
        from cfc.auditing.raw_columns import encoded_levels, used_positions

        if given.first is None:
            raise DataError(
                "background: what the raw columns of a Pipeline hold cannot be known without rows; "
                "give background="
            )
        names = getattr(steps, "feature_names_in_", None)
        n = getattr(steps, "n_features_in_", None)
        table = given.table(None if names is None else [str(name) for name in names], n)
        names = list(table.frame.columns) if names is None else [str(name) for name in names]
        used = [names[i] for i in used_positions(steps, len(names))]
        allowed = {"unused": names, "ignore_extra": given.ignore_extra}
        check_names(table, used, where=given.where, **allowed)
        levels = {names[i]: known for i, known in encoded_levels(steps, len(names)).items()}
        failure: Exception | None = None
        is_named = hasattr(steps, "feature_names_in_")
        for rows in _containers(table, is_named):
            codec = ColumnCodec.of(
                rows,
                used,
                known=_usable(levels, rows),
                nominal=[*given.nominal, *(name for name in levels if name in used)],
                more=given.more(table),
                where=given.where,
            )
            source = cls(given, names, codec, rows, _nominal_notes(codec, levels))
            try:
                source.ask(steps, source.sample(_SAMPLE_ROWS))
                return source
            except Exception as error:  # a step of the user's may raise anything
                failure = failure or error
        raise ModelError(
            f"the Pipeline's steps fail on rows of the {given.where}: {_first_line(failure)}"
        ) from failure

    @property
    def allowed(self) -> dict[str, Any]:
        """What else rows may have, as `align` takes it."""
        return {"unused": self.names, "ignore_extra": self.given.ignore_extra}

    def sample(self, n: int) -> np.ndarray:
        """Return the codes of some rows, float64 [n, columns used]."""
        return self.codec.encode(_head(self.table, n), where=self.given.where, **self.allowed)[0]

    def ask(self, steps: Any, codes: np.ndarray) -> Any:
        """Return what steps make of rows of codes."""
        return quietly(steps.transform, self.codec.decode(codes))

    def restore(self, rows: Any, where: str = "X") -> Any:
        """Return rows of any container as the steps were fitted on, unknown levels included.

        Rows that are held as the background is are left as they are.
        """
        table = as_frame(rows, self.names, where=where)
        values = align(table, self.codec.kinds, where=where, **self.allowed)
        names = [column.name for column in self.codec.columns]
        at = {name: i for i, name in enumerate(table.frame.columns)}
        own = [table.dtypes[at[name]] for name in names]
        is_alike = table.container == self.codec.container and all(
            dtype == column.dtype for dtype, column in zip(own, self.codec.columns, strict=True)
        )
        if is_alike and table.container == "pandas":
            labels = [column.label for column in self.codec.columns]
            return table.frame[names].set_axis(pd.Index(labels), axis=1)
        if is_alike and table.container == "numpy" and isinstance(rows, np.ndarray):
            return rows
        if is_alike and table.container == "polars" and hasattr(rows, "select"):
            return rows.select(names)
        codec = self.codec.extended(values)
        made = codec.decode(codec.encode_values(values, where=where)[0])
        return _with_whole_numbers(made, codec) if codec.container == "pandas" else made


def _containers(table: Table, is_named: bool) -> list[Table]:
    """Return the ways to hold a table in which scikit-learn may have been given it."""
    plain = _pandas_or_numpy(table, is_named)
    return [table, plain] if table.container == "polars" else [plain]


def _usable(levels: Mapping[str, list | None], table: Table) -> dict[str, list]:
    """Return the levels that are of the kind their column holds."""
    found = {}
    for name, known in levels.items():
        if known and name in table.frame.columns:
            with suppress(DataError):  # what the column holds is looked at elsewhere
                column = values_of(table.frame[name].dropna().iloc[:_TRACED_ROWS])
                if values_of(pd.Series(known, dtype=object)).kind == column.kind:
                    found[name] = known
    return found


def _nominal_notes(codec: ColumnCodec, levels: Mapping[str, Any]) -> tuple[str, ...]:
    names = [c.name for c in codec.columns if c.kind == "number" and c.name in levels]
    if not names:
        return ()
    listed = ", ".join(map(repr, names))
    return (f"the numbers of {listed} are encoded as levels, so they are taken as nominal",)


def _with_whole_numbers(frame: pd.DataFrame, codec: ColumnCodec) -> pd.DataFrame:
    """Return decoded rows with numbers in the dtype the background has, where they fit it."""
    made = {}
    for i, column in enumerate(codec.columns):
        cells = frame.iloc[:, i]
        if not column.is_nominal and column.dtype != cells.dtype:
            is_whole = (cells.dropna() % 1 == 0).all()
            with suppress(ValueError, TypeError):  # missing cells have no whole number
                if is_whole or column.dtype.kind not in "iu":
                    cells = cells.astype(column.dtype)
        made[i] = cells
    return pd.DataFrame(made).set_axis(frame.columns, axis=1)


def _head(table: Table, n: int = _SAMPLE_ROWS) -> Table:
    """Return rows spread over a table, at most n."""
    at = np.unique(np.linspace(0, len(table) - 1, min(n, len(table))).astype(int))
    frame = table.frame.iloc[at].reset_index(drop=True)
    return replace(table, frame=frame, index=table.index[at])


def _of_raw_columns(steps: Any, engine: Engine, source: _Source) -> _Asked:
    from cfc.auditing.raw_columns import Preprocessor, is_rowwise

    sample = source.sample(_SAMPLE_ROWS)
    preprocess = Preprocessor(steps, source.names, source.codec, sample)
    ask = _last_step(engine, source.ask(steps, sample[:1]))
    return _Asked(
        given=source.given,
        codec=source.codec,
        coordinates=_column_coordinates(source.codec),
        predict=lambda matrix: ask(preprocess(matrix)),
        sample=sample,
        dtype="float64",
        space="columns",
        is_exact=engine.is_exact and is_rowwise(steps),
        allowed=source.allowed,
        notes=source.notes,
    )


def _of_transformed(steps: Any, engine: Engine, source: _Source) -> _Asked:
    from cfc.auditing.tracing import trace, transform_dense

    example = source.ask(steps, source.sample(1))
    dtype = _last_dtype(engine, example)

    def to_matrix(rows: Any) -> np.ndarray:
        return transform_dense(steps, source.restore(rows), dtype)

    rows = source.codec.decode(source.sample(_TRACED_ROWS))
    if isinstance(rows, pd.DataFrame):
        names = [column.name for column in source.codec.columns]
        rows = rows.set_axis(names, axis=1).reindex(columns=source.names)
    elif not isinstance(rows, np.ndarray):
        rows = rows.to_pandas()
    nominal = [name for name in source.given.nominal if name in source.names]
    traced = trace(steps, source.names, rows, nominal=nominal)
    return _Asked(
        given=source.given,
        codec=source.codec,
        coordinates=tuple(traced.coordinates()),
        origins=tuple(output.columns for output in traced.outputs),
        predict=_last_step(engine, example),
        sample=to_matrix(_head(source.table)),
        dtype=dtype,
        space="transformed",
        is_exact=engine.is_exact,
        allowed=source.allowed,
        to_matrix=to_matrix,
        notes=traced.notes,
    )


def _last_dtype(engine: Engine, example: Any) -> str:
    """Return the dtype of what the last step sees, see `_last_step`."""
    dtypes = list(example.dtypes) if hasattr(example, "dtypes") else [example.dtype]
    is_single = engine.dtype == "float32" or all(dtype == np.float32 for dtype in dtypes)
    return "float32" if is_single else "float64"


def _last_step(engine: Engine, example: Any) -> Callable[[Any], np.ndarray]:
    """Return what asks the last step of a Pipeline.

    Args:
        engine: of the last step.
        example: what the steps before it give: an array, a sparse matrix or a frame.
    """
    is_sparse = sparse.issparse(example)
    labels = example.columns if isinstance(example, pd.DataFrame) else None
    dtype = _last_dtype(engine, example)

    def ask(rows: Any) -> np.ndarray:
        if is_sparse and engine.takes_sparse:
            return engine.ask(sparse.csr_matrix(rows))
        rows = rows.toarray() if sparse.issparse(rows) else rows
        if engine.takes == "table":
            if labels is not None and not isinstance(rows, pd.DataFrame):
                rows = pd.DataFrame(rows, columns=labels, copy=False)
            return engine.ask(rows)
        rows = np.ascontiguousarray(rows, dtype=dtype)
        if is_sparse and engine.kind == "xgboost":
            # in a sparse matrix a zero is a cell left out, which XGBoost takes as missing
            rows = np.where(rows == 0, np.float32(np.nan), rows)
        return engine.ask(rows)

    return ask


# ---- what all have in common ------------------------------------------------------------------


def _finished(asked: _Asked, engine: Engine, model: Any, classes: Sequence[Any] | None) -> Target:
    """Try the model and return the target."""
    where = asked.given.where
    sample = _without_missing(asked.sample, asked.coordinates)
    try:
        proba = checked(quietly(asked.predict, sample), len(sample))
    except CfcError:
        raise
    except Exception as error:  # a model of the user's may raise anything
        raise ModelError(f"the model fails on rows of the {where}: {_first_line(error)}") from error
    takes_missing = _takes_missing(asked.predict, sample[:_TRIED_ROWS])
    codec, allowed, fields = asked.codec, asked.allowed, [c.field for c in asked.coordinates]

    def unseen(rows: Any) -> Unseen:
        return codec.encode(rows, **allowed)[1]

    def encode(rows: Any, *, unseen: str = "error") -> np.ndarray:
        if asked.to_matrix is not None:
            matrix = asked.to_matrix(rows)
        else:
            matrix, strange = codec.encode(rows, **allowed)
            if unseen != "mark":
                ProblemList(strange.problems()).raise_if_any(DataError, "X")
        ProblemList(
            f"column {name!r} gives infinity {_where(of)}"
            for name, of in _by_field(np.isinf(matrix), fields).items()
        ).raise_if_any(DataError, "X")
        missing = np.isnan(matrix) & ~takes_missing
        ProblemList(
            f"column {name!r} is missing {_where(of)}, and the model takes no missing value there"
            for name, of in _by_field(missing, fields).items()
        ).raise_if_any(DataError, "X")
        return np.ascontiguousarray(matrix, dtype=asked.dtype)

    return Target(
        predict=asked.predict,
        encode=encode,
        unseen=unseen,
        decode=codec.decode if asked.space == "columns" else None,
        transform=asked.to_matrix,
        columns=tuple(column.name for column in codec.columns),
        coordinates=asked.coordinates,
        origins=asked.origins or tuple((field,) for field in fields),
        column_kinds={c.name: "nominal" if c.is_nominal else "numeric" for c in codec.columns},
        levels={c.name: c.texts() for c in codec.columns if c.is_nominal},
        classes=_settled_classes(engine, classes, proba.shape[1]),
        dtype=asked.dtype,
        space=asked.space,
        kind=engine.kind,
        takes_missing=takes_missing,
        is_exact=asked.is_exact,
        n_trees=engine.n_trees,
        model_hash=None if engine.kind == "callable" else model_hash(model),
        notes=asked.notes,
    )


def _where(rows: np.ndarray) -> str:
    return f"in {row_count(rows.sum())} (first: row {int(rows.argmax())})"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _without_missing(sample: np.ndarray, coordinates: Sequence[Coordinate]) -> np.ndarray:
    """Return rows in which a cell that occurs in the sample stands for every missing one."""
    sample = sample.copy()
    for column, coordinate in zip(sample.T, coordinates, strict=True):
        missing = np.isnan(column)
        if not missing.all():
            column[missing] = column[~missing][:1]
        elif coordinate.kind != "code":  # a column of no known level has nothing else to hold
            column[:] = 0.0
    return sample


def _takes_missing(predict: Callable, rows: np.ndarray) -> np.ndarray:
    """Return the coordinates that may be NaN, found by trying: all at once, then one by one."""

    def accepts(index: Any) -> bool:
        tried = rows.copy()
        tried[:, index] = np.nan
        try:
            checked(quietly(predict, tried), len(tried))
        except Exception:  # whatever it raises, it does not take it
            return False
        return True

    d = rows.shape[1]
    if accepts(slice(None)):
        return np.ones(d, dtype=bool)
    return np.array([accepts(i) for i in range(d)])


def _by_field(bad: np.ndarray, fields: Sequence[str]) -> dict[str, np.ndarray]:
    """Return raw column -> bad rows, for columns that have any."""
    found: dict[str, np.ndarray] = {}
    for i in np.flatnonzero(bad.any(axis=0)):
        found[fields[i]] = found.get(fields[i], False) | bad[:, i]
    return found


def _settled_classes(engine: Engine, given: Sequence[Any] | None, n: int) -> tuple:
    """Return the labels of a model's columns.

    Raises:
        ModelError: the given ones are not the model's, in its order.
    """
    known = engine.classes
    if known is not None and len(known) != n:
        raise ModelError(f"the model answers with {n} classes but knows {len(known)}: {known}")
    if given is None:
        return known if known is not None else tuple(range(n))
    labels = python_labels(given)
    if len(labels) != n or len(set(labels)) != n:
        raise ModelError(f"classes: {list(labels)} must be {n} different labels, as the model has")
    if known is None or (engine.has_codes_for_classes and not set(labels) & set(known)):
        return labels
    if labels != known:
        raise ModelError(
            f"classes: {list(labels)} are not the model's labels in its order, {list(known)}; its "
            "columns are in that order, so leave classes out or give exactly these"
        )
    return known  # not the given ones: 1 and True are equal


# ---- repeat probe -----------------------------------------------------------------------------

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Probe:
    """What asking a model the same rows again showed.

    Attributes:
        repeat_difference: largest difference between two answers to the same call.
        batch_difference: largest difference between a row's answers in two batches.
        verdict: ``exact`` (same bytes throughout), ``rounding`` (differences up to 1e-6),
            ``batch-dependent`` or ``stochastic``.
        rows: rows asked.
    """

    repeat_difference: float
    batch_difference: float
    verdict: str
    rows: int

    def __str__(self) -> str:
        if self.verdict == "exact":
            return f"{self.rows} rows were answered alike when asked again, and in smaller batches"
        if self.verdict == "stochastic":
            return (
                f"the model changes its answer between calls: by up to {self.repeat_difference:.3g}"
                f" on {self.rows} rows. A certificate needs one answer: fix its random state, or "
                "put it into evaluation mode"
            )
        what = "rounds" if self.verdict == "rounding" else "answers"
        return (
            f"the model {what} a row differently in batches of other sizes: by up to "
            f"{max(self.batch_difference, self.repeat_difference):.3g} on {self.rows} rows"
        )


def probe(target: Target, rows: Any, *, n: int = 64) -> Probe:
    """Ask a model the same rows twice and in batches of another size.

    Args:
        target: the model.
        rows: a matrix of the target, or rows its ``encode`` takes.
        n: most rows to ask.
    """
    is_matrix = isinstance(rows, np.ndarray) and rows.shape[1:] == (len(target.coordinates),)
    matrix = rows if is_matrix and rows.dtype == target.dtype else target.encode(rows)
    matrix = np.ascontiguousarray(matrix[:n])
    first, second = target.predict(matrix), target.predict(matrix)
    size = max(1, len(matrix) // 3)
    parts = [target.predict(matrix[i : i + size]) for i in range(0, len(matrix), size)]
    doubled = target.predict(np.repeat(matrix, 2, axis=0))[::2]
    repeat = _largest(first, second)
    batch = max(_largest(first, np.concatenate(parts)), _largest(first, doubled))
    if repeat > _ROUNDING:
        verdict = "stochastic"
    elif batch > _ROUNDING:
        verdict = "batch-dependent"
    else:
        verdict = "rounding" if repeat or batch else "exact"
    return Probe(repeat, batch, verdict, len(matrix))


def _largest(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max())
