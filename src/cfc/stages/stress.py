"""Stage stress: run the held-out stress on the confident audited cases of a unit."""

import logging
import time
from typing import Any

import numpy as np
import pyarrow as pa

from cfc.artifacts import matrix_to_lists, to_numpy
from cfc.models.base import Model
from cfc.prepared import Prepared
from cfc.stress import StressSettings, stress_cases

logger = logging.getLogger(__name__)


def stress_unit(
    prepared: Prepared,
    model: Model,
    certificates: pa.Table,
    settings: StressSettings,
    *,
    baseline: str,
    clip: float,
    seed: int,
) -> tuple[pa.Table, dict[str, Any]]:
    """Stress the cases that any label rule can call brittle: those with p̂ at the threshold.

    Args:
        prepared: matrix, groups, baselines, donors.
        model: the fitted model.
        certificates: table of the certify stage.
        settings: operators, severities, draws.
        baseline: name of x̄ under the protocol.
        clip: lower bound of a probability for this model.
        seed: root seed.

    Returns:
        one row a case, operator and severity, with the margins and labels of all draws; timings.
    """
    is_confident = to_numpy(certificates.column("is_confident"))
    case_ids = to_numpy(certificates.column("case_id"))[is_confident]
    confidence = to_numpy(certificates.column("confidence"))[is_confident]
    # row_id is the row number in the data set's table, and the matrix keeps that order
    X = prepared.X[case_ids]
    logger.info("%d cases x %d rows", len(X), settings.rows_per_case)
    start = time.perf_counter()
    result = stress_cases(
        X,
        prepared.groups,
        prepared.baseline(baseline),
        model.predict_proba,
        settings,
        seed=seed,
        case_ids=case_ids,
        noise_scale=prepared.noise_scale,
        donors=prepared.donors,
        clip=clip,
        progress=lambda done, cells: logger.info("stressed %d of %d cells", done, cells),
    )
    timings = {
        "seconds": time.perf_counter() - start,
        "model_seconds": result.model_seconds,
        "forward_rows": result.rows,
        "cases": len(X),
        "rows_per_case": settings.rows_per_case,
    }
    parts = [
        pa.table(
            {
                "case_id": case_ids,
                "confidence": confidence,
                "predicted": result.predicted,
                "margin": result.margin,
                "operator": pa.repeat(pa.scalar(operator), len(X)),
                "severity": np.full(len(X), float(severity)),
                "margins": matrix_to_lists(result.margins[operator][:, level]),
                "labels": matrix_to_lists(result.labels[operator][:, level]),
            }
        )
        for operator, grid in settings.severities.items()
        for level, severity in enumerate(grid)
    ]
    return pa.concat_tables(parts), timings
