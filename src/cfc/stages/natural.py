"""Stage natural: observed unavailability as stress, its labels and the metrics of one unit."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cfc.artifacts import lists_to_matrix, matrix_to_lists, to_numpy
from cfc.data.registry import DatasetSpec
from cfc.errors import ArtifactError
from cfc.evaluate import EvaluationSettings, evaluate_ranking
from cfc.labels import LabelRule, brittle
from cfc.models.base import Model
from cfc.natural import (
    OPERATOR,
    Patterns,
    natural_stress,
    observed_patterns,
    replaced_groups,
    unavailable_cells,
)
from cfc.prepared import Prepared

logger = logging.getLogger(__name__)
RULES = ("literal", "expected")
NOT_ELIGIBLE = "no cell of a training row is marked as unavailable"
_CELLS = {OPERATOR: (1.0,)}


def patterns_of(table: pd.DataFrame, spec: DatasetSpec, prepared: Prepared) -> Patterns:
    """Return the patterns of the training rows.

    Args:
        table: the cleaned data set.
        spec: its declaration.
        prepared: says which rows are training rows.

    Raises:
        ArtifactError: the table has another number of rows.
    """
    if len(table) != len(prepared.split):
        raise ArtifactError(
            f"the data set has {len(table)} rows, but {len(prepared.split)} were prepared; "
            "rerun preprocess"
        )
    train = table.iloc[prepared.row_id[prepared.rows("train")]]
    return observed_patterns(*unavailable_cells(train, spec))


def natural_unit(
    table: pd.DataFrame,
    spec: DatasetSpec,
    prepared: Prepared,
    model: Model,
    certificates: pa.Table,
    *,
    draws: int,
    baseline: str,
    clip: float,
    seed: int,
) -> tuple[pa.Table, dict[str, Any]]:
    """Stress the confident audited cases with observed events.

    Args:
        table, spec: the cleaned data set and its declaration.
        prepared: matrix, groups, baselines.
        model: the fitted model.
        certificates: table of the certify stage.
        draws: events a case.
        baseline: name of x̄ under the protocol.
        clip: lower bound of a probability for this model.
        seed: root seed.

    Returns:
        one row a case (none, where train has no event) with the drawn patterns, margins and
        labels; facts for the file's metadata: whether the data set is eligible, the fields and
        each pattern with its training rows and the groups it replaces.
    """
    patterns = patterns_of(table, spec, prepared)
    facts: dict[str, Any] = {
        "is_eligible": len(patterns) > 0,
        "fields": list(patterns.fields),
        "train_rows": patterns.n_rows,
        "draws": draws,
        "patterns": [],
    }
    if not facts["is_eligible"]:
        logger.info("%s: %s", spec.key, NOT_ELIGIBLE)
        return _table(certificates.slice(0, 0), None), facts
    fields = [c["field"] for c in prepared.facts["coordinates"]]
    replaced = replaced_groups(patterns, prepared.groups, fields)
    names = np.array(prepared.groups.names, dtype=object)
    facts["patterns"] = [
        {
            "train_rows": int(count),
            "fields": [f for f, gone in zip(patterns.fields, missing, strict=True) if gone],
            "groups": names[groups].tolist(),
        }
        for count, missing, groups in zip(patterns.count, patterns.missing, replaced, strict=True)
    ]
    kept = certificates.filter(certificates["is_confident"])
    case_ids = to_numpy(kept["case_id"])
    logger.info("%d patterns, %d cases x %d draws", len(patterns), len(case_ids), draws)
    result = natural_stress(
        prepared.X[case_ids],
        prepared.groups,
        prepared.baseline(baseline),
        model.predict_proba,
        patterns.share,
        replaced,
        seed=seed,
        case_ids=case_ids,
        draws=draws,
        clip=clip,
    )
    return _table(kept, result), facts


def _table(kept: pa.Table, result) -> pa.Table:
    n = len(kept)
    empty = np.empty((0, 0))
    values = {
        "pattern": (empty if result is None else result.pattern, pa.int32()),
        "margins": (empty if result is None else result.margins, pa.float32()),
        "labels": (empty if result is None else result.labels, pa.int16()),
    }
    return pa.table(
        {
            **{name: kept[name] for name in ("dataset", "model", "seed", "case_id", "confidence")},
            "predicted": np.empty(n, np.int16) if result is None else result.predicted,
            "margin": np.empty(n) if result is None else result.margin,
            **{name: matrix_to_lists(value, kind) for name, (value, kind) in values.items()},
        }
    )


def natural_labels(
    certificates: pa.Table,
    stressed: pa.Table,
    *,
    literal_draws: int,
    tau_p: float,
    tau_kappa: float,
    tau_flip: float,
) -> pa.Table:
    """Return case_id and the labels ``literal`` and ``expected`` of every audited case.

    ``literal``: some of the first draws flips or has κ >= τ_κ; ``expected``: half of all draws
    flip, or their mean κ reaches the threshold. Both need p̂ >= τ_p (protocol, sections 5 and 9).

    Raises:
        ArtifactError: the two files are of different cases.
    """
    is_confident = to_numpy(certificates["is_confident"]).astype(bool)
    ids = to_numpy(certificates["case_id"])[is_confident]
    columns = {name: np.zeros(len(is_confident), dtype=bool) for name in RULES}
    if len(stressed):
        if not np.array_equal(ids, to_numpy(stressed["case_id"])):
            raise ArtifactError("certificates and natural stress differ in cases; rerun natural")
        arrays = {
            "confidence": to_numpy(stressed["confidence"]),
            "predicted": to_numpy(stressed["predicted"]),
            "margin": to_numpy(stressed["margin"]),
            "severities": _CELLS,
            "margins": {OPERATOR: lists_to_matrix(stressed["margins"])[:, None, :]},
            "labels": {OPERATOR: lists_to_matrix(stressed["labels"])[:, None, :]},
        }
        rules = {
            "literal": LabelRule("any_draw", _CELLS, draws=literal_draws),
            "expected": LabelRule("mean", _CELLS),
        }
        for name, rule in rules.items():
            columns[name][is_confident] = brittle(
                rule, tau_p=tau_p, tau_kappa=tau_kappa, tau_flip=tau_flip, **arrays
            )
    return pa.table({"case_id": certificates["case_id"], **columns})


def evaluate_natural(
    certificates: pa.Table,
    stressed: pa.Table,
    ranks: pa.Table,
    *,
    is_eligible: bool,
    thresholds: Mapping[str, Any],
    settings: EvaluationSettings,
    unit: tuple[str, str, int],
) -> pa.Table:
    """Return the ranking metrics of one unit under the natural labels, in the evaluate schema.

    Args:
        certificates, stressed, ranks: tables of the stages.
        is_eligible: whether train has an event; if not, every value is null with that reason.
        thresholds: the keyword arguments of `natural_labels`.
        settings: its ``label_rules`` are those of this stage.
        unit: (dataset, model, seed).
    """
    labels = natural_labels(certificates, stressed, **thresholds)
    reason = None if is_eligible else NOT_ELIGIBLE
    return evaluate_ranking(
        certificates, labels, ranks, settings=settings, unit=unit, not_applicable=reason
    )
