"""`cfc.audit`: certificates for a fitted model and a table, in one call."""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cfc import __version__
from cfc.artifacts import canonical_json, read_metadata, read_table, write_table, write_text
from cfc.auditing.baseline import check_missing, named_baseline
from cfc.auditing.cases import summary
from cfc.auditing.grouping import resolve_groups
from cfc.auditing.plan import DEFAULT_STRESS, TAU_P, Plan
from cfc.auditing.tables import Table, as_frame, content_hash
from cfc.auditing.targets import Target, probe, target_of
from cfc.data.registry import FieldSpec
from cfc.errors import (
    ArtifactError,
    ConfigError,
    DataError,
    ModelError,
    ProblemList,
    nearest,
)
from cfc.exposure import POINTS, ExposureGrid, exposure_grid
from cfc.protocol import Protocol, get_preset
from cfc.provenance import library_versions
from cfc.splits import train_halves
from cfc.stress import StressSettings

if TYPE_CHECKING:
    import pandas as pd

BLOCK = 1024  # cases; one of a callable's blocks is smaller, it may be slow
CALLABLE_BLOCK = 256
SAVE_SECONDS = 10.0
# what a file names does not depend on what else the process has loaded
ALWAYS_NAMED = ("numpy", "pandas")
LIBRARIES = {
    "sklearn": ("scikit-learn",),
    "xgboost": ("xgboost", "xgboost-cpu"),
    "lightgbm": ("lightgbm",),
    "catboost": ("catboost",),
    "torch": ("torch",),
}
_SHOWN = 6  # parts of a group's baseline that are spelt out
KIND = "audit"


class CfcWarning(UserWarning):
    """Something about an audit its reader should know; it also stands in ``facts["notes"]``.

    >>> import warnings, cfc
    >>> warnings.simplefilter("error", cfc.CfcWarning)  # a script that must not go on regardless
    """


class AuditInterrupted(ModelError):
    """The model failed part of the way.

    >>> import cfc, numpy as np
    >>> def unplugged(rows):
    ...     if len(rows) > 300:
    ...         raise OSError("no answer")
    ...     return np.full((len(rows), 2), 0.5)
    >>> rows = np.zeros((300, 2))
    >>> try:
    ...     cfc.audit(unplugged, rows, background=rows, exposure=False, progress=False)
    ... except cfc.AuditInterrupted as error:
    ...     print(error.partial)
    None

    Attributes:
        partial: `Audit` of the cases that were done, None if there is none.
    """

    def __init__(self, message: str, partial: "Audit | None"):
        super().__init__(message)
        self.partial = partial


@dataclass(frozen=True)
class Audit:
    """Certificates of n cases, with everything that was declared.

    >>> import cfc
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> audit = cfc.audit(DecisionTreeClassifier(random_state=0).fit(X, y), X, background=X)
    >>> len(audit), audit.is_complete
    (150, True)
    >>> audit.top(1)["rank"].tolist()
    [1]

    Attributes:
        table: one row a case; the columns are listed in ``docs/certificate.schema.json``.
        facts: what was declared, and hashes; the metadata of the file.
        X: the audited rows, for showing values; None if not there, never written to a file.
    """

    table: pa.Table
    facts: Mapping[str, Any]
    X: "pd.DataFrame | None" = None

    def __len__(self) -> int:
        return len(self.table)

    @property
    def is_complete(self) -> bool:
        """Tell whether every row that was to be audited has been."""
        return self.facts["n_cases"] == self.facts["n_expected"]

    def to_frame(self) -> "pd.DataFrame":
        """Return the certificates as a pandas frame under the user's index."""
        frame = self.table.to_pandas()
        return frame.set_index("index")

    def top(self, n: int = 20) -> "pd.DataFrame":
        """Return the n most fragile cases, most fragile first."""
        return self.to_frame().sort_values("rank").head(n)

    def position(self, case: Any) -> int:
        """Return the row of the table that holds a case, by the user's index.

        Raises:
            DataError: no such case.
        """
        index = self.table.column("index").to_pylist()
        wanted = str(case) if self.table.schema.field("index").type == pa.string() else case
        try:
            return index.index(wanted)
        except ValueError:
            raise DataError(f"no case {case!r}; {nearest(str(case), map(str, index))}") from None

    def fragile_share(self, confidence: float = TAU_P) -> float:
        """Return the share of confident cases whose label flips on losing one group alone.

        NaN when no case is confident.
        """
        share = summary(self.table, self.facts, confidence)["share"]
        return float("nan") if share is None else share

    def summary_facts(self) -> dict[str, Any]:
        """Return the numbers of `summary` as plain values; a share of no case is None."""
        found = summary(self.table, self.facts, TAU_P)
        warned = Counter(w for texts in self.table.column("warnings").to_pylist() for w in texts)
        return {
            "cases": found["cases"],
            "expected": self.facts["n_expected"],
            "groups": len(self.facts["groups"]["names"]),
            "preset": self.facts["protocol"]["preset"],
            "protocol_hash": self.facts["protocol_hash"],
            "baseline": self.facts["protocol"]["baseline"],
            "rank_by": self.facts["rank_by"],
            "confidence": TAU_P,
            "confident": found["confident"],
            "one_step": found["fragile"],
            "fragile_share": found["share"],
            "single_points_of_failure": found["points"],
            "warnings": dict(sorted(warned.items())),
            "notes": list(self.facts["notes"]),
        }

    def summary(self) -> str:
        """Return a few lines of text about the whole audit."""
        facts = self.summary_facts()
        done = "" if self.is_complete else f" of {facts['expected']}"
        lines = [
            f"{facts['cases']}{done} cases, {facts['groups']} groups, protocol {facts['preset']} "
            f"({facts['protocol_hash']}), baseline {facts['baseline']}, ranked by "
            f"{facts['rank_by']}"
        ]
        if facts["confident"]:
            lines.append(
                f"{facts['one_step']} of {facts['confident']} cases with confidence of at least "
                f"{facts['confidence']:.2f} ({facts['fragile_share']:.1%}) change their label when "
                "one group is removed"
            )
        else:
            lines.append(f"no case has a confidence of at least {facts['confidence']:.2f}")
        points = list(facts["single_points_of_failure"].items())
        if points:
            shown = ", ".join(f"{name} {count}" for name, count in points[:5])
            lines.append(f"single points of failure: {shown}" + (" ..." if points[5:] else ""))
        if facts["warnings"]:
            shown = ", ".join(f"{name} {count}" for name, count in facts["warnings"].items())
            lines.append(f"warnings: {shown}")
        return "\n".join([*lines, *(f"note: {n}" for n in facts["notes"])])

    def to_parquet(self, path: str | Path) -> None:
        """Write the certificates as Parquet; equal audits give equal bytes."""
        write_table(self.table, path, self.facts)

    @classmethod
    def from_parquet(cls, path: str | Path, X: Any = None) -> "Audit":
        """Read what `to_parquet` wrote.

        Args:
            path: the file.
            X: the audited rows, if their values are to be shown.

        Raises:
            ArtifactError: the file is damaged, or holds no audit.
        """
        facts = read_metadata(path)
        if facts.pop("schema_version", None) is None or facts.get("kind") != KIND:
            raise ArtifactError(f"{path} is no certificate file of cfc.audit")
        return cls(read_table(path), facts, None if X is None else as_frame(X).frame)

    def case(self, case: Any = None) -> "Card":
        """Return the card of a case, by the user's index; default: the most fragile one."""
        return Card(self, self.most_fragile if case is None else self.position(case))

    @property
    def most_fragile(self) -> int:
        """Row of the table that holds the most fragile case."""
        return int(np.argmin(np.asarray(self.table.column("rank"))))

    def plot(self, case: Any = None, axes=None):
        """Plot one case (its collapse curve), or all cases if none is named; return the Axes."""
        from cfc.auditing.show import plot_audit, plot_case, record_of

        if case is None:
            return plot_audit(self.table, self.facts, axes)
        return plot_case(record_of(self, self.position(case)), self.facts, axes)

    def to_html(self, path: str | Path, *, title: str = "Audit") -> None:
        """Write one page with everything in it; it opens without a network."""
        from cfc.page.audit import audit_page

        write_text(audit_page(self.table, self.facts, self.X, title=title), path)

    def __repr__(self) -> str:
        return f"<cfc.Audit>\n{self.summary()}"

    def _repr_html_(self) -> str:
        from cfc.auditing.show import frame_html

        return frame_html(self)


@dataclass(frozen=True)
class Card:
    """One case to look at: text on a terminal, HTML in a notebook.

    >>> import cfc
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> audit = cfc.audit(DecisionTreeClassifier(random_state=0).fit(X, y), X, background=X)
    >>> print(audit.case(0).reading[0])
    Predicted “0” with probability ...

    Attributes:
        audit: the audit it belongs to.
        position: row of the audit's table.
    """

    audit: Audit
    position: int

    @property
    def reading(self) -> list[str]:
        """What the certificate says, in plain sentences."""
        from cfc.auditing.show import reading, record_of

        return reading(record_of(self.audit, self.position), self.audit.facts)

    def __str__(self) -> str:
        from cfc.auditing.show import card_text

        return card_text(self.audit, self.position)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from cfc.auditing.show import card_html

        return card_html(self.audit, self.position)


def audit(
    model: Any,
    X: Any,
    *,
    protocol: str | Mapping[str, Any] | Protocol = "audit",
    background: Any = None,
    groups: Any = None,
    ungrouped: str = "error",
    baseline: Any = None,
    classes: Sequence | None = None,
    y: Sequence | None = None,
    exposure: bool | None = None,
    stress: bool | Mapping[str, Any] | StressSettings = False,
    rank_by: str | None = None,
    space: str | None = None,
    output: str | None = None,
    nominal: Sequence[str] = (),
    ignore_extra: bool = False,
    seed: int = 0,
    max_rows: int | None = None,
    max_seconds: float | None = None,
    resume: str | Path | None = None,
    progress: bool | None = None,
    chunk_bytes: int | None = None,
) -> Audit:
    """Certify every row of a table under a fitted model.

    >>> import cfc
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = RandomForestClassifier(20, random_state=0).fit(X, y)
    >>> groups = {kind: [c for c in X if kind in c] for kind in ("mean", "error", "worst")}
    >>> audit = cfc.audit(model, X.head(50), background=X, groups=groups, exposure=False)
    >>> list(audit.to_frame()[["confidence", "flip_budget", "u"]].columns)
    ['confidence', 'flip_budget', 'u']

    Args:
        model: a fitted scikit-learn classifier or Pipeline, an XGBoost, LightGBM or CatBoost
            classifier or booster, a torch module, a model of this package, or any function from
            rows to class probabilities.
        X: rows to audit: pandas, polars, Arrow or a 2-D array, in the columns the model knows.
        protocol: preset name, mapping of settings, or `cfc.Protocol`.
        background: training rows, in the same columns: baseline, exposure grid and swapped values
            come from them. Needed unless a baseline row is given and neither exposure nor stress
            is asked for.
        groups: None (each raw column is a group), mapping of names to columns, list of lists of
            columns, or a YAML or JSON file of one; see `cfc.auditing.grouping.resolve_groups`.
        ungrouped: what becomes of columns that ``groups`` leaves out: ``error``, ``each``,
            ``fixed``.
        baseline: name that replaces the protocol's (``mean_off``, ``mode``, ``median``, ``mean``,
            ``zero``, ``missing``), or one row of values: mapping of raw columns, Series, or array.
        classes: class labels in the order of the model's answers; needed where the model does not
            know them (default there: 0..C−1).
        y: true labels of the rows, stored beside the predictions.
        exposure: sweep each group over values that occur in the background (protocol, section
            13); default: only under preset ``audit``.
        stress: run the held-out stress on confident cases: True, or operators with severities and
            draws.
        rank_by: ``s`` (u + exposure) or ``u``; default ``s`` where there is exposure.
        space: ``transformed`` (what the last step of a Pipeline sees) or ``columns`` (raw columns);
            default: the former for a Pipeline.
        output: what a torch module returns: ``logits``, ``probabilities`` or ``logit``.
        nominal: raw columns that are categories although they hold numbers.
        ignore_extra: leave out columns the model does not know instead of refusing them.
        seed: seed of every draw, in [0, 2**32).
        max_rows: audit the first so many rows only.
        max_seconds: stop after the block of cases during which this much time has passed.
        resume: folder in which finished blocks are kept, so that the same call goes on where an
            earlier one stopped.
        progress: show a progress bar; default: on a terminal.
        chunk_bytes: size of the largest state matrix (default 64 MiB).

    Returns:
        the certificates; `Audit.is_complete` is False if time ran out.

    Raises:
        DataError: a table does not fit the model; every misfit column is named.
        ModelError: the model is not fitted or its answers are no probabilities.
        GroupError: the groups are no partition.
        ConfigError: an argument is not valid.
        AuditInterrupted: the model failed after some cases; they are in its ``partial``.
    """
    declared, exposure = _declared(protocol, baseline, exposure)
    given = as_frame(X)
    labels = None if y is None else _true_labels(y, len(given))
    if max_rows is not None:
        if max_rows < 1:
            raise ConfigError(f"max_rows={max_rows}: at least one row has to be audited")
        given = first_rows(given, max_rows)
    target = (
        model
        if isinstance(model, Target)
        else target_of(
            model,
            background=background,
            rows=given,
            classes=classes,
            space=space,
            output=output,
            nominal=nominal,
            ignore_extra=ignore_extra,
        )
    )
    Z = target.encode(given)
    plan, facts = _plan(
        target,
        given,
        declared,
        background=background,
        groups=groups,
        ungrouped=ungrouped,
        baseline=baseline,
        exposure=exposure,
        stress=stress,
        seed=seed,
    )
    rank_by = rank_by or ("s" if plan.grid else "u")
    if rank_by not in ("s", "u") or (rank_by == "s" and not plan.grid):
        raise ConfigError(f"rank_by={rank_by!r}: one of 's' (needs exposure=True) and 'u'")
    notes = facts.pop("notes")
    if target.space == "transformed" and "nominal" in target.column_kinds.values():
        notes += [
            f"{text}; the Pipeline's own rule for unknown levels applied"
            for text in target.unseen(given).problems()
        ]
    asked_again = probe(target, Z)
    if asked_again.verdict in ("stochastic", "batch-dependent"):
        notes.append(str(asked_again))
        warnings.warn(str(asked_again), CfcWarning, stacklevel=2)
    runner = _Runner(
        plan=plan,
        Z=Z,
        facts={**plan.facts(), **facts, "rank_by": rank_by, "notes": notes},
        block=CALLABLE_BLOCK if target.kind == "callable" else BLOCK,
        folder=None if resume is None else Path(resume),
        chunk_bytes=chunk_bytes,
    )
    finish = _Finish(given, labels, rank_by)
    return finish(runner.facts, runner.run(max_seconds, progress, finish))


def _declared(protocol, baseline, exposure) -> tuple[Protocol, bool]:
    """Return the protocol with the baseline asked for, and whether exposure is wanted."""
    if isinstance(protocol, str):
        protocol = get_preset(protocol)
    elif isinstance(protocol, Mapping):
        protocol = Protocol.from_mapping(protocol)
    elif not isinstance(protocol, Protocol):
        raise ConfigError(
            f"protocol must be a preset name, a mapping or a Protocol, not {protocol!r}"
        )
    if exposure is None:
        exposure = protocol.preset == "audit"
    if baseline is not None:
        name = baseline if isinstance(baseline, str) else "given"
        if name != protocol.baseline:
            protocol = replace(protocol, preset="custom", baseline=name)
    if protocol.baseline == "given" and (baseline is None or isinstance(baseline, str)):
        raise ConfigError('baseline "given" needs the row itself: baseline={column: value, ...}')
    return protocol, exposure


def _true_labels(y, n: int) -> list[str]:
    labels = [str(v) for v in (y.tolist() if hasattr(y, "tolist") else y)]
    if len(labels) != n:
        raise DataError(f"y has {len(labels)} labels for {n} rows")
    return labels


def _plan(
    target: Target,
    given: Table,
    protocol: Protocol,
    *,
    background,
    groups,
    ungrouped,
    baseline,
    exposure,
    stress,
    seed,
) -> tuple[Plan, dict[str, Any]]:
    """Return what is to be done, and the facts that concern model and data."""
    settings = _stress_settings(stress)
    if background is None:
        missing = [
            text
            for needed, text in (
                (protocol.baseline not in ("given", "missing"), f'baseline "{protocol.baseline}"'),
                (exposure, "exposure (exposure=False switches it off)"),
                (settings is not None, "stress"),
            )
            if needed
        ]
        if missing:
            raise ConfigError(f"background= is missing: {' and '.join(missing)} need training rows")
        known, Z = None, None
    else:
        known = as_frame(background, list(target.columns), where="background")
        Z = target.encode(known)
    partition = resolve_groups(
        groups, target.coordinates, target.columns, ungrouped, target.origins
    )
    target, block_of, found = _with_levels(target, partition, Z)
    vector = _baseline_vector(protocol.baseline, baseline, target, given, Z, block_of)
    halves = None if known is None else train_halves(np.full(len(known), "train"), seed)
    plan = Plan(
        predict=target.predict,
        dtype=target.dtype,
        protocol=protocol,
        groups=partition,
        coordinates=tuple(target.coordinates),
        baseline=vector.astype(target.dtype),
        clip=protocol.clip_for(target.n_trees),
        scale=_scale(Z, target),
        grid=_grid(target, partition, known.frame[halves == 1], seed) if exposure else None,
        stress=settings,
        donors=Z[halves == 0] if settings else None,
        seed=seed,
        classes=tuple(map(str, target.classes)),
        model_hash=target.model_hash and target.model_hash[:16],
        data_hash=hash_of(given, target.columns),
    )
    facts = {
        "kind": KIND,
        "cfc_version": __version__,
        "columns": list(target.columns),
        "column_kinds": dict(target.column_kinds),
        "space": target.space,
        "class_type": type(target.classes[0]).__name__,
        "baseline_text": baseline_text(plan, target, known, Z),
        "model": {
            "kind": target.kind,
            "hash": target.model_hash,
            "is_exact": target.is_exact,
            "dtype": target.dtype,
            "n_trees": target.n_trees,
            "library_versions": library_versions([*ALWAYS_NAMED, *LIBRARIES.get(target.kind, ())]),
        },
        "data_hash": plan.data_hash,
        "background_hash": known and hash_of(known, target.columns),
        "n_expected": len(given),
        "notes": [*target.notes, *found],
    }
    return plan, facts


def _with_levels(target: Target, groups, Z) -> tuple[Target, dict[int, str], list[str]]:
    """Return a target whose one-hot columns are known as such, their blocks, and notes of them.

    A matrix does not say what its columns are. Numbers of one group that are 0 or 1 throughout the
    background, at most one of them 1 in any row, are a one-hot block: their mean is no value of it.
    """
    coordinates, block_of, notes = list(target.coordinates), {}, []
    if Z is None or target.space == "transformed":
        return target, block_of, notes
    for name, index in groups:
        block = [
            i for i in index if coordinates[i].kind == "value" and np.isin(Z[:, i], (0, 1)).all()
        ]
        if len(block) < 2 or Z[:, block].sum(axis=1).max() > 1:
            continue
        for i in block:
            coordinates[i] = replace(coordinates[i], kind="level", level=coordinates[i].field)
            block_of[i] = name
        notes.append(
            f"{len(block)} columns of group {name!r} are taken as one-hot levels: they are 0 or 1, "
            "at most one of them 1 in a row of the background"
        )
    return replace(target, coordinates=tuple(coordinates)), block_of, notes


def _stress_settings(stress) -> StressSettings | None:
    if stress is True:
        stress = DEFAULT_STRESS
    if not stress:
        return None
    return stress if isinstance(stress, StressSettings) else StressSettings.from_mapping(stress)


def _baseline_vector(name, row, target, given: Table, Z, block_of) -> np.ndarray:
    """Return x̄ in the model's coordinates, float64 [d]."""
    takes_missing = np.asarray(target.takes_missing)
    if name == "given" and (
        isinstance(row, np.ndarray) or (isinstance(row, Sequence) and not isinstance(row, str))
    ):
        vector = np.asarray(row, dtype=np.float64)
        if vector.shape != (len(target.coordinates),):
            raise ConfigError(
                f"the baseline has {vector.size} values for {len(target.coordinates)} "
                "coordinates; give one for each, or a mapping of raw columns"
            )
    elif name in ("given", "missing"):
        values = dict.fromkeys(target.columns) if name == "missing" else dict(row)
        absent = [c for c in target.columns if c not in values]
        unknown = [str(c) for c in values if c not in target.columns]
        problems = ProblemList()
        if absent:
            problems.append(f"it lacks {', '.join(absent)}")
        problems += [f"it names {c!r}; {nearest(c, target.columns)}" for c in unknown]
        problems.raise_if_any(ConfigError, "the baseline row")
        try:
            vector = target.encode(_one_row(given, values))[0].astype(np.float64)
        except DataError as error:
            raise ConfigError(f'baseline "{name}": {error}') from error
    else:
        vector = named_baseline(name, Z, target.coordinates, takes_missing, block_of)
    seen = takes_missing if Z is None else takes_missing & np.isnan(Z).any(axis=0)
    check_missing(vector, target.coordinates, seen)
    return vector


def _one_row(given: Table, values: Mapping[str, Any]) -> "pd.DataFrame":
    """Return values as a table of one row whose columns have the types of the data."""
    import pandas as pd

    columns = {}
    for name, value in values.items():
        dtype = given.frame[name].dtype
        if value is None or value != value:
            numeric = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
            columns[name] = pd.Series(
                [np.nan] if numeric else [None], dtype=None if numeric else object
            )
        else:
            columns[name] = pd.Series([value])
    return pd.DataFrame(columns)


def first_rows(table: Table, n: int) -> Table:
    """Return the first n rows of a table."""
    return replace(table, frame=table.frame.iloc[:n], index=table.index[:n])


def hash_of(table: Table, columns: Sequence[str]) -> str:
    """Return 16 hexadecimal digits of the content of a table's columns."""
    return content_hash(table.frame[list(columns)])[:16]


def _scale(Z: np.ndarray | None, target: Target) -> np.ndarray:
    """Return the standard deviation of each value in the background, 0 elsewhere."""
    scale = np.zeros(len(target.coordinates))
    for i, coordinate in enumerate(target.coordinates):
        if Z is not None and coordinate.kind == "value":
            present = Z[~np.isnan(Z[:, i]), i].astype(np.float64)
            scale[i] = present.std() if len(present) else 0.0
    return scale


def _grid(target: Target, groups, rows: "pd.DataFrame", seed: int) -> ExposureGrid:
    """Return the exposure grid, from the half of the background that no stress draws from."""
    fields = {
        name: FieldSpec(name, "numeric" if kind == "numeric" else "nominal")
        for name, kind in target.column_kinds.items()
    }
    of_group = [
        list(dict.fromkeys(column for i in index for column in target.origins[i]))
        for _, index in groups
    ]
    transform = target.transform or target.encode
    return exposure_grid(
        rows,
        groups,
        of_group,
        fields,
        lambda table: transform(table).astype(target.dtype),
        points=POINTS,
        seed=seed,
    )


def baseline_text(plan: Plan, target: Target, known: Table | None, Z) -> dict[str, str]:
    """Return, for people, what each group is replaced by, numbers in the units of the data."""
    texts = {}
    for name, index in plan.groups:
        parts: list[str] = []
        columns = len({plan.coordinates[i].field for i in index})
        for i in index:
            coordinate, value = plan.coordinates[i], plan.baseline[i]
            if coordinate.kind == "value" and target.space == "transformed" and known:
                text = _in_own_units(known.frame, target.origins[i], Z[:, i], value)
            else:
                text = _value_text(coordinate, value, target)
            if text:
                parts.append(text if columns == 1 else f"{coordinate.field}: {text}")
        shown = "; ".join(parts[:_SHOWN]) + ("; ..." if parts[_SHOWN:] else "")
        texts[name] = shown or "no level on"
    return texts


def _in_own_units(frame: "pd.DataFrame", origin: Sequence[str], z: np.ndarray, value) -> str:
    """Return a transformed value in the units of its column, where a number decides the other."""
    import pandas as pd

    transformed = f"{value:.4g} after the Pipeline's steps"
    if len(origin) != 1 or not pd.api.types.is_numeric_dtype(frame[origin[0]].dtype):
        return transformed
    column = frame[origin[0]]
    raw = pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    present = ~(np.isnan(raw) | np.isnan(z))
    order = np.argsort(raw[present], kind="stable")
    raw, z = raw[present][order], z[present][order].astype(np.float64)
    if len(z) and z[0] > z[-1]:
        raw, z = raw[::-1], z[::-1]
    if not len(z) or (np.diff(z) < 0).any() or z[0] == z[-1]:
        return transformed
    return f"{np.interp(value, z, raw):.4g}"


def _value_text(coordinate, value: float, target: Target) -> str:
    if coordinate.kind in ("level", "indicator"):
        if not value:
            return ""
        return str(coordinate.level) + ("" if value == 1 else f" ({value:.3g})")
    if np.isnan(value):
        return "absent"
    if coordinate.kind == "code":
        levels = target.levels.get(coordinate.field)
        return levels[int(value)] if levels else f"{value:g}"
    return f"{value:.4g}"


@dataclass
class _Runner:
    """Works through the rows block by block and keeps what is done."""

    plan: Plan
    Z: np.ndarray
    facts: dict[str, Any]
    block: int
    folder: Path | None
    chunk_bytes: int | None

    def run(self, max_seconds, progress, finish: Callable) -> list[pa.Table]:
        """Return the finished blocks, in order.

        Raises:
            AuditInterrupted: the model failed.
        """
        from tqdm import tqdm

        start = time.monotonic()
        done = self._finished()
        n = len(self.Z)
        at = sum(map(len, done))
        unsaved, saved_at = [], start
        bar = tqdm(
            total=n,
            initial=at,
            unit=" cases",
            disable=None if progress is None else not progress,
            delay=1.0,
        )
        try:
            while at < n:
                stop = min(at + self.block, n)
                ids = np.arange(at, stop)
                part = self.plan.block(self.Z[at:stop], ids, self.chunk_bytes)
                unsaved.append(part)
                bar.update(stop - at)
                at = stop
                if self.folder and time.monotonic() - saved_at > SAVE_SECONDS:
                    done.append(self._save(unsaved))
                    unsaved, saved_at = [], time.monotonic()
                if max_seconds is not None and time.monotonic() - start >= max_seconds:
                    break
        except Exception as error:
            partial = done + unsaved
            where = f"the model failed at cases {at} to {min(at + self.block, n) - 1} of {n}"
            kept = f"{at} cases are done" + (
                f" and kept in {self.folder}: the same call goes on from there"
                if self.folder and at
                else "; with resume=FOLDER they would be kept" * bool(at)
            )
            raise AuditInterrupted(
                f"{where} ({type(error).__name__}: {error}); {kept}",
                finish(self.facts, partial) if partial else None,
            ) from error
        finally:
            bar.close()
            if self.folder and unsaved:
                self._save(unsaved)
        return done + unsaved

    def _finished(self) -> list[pa.Table]:
        if self.folder is None or not self.folder.is_dir():
            return []
        tables, at = [], 0
        for file in sorted(self.folder.glob("part-*.parquet")):
            earlier = read_metadata(file)
            changed = [
                key
                for key, value in self.facts.items()
                # what the probe noted of a model that changes its answers changes too
                if key != "notes" and canonical_json(earlier.get(key)) != canonical_json(value)
            ]
            if changed:
                raise ArtifactError(
                    f"{self.folder} holds blocks of another audit: {', '.join(changed)} "
                    "changed; remove the folder or resume into another"
                )
            table = read_table(file)
            if earlier["first"] != at:
                raise ArtifactError(f"{self.folder} lacks the block that starts at case {at}")
            tables.append(table)
            at += len(table)
        return tables

    def _save(self, parts: list[pa.Table]) -> pa.Table:
        table = pa.concat_tables(parts)
        first = table.column("case_id")[0].as_py()
        write_table(
            table,
            self.folder / f"part-{first:012d}.parquet",
            {**self.facts, "first": first},
        )
        return table


@dataclass
class _Finish:
    """Adds what needs all cases, or the user's own labels: index, true labels, rank."""

    given: Table
    labels: list[str] | None
    rank_by: str

    def __call__(self, facts: Mapping[str, Any], parts: list[pa.Table]) -> Audit:
        # blocks that come from a file name the members of lists otherwise than fresh ones
        parts = [part.cast(pa.schema([plain_field(f) for f in part.schema])) for part in parts]
        table = pa.concat_tables(parts).combine_chunks()
        n = len(table)
        table = table.add_column(1, "index", index_column(self.given.index[:n]))
        if self.labels is not None:
            at = table.column_names.index("predicted_label") + 1
            table = table.add_column(at, "true_label", pa.array(self.labels[:n], pa.string()))
        rank = ranks_of(table.column(self.rank_by))
        table = table.append_column("rank", pa.array(rank))
        return Audit(table, {**facts, "n_cases": n}, self.given.frame)


def ranks_of(scores) -> np.ndarray:
    """Return ranks 1..n, 1 for the largest score, ties in the order of cases; int64 [n]."""
    rank = np.empty(len(scores), dtype=np.int64)
    rank[np.argsort(-np.asarray(scores), kind="stable")] = np.arange(1, len(scores) + 1)
    return rank


def plain_field(field: pa.Field) -> pa.Field:
    """Return a field whose lists call their members ``element``, as Parquet does."""
    kind = field.type
    if pa.types.is_list(kind):
        kind = pa.list_(plain_field(kind.value_field).with_name("element"))
    return pa.field(field.name, kind)


def index_column(index) -> pa.Array:
    """Return a user's index as whole numbers where it holds them, else as text."""
    values = index.to_numpy()
    if np.issubdtype(values.dtype, np.integer):
        return pa.array(values, pa.int64())
    return pa.array([str(v) for v in index], pa.string())


__all__ = ["Audit", "AuditInterrupted", "CfcWarning", "audit"]
