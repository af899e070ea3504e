"""Stage attribution: group-SHAP and other orders of removal on a sample of a unit's cases."""

import logging
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from cfc.artifacts import lists_to_matrix, matrix_to_lists, to_numpy
from cfc.attribution import (
    concentration,
    group_shapley,
    order_of,
    permutation_importance,
    random_orders,
)
from cfc.certificate import certify
from cfc.errors import CfcError
from cfc.evaluate import EvaluationSettings, evaluate_ranking, metric_row, metric_table
from cfc.models.base import Model
from cfc.predictor import CountedPredictor, Predict
from cfc.prepared import Prepared
from cfc.protocol import Protocol
from cfc.ranking import OPTIONAL_SCORES
from cfc.seeding import generator
from cfc.stages.rank import both_signs, joined

logger = logging.getLogger(__name__)
SCORES = tuple(info.name for info in OPTIONAL_SCORES if info.kind == "attribution")
ADDITIVITY_TOLERANCE = 1e-6


def attribution_cases(certificates: pa.Table, count: int, seed: int) -> np.ndarray:
    """Return positions of a seeded sample of the confident audited cases, ascending."""
    confident = np.flatnonzero(to_numpy(certificates["is_confident"]))
    order = generator(seed, "attribution cases").permutation(len(confident))
    return np.sort(confident[order[:count]])


def attribute_unit(
    prepared: Prepared,
    model: Model,
    certificates: pa.Table,
    protocol: Protocol,
    settings: Mapping[str, Any],
    *,
    clip: float,
    unit: Mapping[str, Any],
) -> tuple[pa.Table, dict[str, Any], dict[str, Any]]:
    """Attribute the predictions of a sample of confident audited cases.

    Args:
        prepared: matrix, groups, baselines, validation rows.
        model: the fitted model.
        certificates: table of the certify stage.
        protocol: what is declared; gives the baseline and the terms of u.
        settings: the configuration's ``attribution``.
        clip: lower bound of a probability for this model.
        unit: ``dataset``, ``model`` and ``seed``, repeated in every row.

    Returns:
        one row a case with the scores `SCORES` (one column each), the signed Shapley values and
        their standard errors in declared group order, ``total``, ``additivity_error``,
        ``relative_error`` and ``method``; facts for the metadata; timings.

    Raises:
        CfcError: Shapley values do not add up to m(x) − m(x̄).
    """
    chosen = certificates.take(
        pa.array(attribution_cases(certificates, settings["cases"], unit["seed"]))
    )
    case_ids = to_numpy(chosen["case_id"])
    X, groups, baseline = (
        prepared.X[case_ids],
        prepared.groups,
        prepared.baseline(protocol.baseline),
    )
    logger.info("%d cases, %d groups", len(X), len(groups))
    start = time.perf_counter()
    predict = CountedPredictor(model.predict_proba)
    shap = group_shapley(
        X,
        groups,
        baseline,
        predict,
        case_ids=case_ids,
        seed=unit["seed"],
        clip=clip,
        exact_groups=settings["exact_groups"],
        permutations=settings["permutations"],
        additive=model.family == "lr" and model.n_classes == 2,
        progress=lambda done: logger.info("attributed %d of %d cases", done, len(X)),
    )
    _check_additivity(shap.additivity_error, shap.total)
    importance = _importance(prepared, predict, settings, unit["seed"])
    orders = random_orders(len(groups), settings["orders"], unit["seed"])

    def fragility(order):
        return certify(
            X,
            groups,
            baseline,
            predict,
            protocol,
            clip=clip,
            order=order,
            case_ids=case_ids,
            noise_scale=prepared.noise_scale,
        ).u

    scores = {
        "random_order": np.mean([fragility(order) for order in orders], axis=0),
        "one_step": _largest(lists_to_matrix(chosen["delta"])),
        "permutation_order": fragility(order_of(importance)),
        "group_shap": concentration(shap.values, 1),
        "group_shap_top3": concentration(shap.values, 3),
    }
    timings = {
        "seconds": time.perf_counter() - start,
        "model_seconds": predict.seconds,
        "forward_rows": predict.rows,
        "cases": len(X),
    }
    table = pa.table(
        {
            **{name: chosen[name] for name in unit},
            "case_id": case_ids,
            **scores,
            "shapley": matrix_to_lists(shap.values),
            "standard_error": matrix_to_lists(shap.standard_error),
            "total": shap.total,
            "additivity_error": shap.additivity_error,
            "relative_error": shap.relative_error,
            "method": pa.array(shap.method, pa.string()),
        }
    )
    facts = {
        "groups": groups.names,
        "importance": importance.tolist(),
        "orders": orders.tolist(),
    }
    return table, facts, timings


def attribution_ranks(ranks: pa.Table, attribution: pa.Table) -> pa.Table:
    """Return the rank rows of the attributed cases, with the scores of this stage in both signs."""
    case_id = to_numpy(attribution["case_id"])
    position = {case: i for i, case in enumerate(to_numpy(ranks["case_id"]).tolist())}
    rows = ranks.take(pa.array([position[case] for case in case_id.tolist()], pa.int64()))
    own = {}
    for name in SCORES:
        own |= both_signs(name, joined(case_id, attribution, name, "attribution"))
    kept = [name for name in rows.column_names if name not in own]
    return pa.table({**{name: rows[name] for name in kept}, **own})


def evaluate_attribution(
    certificates: pa.Table,
    labels: pa.Table,
    ranks: pa.Table,
    attribution: pa.Table,
    *,
    settings: EvaluationSettings,
    unit: tuple[str, str, int],
) -> pa.Table:
    """Return the ranking metrics of every score on the attributed cases, and how exact those are.

    Args:
        certificates, labels, ranks: tables of those stages.
        attribution: table of this stage.
        settings, unit: as in `cfc.evaluate.evaluate_unit`.

    Returns:
        rows of schema `cfc.evaluate.SCHEMA`; besides family ``brittle``, family ``attribution``
        with the mean ``relative_error``, the largest ``additivity_error`` and ``share_exact``.
    """
    held = pa.array(np.isin(to_numpy(certificates["case_id"]), to_numpy(attribution["case_id"])))
    ranking = evaluate_ranking(
        certificates.filter(held),
        labels,
        attribution_ranks(ranks, attribution),
        settings=settings,
        unit=unit,
    )
    n = attribution.num_rows
    exact = to_numpy(attribution["method"]) != "sampled"
    values = {
        "relative_error": lambda: to_numpy(attribution["relative_error"]).mean(),
        "additivity_error": lambda: to_numpy(attribution["additivity_error"]).max(),
        "share_exact": exact.mean,
    }
    rows = [
        metric_row("attribution", name, value() if n else np.nan, n, reason="no attributed case")
        for name, value in values.items()
    ]
    return pa.concat_tables([ranking, metric_table(rows, unit)])


def _largest(delta: np.ndarray) -> np.ndarray:
    return delta.max(axis=1) if len(delta) else np.empty(0)


def _importance(
    prepared: Prepared, predict: Predict, settings: Mapping[str, Any], seed: int
) -> np.ndarray:
    valid = prepared.rows("valid")
    order = generator(seed, "importance rows").permutation(len(valid))
    valid = np.sort(valid[order[: settings["importance_rows"]]])
    return permutation_importance(
        prepared.X[valid],
        prepared.y[valid],
        prepared.groups,
        predict,
        seed=seed,
        repeats=settings["importance_repeats"],
    )


def _check_additivity(error: np.ndarray, total: np.ndarray) -> None:
    allowed = ADDITIVITY_TOLERANCE * (1.0 + np.abs(total))
    if (error > allowed).any():
        worst = float(error.max())
        raise CfcError(
            f"Shapley values of {int((error > allowed).sum())} cases do not add up to "
            f"m(x) − m(x̄): off by up to {worst:.3g}"
        )
