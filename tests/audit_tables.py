"""Audits made with the engines themselves on small scikit-learn data: a table, its facts, rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cfc import PRESETS, Groups, StressSettings, certify, stress_cases
from cfc.artifacts import matrix_to_lists
from cfc.baselines import Coordinate, baseline_vectors
from cfc.data.registry import FieldSpec
from cfc.exposure import expose, exposure_grid
from cfc.labels import LabelRule, brittle
from cfc.prepared import arrays_hash, groups_to_json
from cfc.scores import relative_collapse

STRESS = {
    "mask": {"severities": [0.1, 0.2, 0.3], "draws": 10},
    "dropout": {"severities": [0.1, 0.2, 0.3], "draws": 10},
    "noise": {"severities": [0.1, 0.25, 0.5], "draws": 10},
    "swap": {"severities": [0.1, 0.2, 0.3], "draws": 20},
}
THRESHOLD = 0.85


@dataclass
class MadeAudit:
    """What the display functions read of an audit, and what it was made from.

    Attributes:
        table, facts, X: as an audit has them.
        matrix: the cases as the model is asked with them [n, d].
        groups, baseline, predict: likewise.
    """

    table: pa.Table
    facts: dict[str, Any]
    X: pd.DataFrame | None
    matrix: np.ndarray
    groups: Groups
    baseline: np.ndarray
    predict: Callable[[np.ndarray], np.ndarray]


def make_audit(
    *,
    data="breast_cancer",
    preset="audit",
    n=None,
    grouping="raw",
    model=None,
    exposure=True,
    stress=True,
    truth=True,
    index=None,
    rename=None,
    given_order=None,
    **protocol,
) -> MadeAudit:
    """Audit a scikit-learn model fitted on every second row on the other rows.

    Args:
        data: name of a scikit-learn data set of numbers.
        preset: preset of the protocol; ``protocol`` replaces single settings.
        n: number of cases; default: all that are left.
        grouping: ``raw``, each column alone; ``measure``, columns that end in the same word;
            ``one``, all in a single group.
        model: an unfitted classifier; default: gradient boosting.
        exposure, stress, truth: whether the table holds these columns.
        index: the user's index of the cases.
        rename: original column -> name used.
        given_order: group numbers in order of removal, in place of the protocol's order.
    """
    from sklearn import datasets
    from sklearn.ensemble import GradientBoostingClassifier

    bunch = getattr(datasets, f"load_{data}")(as_frame=True)
    frame = bunch.data.rename(columns=rename or {})
    X = frame.to_numpy(dtype=np.float32)
    train, rows = np.arange(len(X)) % 2 == 0, np.flatnonzero(np.arange(len(X)) % 2)[:n]
    if model is None:
        model = GradientBoostingClassifier(n_estimators=40, max_depth=2, random_state=0)
    model.fit(X[train], bunch.target[train])
    columns = list(frame.columns)
    coordinates = [Coordinate(f"f{i:04}", name, "value") for i, name in enumerate(columns)]
    groups = _groups(columns, grouping)
    settings = PRESETS[preset].to_dict() | protocol
    settings = type(PRESETS[preset])(**settings)
    baseline = baseline_vectors(X[train], coordinates)[settings.baseline]
    cases = X[rows]
    result = certify(
        cases,
        groups,
        baseline,
        model.predict_proba,
        settings,
        case_ids=np.arange(len(rows)),
        noise_scale=X[train].std(axis=0),
        order=given_order,
    )
    classes = [str(c) for c in bunch.target_names]
    columns_of = _certificate_columns(result, groups, settings, classes)
    case_id = np.arange(len(rows), dtype=np.int64)
    table = {"case_id": case_id, "index": pa.array(rows.tolist() if index is None else index)}
    if truth:
        table["true_label"] = np.array(classes, dtype=object)[bunch.target.to_numpy()[rows]]
    table |= columns_of
    facts = {
        "schema_version": 1,
        "kind": "audit",
        "cfc_version": "0.1.0",
        "protocol": settings.to_dict(),
        "protocol_hash": settings.hash,
        "clip": settings.clip,
        "classes": classes,
        "class_type": "str",
        "groups": groups_to_json(groups),
        "coordinates": [{"field": c.field, "kind": c.kind, "level": c.level} for c in coordinates],
        "columns": columns,
        "space": "matrix",
        "baseline": baseline.tolist(),
        "baseline_text": {
            name: ", ".join(f"{columns[i]} {baseline[i]:.4g}" for i in index)
            if len(index) > 1
            else f"{baseline[index[0]]:.4g}"
            for name, index in groups
        },
        "fixed": [],
        "model": {
            "kind": "sklearn",
            "hash": "5f" * 32,
            "is_exact": True,
            "dtype": "float32",
            "n_trees": None,
            "library_versions": {"scikit-learn": "1.9.1"},
        },
        "data_hash": "a1" * 32,
        "background_hash": "b2" * 32,
        "exposure": None,
        "stress": None,
        "rank_by": "u" if preset == "paper" or not exposure else "s",
        "seed": 0,
        "n_cases": len(rows),
        "n_expected": len(rows),
        "operators": {},
        "notes": [],
    }
    rank_by = result.u
    if exposure:
        grid = exposure_grid(
            frame[train].iloc[1::2],
            groups,
            [[columns[i] for i in index] for _, index in groups],
            {name: FieldSpec(name, "numeric") for name in columns},
            lambda table: table[columns].to_numpy(dtype=np.float32),
        )
        shown = expose(cases, groups, grid, model.predict_proba)
        table |= {
            "exposure_mean": matrix_to_lists(shown.e),
            "exposure_flip": matrix_to_lists(shown.f),
            "exposure": shown.total,
            "s": result.u + shown.total,
        }
        facts["exposure"] = {
            "points": 16,
            "seed": 0,
            "hash": grid.hash,
            "values": [],
            "weights": [],
        }
        if facts["rank_by"] == "s":
            rank_by = result.u + shown.total
    if stress:
        donors = X[train][::2]
        table |= _stress_columns(cases, groups, baseline, model, donors, X[train], result)
        facts["stress"] = {
            "settings": STRESS,
            "seed": 0,
            "donors_hash": arrays_hash([donors]),
            "threshold": THRESHOLD,
        }
    order = np.lexsort((case_id, -rank_by))
    rank = np.empty(len(rows), dtype=np.int64)
    rank[order] = np.arange(1, len(rows) + 1)
    table["rank"] = rank
    table["warnings"] = pa.array(
        [
            ["saturated"] * bool(saturated)
            + ["near_tie"] * bool(abs(margin) < 1e-6)
            + ["undefined_margin"] * bool(margin == 0)
            for saturated, margin in zip(result.saturated, result.margin, strict=True)
        ],
        pa.list_(pa.string()),
    )
    table["forward_rows"] = np.full(len(rows), result.rows_per_case, dtype=np.int32)
    table["baseline_label"] = np.full(len(rows), result.baseline_label, dtype=np.int16)
    for name, value in (
        ("model_hash", facts["model"]["hash"]),
        ("data_hash", facts["data_hash"]),
        ("protocol_hash", settings.hash),
        ("predictor_dtype", "float64"),
    ):
        table[name] = [value] * len(rows)
    return MadeAudit(
        pa.table(table), facts, frame.iloc[rows], cases, groups, baseline, model.predict_proba
    )


def _groups(columns, grouping) -> Groups:
    if grouping == "raw":
        members = {name: [i] for i, name in enumerate(columns)}
    elif grouping == "one":
        members = {"everything": list(range(len(columns)))}
    else:
        members = {}
        for i, name in enumerate(columns):
            measure = name.removeprefix("mean ").removeprefix("worst ").removesuffix(" error")
            members.setdefault(measure, []).append(i)
    return Groups(list(members), list(members.values()), len(columns))


def _certificate_columns(result, groups, settings, classes) -> dict[str, Any]:
    n, steps, _ = result.path_proba.shape
    inner = matrix_to_lists(result.path_proba.reshape(n * steps, -1))
    names = np.array(groups.names, dtype=object)
    return {
        "predicted": result.predicted,
        "predicted_label": np.array(classes, dtype=object)[result.predicted],
        "confidence": result.confidence,
        "margin": result.margin,
        "is_saturated": result.saturated,
        "proba": matrix_to_lists(result.proba),
        "group_order": matrix_to_lists(names[result.order], pa.string()),
        "path_margin": matrix_to_lists(result.path_margin),
        "path_proba": pa.ListArray.from_arrays(
            pa.array(np.arange(n + 1, dtype=np.int32) * np.int32(steps)), inner
        ),
        "path_label": matrix_to_lists(result.path_label),
        "delta": matrix_to_lists(result.delta),
        "flip_budget": result.flip_budget,
        "rcma": result.rcma,
        **{
            f"lambda_{name}": pa.array(
                result.lambda_star[:, i], mask=np.isinf(result.lambda_star[:, i])
            )
            for i, name in enumerate(settings.operators)
        },
        "u": result.u,
        "fds": result.fds,
    }


def _stress_columns(cases, groups, baseline, model, donors, X_train, result) -> dict[str, Any]:
    sure = result.confidence >= THRESHOLD
    settings = StressSettings.from_mapping(STRESS)
    stressed = stress_cases(
        cases[sure],
        groups,
        baseline,
        model.predict_proba,
        settings,
        seed=0,
        case_ids=np.flatnonzero(sure),
        noise_scale=X_train.std(axis=0),
        donors=donors,
    )
    columns = {}
    for operator in STRESS:
        flips = (stressed.labels[operator] != stressed.predicted[:, None, None]).mean(axis=2)
        kappa = relative_collapse(
            stressed.margin[:, None, None], stressed.margins[operator].astype(np.float64)
        ).mean(axis=2)
        for kind, values in (("flip", flips), ("collapse", kappa)):
            full = [None] * len(sure)
            for i, row in zip(np.flatnonzero(sure), values.tolist(), strict=True):
                full[i] = row
            columns[f"stress_{operator}_{kind}"] = pa.array(full, pa.list_(pa.float64()))
    for rule, operators in (("expected", ("mask", "dropout", "noise")), ("swap", ("swap",))):
        own = brittle(
            LabelRule("mean", {o: STRESS[o]["severities"] for o in operators}),
            confidence=result.confidence[sure],
            predicted=stressed.predicted,
            margin=stressed.margin,
            severities=settings.severities,
            margins=stressed.margins,
            labels=stressed.labels,
        )
        full = [None] * len(sure)
        for i, value in zip(np.flatnonzero(sure), own.tolist(), strict=True):
            if result.confidence[i] >= 0.9:
                full[i] = value
        columns[f"brittle_{rule}"] = pa.array(full, pa.bool_())
    return columns
