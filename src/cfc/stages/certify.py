"""Stage certify: choose the audited cases of a unit and certify them."""

import logging
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from cfc.artifacts import lists_to_matrix, matrix_to_lists
from cfc.certificate import Certificates, certify, expected_rows
from cfc.models.base import Model
from cfc.prepared import Prepared
from cfc.protocol import Protocol
from cfc.scores import clip_probabilities
from cfc.splits import audited_cases

logger = logging.getLogger(__name__)


def clip_of(model: Model, protocol: Protocol) -> float:
    """Return the clip of a model under a protocol: forests may have one of their own."""
    return protocol.clip_for(model.facts.get("n_trees") if model.is_forest else None)


def audit_unit(
    prepared: Prepared,
    model: Model,
    predictions: pa.Table,
    protocol: Protocol,
    audit: Mapping[str, Any],
    *,
    unit: Mapping[str, Any],
    split: str = "test",
) -> tuple[pa.Table, dict[str, Any]]:
    """Certify the audited cases of one split.

    Args:
        prepared: matrix, groups, baselines.
        model: the fitted model.
        predictions: table of the train stage.
        protocol: what is declared.
        audit: ``uniform``, ``confident`` and ``threshold`` of the configuration.
        unit: ``dataset``, ``model`` and ``seed``, repeated in every row.
        split: split the cases come from.

    Returns:
        one row a case; timings and counts.
    """
    clip = clip_of(model, protocol)
    rows = prepared.rows(split)
    confidence = clip_probabilities(
        lists_to_matrix(predictions.column("proba").take(rows)), clip
    ).max(axis=1)
    chosen, is_uniform = audited_cases(confidence, unit["seed"], **audit)
    rows = rows[chosen]
    logger.info("%d audited cases, %d of them uniform", len(rows), is_uniform.sum())
    start = time.perf_counter()
    result = certify(
        prepared.X[rows],
        prepared.groups,
        prepared.baseline(protocol.baseline),
        model.predict_proba,
        protocol,
        clip=clip,
        case_ids=prepared.row_id[rows],
        noise_scale=prepared.noise_scale,
        progress=lambda done: logger.info("certified %d of %d cases", done, len(rows)),
    )
    seconds = time.perf_counter() - start
    table = certificate_table(
        result,
        prepared.groups.names,
        protocol,
        columns={
            "case_id": prepared.row_id[rows],
            "split": pa.array(prepared.split[rows], pa.string()),
            "is_uniform": is_uniform,
            "is_confident": result.confidence >= audit["threshold"],
            "true_label": prepared.y[rows],
        },
        constants={
            **unit,
            "model_hash": model.model_hash()[:16],
            "data_hash": prepared.data_hash,
        },
    )
    timings = {
        "seconds": seconds,
        "model_seconds": result.model_seconds,
        "forward_rows": result.rows_per_case * len(rows) + 1,
        "cases": len(rows),
        "rows_per_case": result.rows_per_case,
        "rows_per_case_formula": expected_rows(len(prepared.groups), protocol),
    }
    return table, timings


def certificate_table(
    result: Certificates,
    group_names: tuple[str, ...],
    protocol: Protocol,
    *,
    columns: Mapping[str, Any],
    constants: Mapping[str, Any],
) -> pa.Table:
    """Return certificates as the record of the protocol, one row a case.

    Args:
        result: the engine's arrays.
        group_names: names in declared order; ``delta`` follows it.
        protocol: what was declared.
        columns: further columns, each [n].
        constants: values repeated in every row.
    """
    n, steps, classes = result.path_proba.shape
    names = np.array(group_names, dtype=object)
    inner = matrix_to_lists(result.path_proba.reshape(n * steps, classes))
    offsets = np.arange(n + 1, dtype=np.int32) * np.int32(steps)
    constants = {
        **constants,
        "protocol_hash": protocol.hash,
        "predictor_dtype": result.dtype,
    }
    lambdas = {
        f"lambda_{operator}": pa.array(
            result.lambda_star[:, i], mask=np.isinf(result.lambda_star[:, i])
        )
        for i, operator in enumerate(protocol.operators)
    }
    unit = [name for name in ("dataset", "model", "seed") if name in constants]
    first = {name: constants.pop(name) for name in unit}
    return pa.table(
        {
            **{k: _repeat(v, n) for k, v in first.items()},
            **columns,
            "predicted": result.predicted,
            "confidence": result.confidence,
            "margin": result.margin,
            "is_saturated": result.saturated,
            "proba": matrix_to_lists(result.proba),
            "group_order": matrix_to_lists(names[result.order], pa.string()),
            "path_margin": matrix_to_lists(result.path_margin),
            "path_proba": pa.ListArray.from_arrays(pa.array(offsets), inner),
            "path_label": matrix_to_lists(result.path_label),
            "delta": matrix_to_lists(result.delta),
            "flip_budget": result.flip_budget,
            "rcma": result.rcma,
            **lambdas,
            "u": result.u,
            "fds": result.fds,
            "forward_rows": np.full(n, result.rows_per_case, dtype=np.int32),
            "baseline_label": np.full(n, result.baseline_label, dtype=np.int16),
            **{k: _repeat(v, n) for k, v in constants.items()},
        }
    )


def _repeat(value: Any, n: int) -> pa.Array:
    kind = pa.int64() if isinstance(value, int) else pa.string()
    return pa.repeat(pa.scalar(value, kind), n)
