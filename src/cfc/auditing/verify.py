"""`cfc.verify`: a second auditor recomputes a certificate file and compares every field."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cfc.auditing.audit import BLOCK, Audit, first_rows, hash_of, index_column, ranks_of
from cfc.auditing.plan import (
    Plan,
    from_numbers,
    grid_from_facts,
    groups_from_facts,
    row_hashes,
)
from cfc.auditing.tables import Table, as_frame
from cfc.auditing.targets import Target, target_of
from cfc.baselines import Coordinate
from cfc.errors import ConfigError
from cfc.operators import DEGRADATIONS, STRESSES
from cfc.prepared import arrays_hash
from cfc.protocol import Protocol
from cfc.splits import train_halves
from cfc.stress import StressSettings

# Rounding of logarithms differs between builds of NumPy; probabilities of an exact model do not.
EXACT = {"rtol": 1e-9, "atol": 1e-12}
INEXACT = {"rtol": 1e-4, "atol": 1e-5}
ANSWERS = ("proba", "path_proba")
# from the user's side, or derived from all cases together and checked apart
NOT_COMPARED = ("index", "true_label", "rank", "model_hash", "data_hash", "protocol_hash")


@dataclass(frozen=True)
class Difference:
    """One field of one case that came out otherwise.

    Attributes:
        case: the user's index of the case.
        field: column of the file, or ``row`` if the data of the case have changed.
        recorded: value in the file.
        recomputed: value found now.
    """

    case: Any
    field: str
    recorded: Any
    recomputed: Any

    def __str__(self) -> str:
        if self.field == "row":
            return f"case {self.case}: its values are not those that were certified"
        return (
            f"case {self.case}: {self.field} is {self.recorded} in the file, {self.recomputed} now"
        )


@dataclass(frozen=True)
class Verification:
    """What a recomputation found; true in a condition if nothing contradicts the file.

    >>> import cfc
    >>> print(cfc.Verification(2, ("model: another one",), (), 0, 0, ()))
    2 certificates recomputed: see below
      ! model: another one

    Attributes:
        n_cases: cases in the file.
        problems: what does not fit as a whole: protocol, model, data, operators.
        differences: the first differing fields, at most ``limit``, in the order of cases.
        n_different: cases with some differing field.
        n_undecided: cases that differ, but only as near-ties let an inexact predictor differ.
        unchecked: what could not be checked, and why.
    """

    n_cases: int
    problems: tuple[str, ...]
    differences: tuple[Difference, ...]
    n_different: int
    n_undecided: int
    unchecked: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if nothing contradicts the file; undecided cases do not."""
        return not self.problems and not self.n_different

    def __bool__(self) -> bool:
        return self.ok

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "ok": self.ok,
            "cases": self.n_cases,
            "different": self.n_different,
            "undecided": self.n_undecided,
            "problems": list(self.problems),
            "unchecked": list(self.unchecked),
            "differences": [
                {
                    "case": d.case,
                    "field": d.field,
                    "recorded": d.recorded,
                    "recomputed": d.recomputed,
                }
                for d in self.differences
            ],
        }

    def __str__(self) -> str:
        head = f"{self.n_cases} certificates recomputed: " + (
            "all agree" if self.ok and not self.n_undecided else ""
        )
        if not self.ok:
            head += f"{self.n_different} differ" if self.n_different else "see below"
        if self.n_undecided:
            head += f"{', ' if not self.ok else ''}{self.n_undecided} undecided (near-ties)"
        lines = [head, *(f"  ! {p}" for p in self.problems)]
        lines += [f"  - {d}" for d in self.differences]
        if len({d.case for d in self.differences}) < self.n_different:
            lines.append("  - ...")
        lines += [f"  ? {u}" for u in self.unchecked]
        return "\n".join(lines)


def verify(
    file: str | Path | Audit,
    model: Any,
    X: Any,
    *,
    background: Any = None,
    output: str | None = None,
    limit: int = 20,
) -> Verification:
    """Recompute a certificate file and compare every field.

    >>> import cfc
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = DecisionTreeClassifier(random_state=0).fit(X, y)
    >>> audit = cfc.audit(model, X, background=X)  # or the path of its file
    >>> print(cfc.verify(audit, model, X))
    150 certificates recomputed: all agree

    Probabilities have to be equal where the predictor is exact (a row's answer does not depend on
    its batch), what is derived from them within 1e-9 of its size. For other predictors floats agree
    within 1e-4 of their size or 1e-5, and a case whose order or label hangs on a difference
    smaller than that is undecided, not different.

    Args:
        file: what `Audit.to_parquet` wrote, or an audit.
        model: the model, as for `cfc.audit`.
        X: the audited rows, in any order if the index tells them apart.
        background: training rows; needed to check stress with swapped values.
        output: as for `cfc.audit`, for a torch module.
        limit: most differences that are listed.

    Raises:
        ArtifactError: the file is damaged, of another schema, or no certificate file.
    """
    audit = file if isinstance(file, Audit) else Audit.from_parquet(file)
    table, facts = audit.table, audit.facts
    problems, unchecked = _declaration_problems(table, facts), []
    target = (
        model
        if isinstance(model, Target)
        else target_of(
            model,
            background=X if background is None else background,
            ignore_extra=True,
            space=None if facts["space"] == "matrix" else facts["space"],
            output=output,
            nominal=[k for k, v in facts["column_kinds"].items() if v == "nominal"],
        )
    )
    problems += _target_problems(target, facts)
    rows, found = _aligned(as_frame(X, list(target.columns)), table)
    problems += found
    if rows is None or target.dtype != facts["dtype"]:
        return Verification(len(table), tuple(problems), (), 0, 0, tuple(unchecked))
    if hash_of(rows, target.columns) != facts["data_hash"]:
        problems.append("data: the content hash is not that of the audited rows")
    Z = target.encode(rows)
    donors = None
    if facts["stress"]:
        if background is None:
            unchecked.append("stress: pass background= to recompute it")
        else:
            known = target.encode(background)
            donors = known[train_halves(np.full(len(known), "train"), facts["seed"]) == 0]
            if arrays_hash([donors]) != facts["stress"]["donors_hash"]:
                problems.append("background: its rows are not those the audit drew from")
    if _missing_operators(facts):
        return Verification(len(table), tuple(problems), (), 0, 0, tuple(unchecked))
    plan = _plan(facts, target, donors)
    parts = [
        plan.block(Z[at : at + BLOCK], np.asarray(table.column("case_id"))[at : at + BLOCK])
        for at in range(0, len(Z), BLOCK)
    ]
    again = pa.concat_tables(parts).combine_chunks()
    return _compared(
        table,
        again,
        facts,
        target.is_exact,
        limit,
        problems,
        unchecked,
        moved=np.array(row_hashes(Z, plan.dtype)) != table.column("row_hash").to_numpy(),
    )


def _declaration_problems(table: pa.Table, facts: Mapping[str, Any]) -> list[str]:
    problems = []
    try:
        found = Protocol.from_mapping(facts["protocol"]).hash
        if found != facts["protocol_hash"]:
            problems.append(
                f"protocol: its settings have the hash {found}, the file says "
                f"{facts['protocol_hash']}"
            )
    except ConfigError as error:
        if not _missing_operators(facts):
            problems.append(f"protocol: {error}")
    if len(table) != facts["n_cases"]:
        problems.append(f"the file holds {len(table)} cases and says {facts['n_cases']}")
    for name in ("protocol_hash", "data_hash"):
        if set(table.column(name).to_pylist()) != {facts[name]}:
            problems.append(f"{name}: the rows and the file's head differ")
    for name in _missing_operators(facts):
        problems.append(
            f"operator {name!r} of the audit's author is not registered, or its source differs; "
            "import the file that defines it"
        )
    return problems


def _missing_operators(facts: Mapping[str, Any]) -> list[str]:
    known = {name: operator.hash for name, operator in {**DEGRADATIONS, **STRESSES}.items()}
    return [name for name, value in facts["operators"].items() if known.get(name) != value]


def _target_problems(target: Target, facts: Mapping[str, Any]) -> list[str]:
    problems = []
    recorded = facts["model"]
    if target.model_hash != recorded["hash"]:
        problems.append(
            f"model: content hash {_short(target.model_hash)}, the audited one "
            f"{_short(recorded['hash'])}"
        )
    # a model that does not know its classes calls them 0..C−1; the names are the user's
    unnamed = list(target.classes) == list(range(len(facts["classes"])))
    for name, now, then in (
        (
            "classes",
            facts["classes"] if unnamed else list(map(str, target.classes)),
            facts["classes"],
        ),
        ("columns", list(target.columns), facts["columns"]),
        ("dtype", target.dtype, facts["dtype"]),
        ("number of trees", target.n_trees, recorded["n_trees"]),
    ):
        if now != then:
            problems.append(f"model: {name} {now}, the audited one {then}")
    return problems


def _short(value: str | None) -> str:
    return value[:16] if value else "unknown"


def _aligned(given: Table, table: pa.Table) -> tuple[Table | None, list[str]]:
    """Return the rows in the order of the file, or None and why not."""
    wanted = table.column("index").to_pylist()
    here = index_column(given.index).to_pylist()
    if here[: len(wanted)] == wanted:
        return first_rows(given, len(wanted)), []
    place = {value: i for i, value in enumerate(here)}
    missing = [w for w in wanted if w not in place]
    if missing:
        return None, [
            f"data: {len(missing)} of the certified cases are not there "
            f"(first: {', '.join(map(str, missing[:3]))}); cases are found by their index"
        ]
    at = [place[w] for w in wanted]
    frame = given.frame.iloc[at].reset_index(drop=True)
    return replace(given, frame=frame, index=given.index[at]), []


def _plan(facts: Mapping[str, Any], target: Target, donors) -> Plan:
    stress = None
    if donors is not None:
        stress = StressSettings.from_mapping(facts["stress"]["settings"])
    return Plan(
        predict=target.predict,
        dtype=facts["dtype"],
        protocol=Protocol.from_mapping(facts["protocol"]),
        groups=groups_from_facts(facts),
        coordinates=tuple(Coordinate("", **c) for c in facts["coordinates"]),
        baseline=from_numbers(facts["baseline"], facts["dtype"]),
        clip=facts["clip"],
        scale=from_numbers(facts["scale"], "float64"),
        grid=grid_from_facts(facts),
        stress=stress,
        donors=donors,
        seed=facts["seed"],
        classes=tuple(facts["classes"]),
        model_hash=None,
        data_hash="",
    )


def _compared(table, again, facts, is_exact, limit, problems, unchecked, moved) -> Verification:
    tolerance = EXACT if is_exact else INEXACT
    n = len(table)
    skipped = [c for c in table.column_names if c not in again.column_names]
    skipped = [c for c in skipped if c not in NOT_COMPARED]
    if skipped and facts["stress"] is None:
        problems.append(f"the file has columns of no declared stage: {', '.join(skipped)}")
    lacking = [c for c in again.column_names if c not in table.column_names]
    if lacking:
        problems.append(f"the file lacks the columns {', '.join(lacking)}")
    differs = np.zeros(n, dtype=bool)
    fields: dict[str, np.ndarray] = {}
    for name in again.column_names:
        if name in (*NOT_COMPARED, "row_hash") or name not in table.column_names:
            continue
        exact = {"rtol": 0.0, "atol": 0.0} if is_exact and name in ANSWERS else tolerance
        bad = column_differs(table.column(name), again.column(name), **exact)
        if bad.any():
            fields[name] = bad
            differs |= bad
    rank = ranks_of(again.column(facts["rank_by"])) != np.asarray(table.column("rank"))
    ties = _near_ties(table, again, facts["rank_by"], tolerance)
    if (rank & ~ties["rank"] & ~moved).any() and not differs.any():
        fields["rank"] = rank & ~ties["rank"]
        differs |= fields["rank"]
    undecided = differs & ties["case"] & (not is_exact) & ~moved
    differs = (differs & ~undecided) | moved
    cases = table.column("index")
    listed: list[Difference] = []
    for i in np.flatnonzero(differs):
        if len(listed) >= limit:
            break
        if moved[i]:
            listed.append(Difference(cases[i].as_py(), "row", None, None))
            continue
        listed += [
            Difference(
                cases[i].as_py(),
                name,
                table.column(name)[i].as_py(),
                again.column(name)[i].as_py() if name in again.column_names else None,
            )
            for name, bad in fields.items()
            if bad[i]
        ]
    return Verification(
        n,
        tuple(problems),
        tuple(listed[:limit]),
        int(differs.sum()),
        int(undecided.sum()),
        tuple(unchecked),
    )


def _near_ties(table, again, rank_by, tolerance) -> dict[str, np.ndarray]:
    """Tell where a decision hangs on less than the tolerance, bool [n] each."""

    def close(a, b):
        return np.isclose(a, b, **tolerance)

    score = np.asarray(again.column(rank_by))
    order = np.argsort(-score, kind="stable")
    beside = np.zeros(len(score), dtype=bool)
    pairs = close(score[order][1:], score[order][:-1])
    beside[order[1:]] |= pairs
    beside[order[:-1]] |= pairs
    delta = np.sort(np.array(again.column("delta").to_pylist()), axis=1)
    margins = np.array(again.column("path_margin").to_pylist())
    case = close(delta[:, 1:], delta[:, :-1]).any(axis=1) | close(margins, 0.0).any(axis=1)
    return {"rank": beside, "case": case}


def column_differs(recorded, recomputed, *, rtol: float, atol: float) -> np.ndarray:
    """Tell in which rows two columns differ, bool [n]; numbers within a tolerance, nulls equal.

    Args:
        recorded: a column, lists allowed.
        recomputed: another of the same length.
        rtol: relative to the recomputed value.
        atol: absolute.
    """
    a, b = (
        c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in (recorded, recomputed)
    )
    if pa.types.is_list(b.type):
        lengths = [np.diff(x.offsets.to_numpy()) for x in (a, b)]
        null = [np.asarray(x.is_null()) for x in (a, b)]
        bad = (lengths[0] != lengths[1]) | (null[0] != null[1])
        if bad.any():
            # compare the others as if the misfits were equal
            keep = pa.array(np.flatnonzero(~bad))
            bad[~bad] = column_differs(a.take(keep), b.take(keep), rtol=rtol, atol=atol)
            return bad
        inner = column_differs(a.flatten(), b.flatten(), rtol=rtol, atol=atol)
        owner = np.repeat(np.arange(len(b)), np.where(null[0], 0, lengths[0]))
        return np.bincount(owner[inner], minlength=len(b)).astype(bool)
    null = [np.asarray(x.is_null()) for x in (a, b)]
    if pa.types.is_floating(b.type):
        x, y = (np.asarray(v.to_numpy(zero_copy_only=False), dtype=np.float64) for v in (a, b))
        with np.errstate(invalid="ignore"):
            same = (x == y) | (np.abs(x - y) <= atol + rtol * np.abs(y))
        same |= np.isnan(x) & np.isnan(y)
    else:
        same = np.array(
            [p == q for p, q in zip(a.to_pylist(), b.to_pylist(), strict=True)], dtype=bool
        )
    return (null[0] != null[1]) | (~same & ~null[0])


__all__ = ["Difference", "Verification", "verify"]
