"""Which raw column each coordinate of a fitted scikit-learn preprocessor comes from.

The structure of the fitted transformers is followed from the raw columns to the last step; no
output name is ever read (``a`` = ``b_c`` and ``a_b`` = ``c`` both print as ``a_b_c``). A step whose
structure is not known (a function, a principal component, a class of the user's own) is probed: one
raw column at a time is changed to values that occur in sample rows, and the outputs that change
depend on it.
"""

import inspect
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from cfc.auditing.probing import ROWS, Sample, dense, holds_numbers, probe, quietly
from cfc.baselines import Coordinate
from cfc.errors import DataError, GroupError, ModelError, ProblemList, nearest
from cfc.groups import merge_redundant

MAX_BYTES = 2 * 2**30
CONSTANT = "(constant)"
_BINARY = ("level", "indicator")
_ELEMENTWISE = {
    "StandardScaler",
    "MinMaxScaler",
    "MaxAbsScaler",
    "RobustScaler",
    "PowerTransformer",
    "QuantileTransformer",
}
# up to 1.7 the strategy "constant" fills a column without any value instead of dropping it
_FILLS_EMPTY = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8)

Feed = Callable[[Any], Any]


@dataclass(frozen=True)
class Output:
    """One coordinate a transformer gives.

    Attributes:
        columns: raw columns it depends on, in raw order; none for a constant.
        kind: ``value``, ``level``, ``indicator`` or ``code``; see `cfc.baselines.Coordinate`.
        level: category, bin or state it stands for, as text; None for a value.
        is_missing: it stands for an absent value.
    """

    columns: tuple[str, ...]
    kind: str = "value"
    level: str | None = None
    is_missing: bool = False


@dataclass(frozen=True)
class Traced:
    """Origin of every coordinate of a fitted transformer.

    Attributes:
        columns: raw columns, in the order the transformer was fitted on.
        outputs: one a coordinate, in order.
        notes: what was probed or assumed, in sentences for people.
    """

    columns: tuple[str, ...]
    outputs: tuple[Output, ...]
    notes: tuple[str, ...] = ()

    @property
    def unused(self) -> tuple[str, ...]:
        """Raw columns that reach no coordinate, e.g. dropped ones."""
        used = {column for output in self.outputs for column in output.columns}
        return tuple(column for column in self.columns if column not in used)

    @property
    def constant(self) -> tuple[int, ...]:
        """Coordinates that depend on no raw column, e.g. the bias of polynomial features."""
        return tuple(i for i, output in enumerate(self.outputs) if not output.columns)

    def coordinates(self) -> list[Coordinate]:
        """Return what each coordinate is.

        The field of one that depends on several columns names them all, joined by `` + ``; that of
        one that depends on none is ``(constant)``.
        """
        return [
            Coordinate(
                f"f{i:04d}",
                " + ".join(output.columns) or CONSTANT,
                output.kind,
                output.level,
                output.is_missing,
            )
            for i, output in enumerate(self.outputs)
        ]

    def blocks(self, merge: str | None = None) -> dict[str, list[int]]:
        """Return the raw-origin groups: name -> coordinate indices, in raw order.

        Unused columns make no group and constant coordinates are in none.

        Args:
            merge: what to do with columns that share a coordinate: None refuses them, ``joined``
                makes one group of all that are connected, named ``a + b``.

        Raises:
            GroupError: columns share a coordinate, the name of a joined group is also that of
                another one, or ``merge`` is unknown.
        """
        if merge not in (None, "joined"):
            raise GroupError(f"merge={merge!r} is unknown; give None or 'joined'")
        unused = set(self.unused)
        reaching = [column for column in self.columns if column not in unused]
        linked = {(o.columns[0], other): 1.0 for o in self.outputs for other in o.columns[1:]}
        joined = merge_redundant(linked, reaching)
        lost = set(reaching).difference(*joined.values())
        if lost:
            raise GroupError(
                "columns that share a coordinate would make a group with the name of another "
                f"column: rename {_quoted(sorted(lost))}"
            )
        problems = ProblemList()
        groups: dict[str, list[int]] = {}
        for name, members in joined.items():
            index = [i for i, o in enumerate(self.outputs) if o.columns and o.columns[0] in members]
            groups[name] = index
            if len(members) > 1 and merge is None:
                shared = [i for i in index if len(self.outputs[i].columns) > 1]
                problems.append(
                    f"columns {_quoted(members)} cannot be separate groups: they share "
                    f"{len(shared)} coordinate{'s' * (len(shared) > 1)} of the transformed matrix "
                    f'({_shown(shared)}). Audit with space="columns", or give groups= in which '
                    "these columns are together"
                )
        problems.raise_if_any(GroupError, "raw columns as groups")
        return groups


def split_pipeline(model: Any) -> tuple[Pipeline | None, Any]:
    """Split a fitted Pipeline before its last step.

    A Pipeline that is the last step of a Pipeline is taken apart as well, a search is replaced by
    the best model it found, and steps that pass rows through unchanged are left out. A last step
    that wraps another model (calibration, voting, a search) stays as it is.

    Args:
        model: a fitted Pipeline, or any other model.

    Returns:
        the steps that transform, as a Pipeline of the same fitted objects, or None if there are
        none; the model that sees what they give.

    Raises:
        ModelError: the Pipeline has no model at its end.
    """
    best = getattr(model, "best_estimator_", None)
    model = best if isinstance(best, Pipeline) else model
    steps: list[tuple[str, Any]] = []
    prefix = ""
    while isinstance(model, Pipeline):
        steps += [(prefix + name, step) for name, step in model.steps[:-1]]
        prefix += f"{model.steps[-1][0]}."
        model = model.steps[-1][1]
    if model is None or isinstance(model, str):
        raise ModelError(
            f"the last step of the Pipeline, {prefix[:-1]!r}, is {model!r}: there is no model that "
            "could predict"
        )
    steps = _transforming(steps)
    if steps and _is_unfitted(steps[-1][1]):
        # a last step that keeps nothing fitted makes scikit-learn take the whole for unfitted
        steps.append(("as_it_is", FunctionTransformer()))
    return (Pipeline(steps) if steps else None), model


def check_fitted(model: Any) -> None:
    """Check that a transformer, a model, or every step of a composed one is fitted.

    Raises:
        ModelError: something is not; every such step is named.
    """
    ProblemList(_unfitted(model, "")).raise_if_any(
        ModelError, "the model is not fitted; call its fit on training rows first"
    )


def trace(
    transformer: Any,
    columns: Sequence[str],
    sample: pd.DataFrame | np.ndarray | None = None,
    *,
    nominal: Iterable[str] = (),
) -> Traced:
    """Trace every coordinate a fitted transformer gives to the raw columns it depends on.

    Args:
        transformer: fitted; a ColumnTransformer, Pipeline, FeatureUnion or any other transformer,
            None for no transformation.
        columns: names of the raw columns, in the order the transformer was fitted on.
        sample: rows the transformer accepts, a DataFrame with these columns or an array [n, c] in
            their order; training rows are best. They tell which columns do not hold numbers, and
            are what steps of unknown structure are probed with. Without them, every output of such
            a step depends on every input.
        nominal: numeric columns whose numbers are codes.

    Returns:
        the origin of each coordinate. A probed step can hide a dependence that shows only in values
        the sample does not have: its ``notes`` say what was probed.

    Raises:
        DataError: repeated names, or columns or sample rows that do not fit the transformer.
        ModelError: the transformer is not fitted, a step fails on sample rows, or the number of its
            outputs cannot be known without them.
    """
    columns = tuple(columns)
    nominal = set(nominal)
    check_fitted(transformer)
    _check_columns(transformer, columns, nominal)
    rows = None if sample is None else Sample(sample, columns)
    tracer = _Tracer(columns, rows)
    raw = [
        Output((name,), "value" if rows is None or holds_numbers(rows.column(i)) else "code")
        for i, name in enumerate(columns)
    ]
    raw = [replace(o, kind="code") if o.columns[0] in nominal else o for o in raw]
    width = None if rows is None else tracer.ask(transformer, rows.take(np.arange(1)), "").shape[1]
    outputs = tracer.follow(transformer, raw, lambda rows: rows, "", width)
    return Traced(columns, tuple(outputs), tuple(tracer.notes))


def transform_dense(
    preprocessor: Any, rows: Any, dtype: Any = np.float64, *, max_bytes: int = MAX_BYTES
) -> np.ndarray:
    """Return what a fitted preprocessor makes of rows, as one dense matrix.

    Args:
        preprocessor: fitted; None if the rows are the matrix already.
        rows: what it accepts, n rows.
        dtype: float dtype of the result.
        max_bytes: largest result allowed, default 2 GiB.

    Returns:
        [n, d], C order; NaN where the preprocessor leaves a value missing.

    Raises:
        DataError: the result would be larger than ``max_bytes``, or holds what is no number.
    """
    matrix = rows if preprocessor is None else preprocessor.transform(rows)
    size = math.prod(matrix.shape) * np.dtype(dtype).itemsize
    if size > max_bytes:
        n, d = matrix.shape
        raise DataError(
            f"{n} rows of {d} coordinates take {size / 2**30:.2f} GiB as a dense {np.dtype(dtype)} "
            f"matrix, more than {max_bytes / 2**30:.2f} GiB. Give fewer rows at a time, encode "
            "columns of many categories in fewer coordinates (max_categories, min_frequency), or "
            'audit with space="columns"'
        )
    if sparse.issparse(matrix):
        return matrix.astype(dtype, copy=False).toarray(order="C")
    matrix = dense(matrix)
    try:
        return np.ascontiguousarray(matrix, dtype=dtype)
    except (TypeError, ValueError):
        text = [i for i in range(matrix.shape[1]) if not _converts(matrix[:, i], dtype)]
        raise DataError(
            f"the preprocessor leaves what is no number in coordinate {_shown(text)} "
            f"(e.g. {matrix[0, text[0]]!r}): encode these columns in the preprocessor, or audit "
            'with space="columns"'
        ) from None


class _Tracer:
    """Follows columns through steps; the rows that probe them travel along as a function."""

    def __init__(self, columns: tuple[str, ...], sample: Sample | None):
        self.position = {name: i for i, name in enumerate(columns)}
        self.sample = sample
        self.notes: list[str] = []

    def follow(
        self, step: Any, inputs: list[Output], feed: Feed, path: str, width: int | None = None
    ) -> list[Output]:
        """Return what each output of a step is.

        Args:
            step: the fitted step, or the words scikit-learn has for none.
            inputs: what each column it is given is.
            feed: raw rows -> what the step is given.
            path: names of the steps around it, for messages.
            width: number of its outputs, where something knows it.
        """
        if _passes(step):
            return inputs
        if isinstance(step, str):  # "drop"
            return []
        structure = _structure(step)
        if structure and getattr(step, "n_features_in_", len(inputs)) == len(inputs):
            outputs = structure(self, step, inputs, feed, path, width)
            if outputs is not None and width in (None, len(outputs)):
                return outputs
        return self.unknown(step, inputs, feed, path, width)

    def after(self, feed: Feed, step: Any, path: str) -> Feed:
        """Return what the step after this one is given."""
        return lambda rows: self.answer(step, feed(rows), path)

    def union(self, outputs: Iterable[Output]) -> tuple[str, ...]:
        """Return all columns the outputs depend on, in raw order."""
        return tuple(sorted({c for o in outputs for c in o.columns}, key=self.position.__getitem__))

    # --- composed steps ---

    def pipeline(self, step, inputs, feed, path, width) -> list[Output]:
        steps = _transforming(step.steps)
        widths = [getattr(following, "n_features_in_", None) for _, following in steps[1:]]
        for (name, inner), out in zip(steps, [*widths, width], strict=False):
            inner_path = _joined(path, name)
            inputs = self.follow(inner, inputs, feed, inner_path, out)
            feed = self.after(feed, inner, inner_path)
        return inputs

    def column_transformer(self, step, inputs, feed, path, width) -> list[Output]:
        weights = step.transformer_weights or {}
        outputs = []
        for name, inner, chosen in step.transformers_:  # in the order of the outputs
            at = chosen_positions(chosen, step)
            if len(at):
                where = step.output_indices_[name]
                part = self.follow(
                    inner,
                    [inputs[i] for i in at],
                    _picking(feed, at[0] if np.isscalar(chosen) else at),
                    _joined(path, name),
                    where.stop - where.start,
                )
                outputs += _weighted(part, weights.get(name))
        return outputs

    def feature_union(self, step, inputs, feed, path, width) -> list[Output]:
        weights = step.transformer_weights or {}
        return [
            output
            for name, inner in step.transformer_list
            for output in _weighted(
                self.follow(inner, inputs, feed, _joined(path, name)), weights.get(name)
            )
        ]

    def frozen(self, step, inputs, feed, path, width) -> list[Output]:
        return self.follow(step.estimator, inputs, feed, path, width)

    # --- steps whose outputs each come from one input ---

    def function(self, step, inputs, feed, path, width) -> list[Output] | None:
        return inputs if step.func is None else None

    def selector(self, step, inputs, *_) -> list[Output]:
        return [inputs[i] for i in np.flatnonzero(step.get_support())]

    def elementwise(self, step, inputs, *_) -> list[Output]:
        if not any(i.kind in _BINARY for i in inputs):
            return inputs
        ends = np.repeat([[0.0], [1.0]], len(inputs), axis=1)
        try:
            ends = quietly(step.transform, ends)
        except ValueError:  # e.g. Box-Cox does not take zeros
            ends = ends + np.nan
        return [_rescaled(i, *e) for i, e in zip(inputs, dense(ends).T, strict=True)]

    def binarizer(self, step, inputs, *_) -> list[Output]:
        text = f"> {_number(step.threshold)}"
        return [
            _rescaled(i, step.threshold < 0, step.threshold < 1)
            if i.kind in _BINARY
            else Output(i.columns, "indicator", text)
            for i in inputs
        ]

    def one_hot(self, step, inputs, *_) -> list[Output]:
        return [
            Output(source.columns, "level", *level)
            for i, source in enumerate(inputs)
            for level in _levels(step, i)
        ]

    def ordinal(self, step, inputs, *_) -> list[Output]:
        return [Output(i.columns, "code") for i in inputs]

    def target_encoder(self, step, inputs, *_) -> list[Output]:
        each = len(step.encodings_) // len(inputs)
        return [Output(i.columns) for i in inputs for _ in range(each)]

    def bins(self, step, inputs, *_) -> list[Output]:
        outputs = []
        for source, edges in zip(inputs, step.bin_edges_, strict=True):
            # a column that was constant in training has one bin, which takes everything
            columns = source.columns if len(edges) > 2 else ()
            if step.encode == "ordinal":
                outputs.append(Output(columns, _continuous(source)))
            else:
                outputs += [Output(columns, "level", text) for text in _bin_texts(edges[1:-1])]
        return outputs

    def splines(self, step, inputs, *_) -> list[Output]:
        each = step.n_features_out_ // len(inputs)
        return [Output(i.columns, _continuous(i)) for i in inputs for _ in range(each)]

    def missing_indicator(self, step, inputs, *_) -> list[Output]:
        return [Output(inputs[i].columns, "indicator", "missing", True) for i in step.features_]

    def simple_imputer(self, step, inputs, feed, path, width) -> list[Output]:
        kept = inputs
        if not (step.keep_empty_features or (step.strategy == "constant" and _FILLS_EMPTY)):
            kept = [
                i
                for i, statistic in zip(inputs, step.statistics_, strict=True)
                if not (isinstance(statistic, float) and math.isnan(statistic))
            ]
        return [*kept, *self.added_indicators(step, inputs)]

    def added_indicators(self, step, inputs) -> list[Output]:
        return self.missing_indicator(step.indicator_, inputs) if step.add_indicator else []

    # --- steps that mix their inputs ---

    def mixing_imputer(self, step, inputs, feed, path, width) -> list[Output]:
        had_values = _had_values(step)
        everything = self.union(itertools.compress(inputs, had_values))
        self.notes.append(
            f"{_step(path, step)} fills a gap of one column from the others: each of its outputs "
            f"is taken to depend on {_quoted(everything)}"
        )
        outputs = []
        for source, had in zip(inputs, had_values, strict=True):
            if had:
                outputs.append(replace(source, columns=everything))
            elif step.keep_empty_features:
                # no value in training: KNNImputer sets it to 0, the other fills only what is absent
                own = () if hasattr(step, "_valid_mask") else source.columns
                outputs.append(replace(source, columns=own))
        return outputs + self.added_indicators(step, inputs)

    def normalizer(self, step, inputs, *_) -> list[Output]:
        everything = self.union(inputs)
        return [Output(everything, _continuous(i)) for i in inputs]

    def polynomials(self, step, inputs, *_) -> list[Output]:
        outputs = []
        for powers in step.powers_:
            factors = [i for i, power in zip(inputs, powers, strict=True) if power]
            if len(factors) == 1 and (powers.sum() == 1 or factors[0].kind in _BINARY):
                outputs.append(factors[0])  # the input itself: 0 and 1 are their own powers
                continue
            kind = "value"
            if factors and all(f.kind in _BINARY for f in factors):
                kind = "indicator"
            elif any(f.kind == "code" for f in factors):
                kind = "code"
            outputs.append(Output(self.union(factors), kind))
        return outputs

    # --- steps of unknown structure ---

    def unknown(self, step, inputs, feed, path, width) -> list[Output]:
        """Return the outputs of a step by probing it."""
        columns = self.union(inputs)
        if self.sample is None:
            width = width if width is not None else _output_count(step, path)
            self.notes.append(
                f"{_step(path, step)} was not probed, as there are no sample rows: each of its "
                f"{width} outputs is taken to depend on {_quoted(columns)}"
            )
            return [Output(columns)] * width
        found = probe(
            self.sample,
            [self.position[name] for name in columns],
            feed,
            lambda given, width: self.ask(step, given, path, width),
        )
        width = len(found.is_input)
        if not found.is_repeatable:
            self.notes.append(
                f"{_step(path, step)} answers the same rows differently when asked twice: each of "
                f"its outputs is taken to depend on {_quoted(columns)}"
            )
            return [Output(columns)] * width
        if not found.is_rowwise:
            self.notes.append(
                f"{_step(path, step)} answers a row differently depending on the rows beside it: "
                "the audit holds for rows asked together as they were"
            )
        if found.is_input.all():
            self.notes.append(f"{_step(path, step)} leaves every value of the sample as it is")
            return list(inputs)
        changed = {name: found.changed.get(self.position[name]) for name in columns}
        fixed = tuple(name for name in columns if changed[name] is None)
        codes = {name for i in inputs if i.kind == "code" for name in i.columns}
        codes -= {name for i in inputs if i.kind != "code" for name in i.columns}
        outputs, silent = [], []
        for j in range(width):
            if found.is_input[j]:
                outputs.append(inputs[j])
                continue
            behind = tuple(c for c in columns if changed[c] is not None and changed[c][j])
            if not behind:
                # what was never varied may be behind it; so may rare values of an only column
                behind = fixed or (columns if len(columns) == 1 else ())
                silent.append(j)
            kind = "value"
            if found.is_binary[j] and behind:
                kind = "indicator"
            elif behind and (found.is_two_valued[j] or codes.issuperset(behind)):
                kind = "code"
            outputs.append(Output(behind, kind))
        note = (
            f"{_step(path, step)} was probed: each of {_quoted(columns)} was set to other values "
            f"of the sample in up to {ROWS} rows"
        )
        if fixed:
            note += f"; {_quoted(fixed)} could not be, having one value in the sample"
        if silent:
            assumed = _quoted(outputs[silent[0]].columns)
            note += f"; {len(silent)} of its outputs never changed and are taken to depend on "
            note += assumed or "no column"
        self.notes.append(note)
        return outputs

    def answer(self, step: Any, given: Any, path: str) -> Any:
        """Return what a step makes of rows, naming it if it fails."""
        try:
            return given if step is None else quietly(step.transform, given)
        except Exception as error:
            raise ModelError(
                f"{_step(path, step)} fails on rows of the sample: {error}. Give rows that it can "
                "transform, e.g. training rows"
            ) from error

    def ask(self, step: Any, given: Any, path: str, width: int | None = None) -> np.ndarray:
        """Return a step's answer as a dense matrix, checked to have ``width`` columns."""
        answer = dense(self.answer(step, given, path))
        if answer.ndim != 2:
            raise ModelError(
                f"{_step(path, step)} gives an array of shape {answer.shape}, expected rows and "
                "columns"
            )
        if width not in (None, answer.shape[1]):
            raise ModelError(
                f"{_step(path, step)} gives {answer.shape[1]} columns for some rows and {width} "
                "for others: no model can be asked with that"
            )
        return answer


_STRUCTURES: dict[str, Callable] = {
    **dict.fromkeys(_ELEMENTWISE, _Tracer.elementwise),
    "FrozenEstimator": _Tracer.frozen,
    "FunctionTransformer": _Tracer.function,
    "Binarizer": _Tracer.binarizer,
    "OneHotEncoder": _Tracer.one_hot,
    "OrdinalEncoder": _Tracer.ordinal,
    "TargetEncoder": _Tracer.target_encoder,
    "KBinsDiscretizer": _Tracer.bins,
    "SplineTransformer": _Tracer.splines,
    "MissingIndicator": _Tracer.missing_indicator,
    "SimpleImputer": _Tracer.simple_imputer,
    "KNNImputer": _Tracer.mixing_imputer,
    "IterativeImputer": _Tracer.mixing_imputer,
    "Normalizer": _Tracer.normalizer,
    "PolynomialFeatures": _Tracer.polynomials,
}


def _structure(step: Any) -> Callable | None:
    """Return what knows the structure of a step, None if nothing does.

    A subclass counts as the class whose ``transform`` it runs; one with its own is unknown. Classes
    are told by name, so that none has to be imported (`IterativeImputer` cannot be, as it is).
    """
    if isinstance(step, Pipeline):
        return _Tracer.pipeline
    own = inspect.getattr_static(type(step), "transform", None)
    for cls in type(step).__mro__:
        if inspect.getattr_static(cls, "transform", None) is not own:
            continue
        if cls is ColumnTransformer:
            return _Tracer.column_transformer
        if cls is FeatureUnion:
            return _Tracer.feature_union
        if cls is SelectorMixin:
            return _Tracer.selector
        if cls.__module__.startswith("sklearn.") and cls.__name__ in _STRUCTURES:
            return _STRUCTURES[cls.__name__]
    return None


# --- one-hot levels ---


def _levels(encoder: Any, i: int) -> Iterator[tuple[str, bool]]:
    """Yield text and "stands for missing" of each coordinate of one column of a OneHotEncoder."""
    categories = list(encoder.categories_[i])
    texts = list(_texts(categories))
    rare = _infrequent(encoder, i, categories)
    dropped = None if encoder.drop_idx_ is None else encoder.drop_idx_[i]
    for position, category in enumerate(categories):
        if position not in rare and position != dropped:
            yield texts[position], _is_absent(category)
    # the bucket is always last; any category in it stands for it where it is dropped
    if rare and dropped not in rare:
        names = [texts[position] for position in rare]
        shown = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]
        yield f"infrequent ({', '.join(shown)})", all(_is_absent(categories[p]) for p in rare)


def _infrequent(encoder: Any, i: int, categories: list) -> list[int]:
    """Return the positions of a column's infrequent categories."""
    found = getattr(encoder, "infrequent_categories_", None)
    rest = [] if found is None or found[i] is None else list(found[i])
    positions = []
    for position, category in enumerate(categories):  # both are in the same order
        if rest and (category is rest[0] or _same_category(category, rest[0])):
            positions.append(position)
            rest.pop(0)
    return positions


def _same_category(a: Any, b: Any) -> bool:
    if _is_absent(a) or _is_absent(b):
        return _is_absent(a) and _is_absent(b) and (a is None) == (b is None)
    return bool(a == b)


def _texts(categories: Sequence[Any]) -> Iterator[str]:
    are_several_absent = sum(map(_is_absent, categories)) > 1  # None and NaN
    for category in categories:
        if _is_absent(category):
            yield f"missing ({category})" if are_several_absent else "missing"
        else:
            yield _number(category) if isinstance(category, float) else str(category)


def _is_absent(category: Any) -> bool:
    return category is None or bool(np.ndim(category) == 0 and pd.isna(category))


def _number(value: float) -> str:
    value = float(value)
    return str(int(value)) if value.is_integer() else repr(value)


def _bin_texts(inner: Sequence[float]) -> list[str]:
    """Return the texts of bins; the outer ones take whatever is beyond the training range."""
    if not len(inner):
        return ["any"]
    edges = [f"{edge:.6g}" for edge in inner]
    between = [f"{a} to {b}" for a, b in itertools.pairwise(edges)]
    return [f"< {edges[0]}", *between, f">= {edges[-1]}"]


# --- kinds ---


def _rescaled(source: Output, off: float, on: float) -> Output:
    """Return what a 0/1 coordinate becomes when 0 and 1 are mapped; others stay what they are."""
    if source.kind not in _BINARY or (off == 0 and on == 1):
        return source
    if off == on:
        return Output((), "value")
    # its "off" is no longer 0, and a number between the two is no state
    return replace(source, kind="code")


def _continuous(source: Output) -> str:
    return "value" if source.kind == "value" else "code"


def _weighted(outputs: list[Output], weight: float | None) -> list[Output]:
    """Return outputs multiplied by a weight of a ColumnTransformer or FeatureUnion."""
    return outputs if weight is None else [_rescaled(o, 0, weight) for o in outputs]


# --- scikit-learn's structures ---


def _passes(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _transforming(steps: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the steps that do anything to rows to predict; samplers only act in training."""
    return [(name, s) for name, s in steps if not _passes(s) and hasattr(s, "transform")]


def chosen_positions(chosen: Any, step: ColumnTransformer) -> np.ndarray:
    """Return positions of the columns of one entry of ``transformers_``.

    They are given by name, by position, by a slice of either, or by a mask; what a callable chose
    has been put in its place. The end of a slice of names belongs to it.
    """
    everything = np.arange(step.n_features_in_)
    of_name = {name: i for i, name in enumerate(getattr(step, "feature_names_in_", ()))}
    if isinstance(chosen, slice):
        start, stop = chosen.start, chosen.stop
        start = of_name[start] if isinstance(start, str) else start
        stop = of_name[stop] + 1 if isinstance(stop, str) else stop
        return everything[slice(start, stop, chosen.step)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 1.5 and 1.6 announce what the remainder will hold in 1.7
        chosen = [chosen] if np.isscalar(chosen) else list(chosen)
    if chosen and isinstance(chosen[0], str):
        chosen = [of_name[name] for name in chosen]
    return everything[np.array(chosen, dtype=None if chosen else int)]


def _had_values(step: Any) -> np.ndarray:
    """Return which inputs of a mixing imputer had any value in training."""
    if hasattr(step, "_valid_mask"):  # KNNImputer
        return step._valid_mask
    if hasattr(step, "_is_empty_feature"):  # IterativeImputer
        return ~step._is_empty_feature
    return ~np.isnan(step.initial_imputer_.statistics_)  # the same up to 1.5


def _output_count(step: Any, path: str) -> int:
    try:
        return len(step.get_feature_names_out())
    except (AttributeError, ValueError):
        raise ModelError(
            f"how many outputs {_step(path, step)} has cannot be known without rows; give sample "
            "rows, e.g. training rows"
        ) from None


def _unfitted(step: Any, path: str) -> Iterator[str]:
    if isinstance(step, Pipeline):
        children = step.steps
    elif isinstance(step, FeatureUnion):
        children = step.transformer_list
    elif isinstance(step, ColumnTransformer) and hasattr(step, "transformers_"):
        # what was given no column is never fitted
        children = [(n, s) for n, s, c in step.transformers_ if len(chosen_positions(c, step))]
    else:
        # a class of the user's without any fitted attribute may have nothing to learn
        own = type(step).__module__.startswith("sklearn.")
        if (own or hasattr(step, "__sklearn_is_fitted__")) and _is_unfitted(step):
            yield f"{_step(path, step)} is not fitted"
        return
    for name, child in children:
        yield from _unfitted(child, _joined(path, name))


def _is_unfitted(step: Any) -> bool:
    try:
        check_is_fitted(step)
    except NotFittedError:
        return True
    except (AttributeError, TypeError):  # nothing scikit-learn could tell it of
        pass
    return False


def _check_columns(transformer: Any, columns: tuple[str, ...], nominal: set[str]) -> None:
    problems = ProblemList()
    for name in dict.fromkeys(c for c in columns if columns.count(c) > 1):
        problems.append(
            f"column {name!r} occurs more than once; every column needs a name of its own"
        )
    problems += [f"the name {c!r} is not a string" for c in columns if not isinstance(c, str)]
    problems += [
        f"the nominal column {c!r} is no column; {nearest(c, columns)}"
        for c in sorted(nominal - set(columns))
    ]
    count = getattr(transformer, "n_features_in_", None)
    names = getattr(transformer, "feature_names_in_", None)
    if count is not None and count != len(columns):
        problems.append(
            f"the transformer was fitted on {count} columns, but {len(columns)} are given"
        )
    elif names is not None and list(names) != list(columns):
        i = next(i for i, (a, b) in enumerate(zip(names, columns, strict=True)) if a != b)
        problems.append(
            f"the transformer was fitted on columns with other names or in another order: column "
            f"{i} was {names[i]!r}, given is {columns[i]!r}"
        )
    problems.raise_if_any(DataError, "raw columns")


def _picking(feed: Feed, at: np.ndarray | np.integer) -> Feed:
    """Return a feed of some columns, or of one column alone if ``at`` is a number."""

    def pick(rows):
        given = feed(rows)
        return given.iloc[:, at] if hasattr(given, "iloc") else given[:, at]

    return pick


def _converts(column: np.ndarray, dtype: Any) -> bool:
    try:
        column.astype(dtype)
    except (TypeError, ValueError):
        return False
    return True


# --- texts ---


def _joined(path: str, name: str) -> str:
    return f"{path} > {name}" if path else name


def _step(path: str, step: Any) -> str:
    kind = type(step).__name__
    return f"step {path!r} ({kind})" if path else f"the {kind}"


def _quoted(names: Iterable[str], most: int = 20) -> str:
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + rest


def _shown(indices: Sequence[int], most: int = 10) -> str:
    return ", ".join(map(str, indices[:most])) + (" ..." if len(indices) > most else "")
