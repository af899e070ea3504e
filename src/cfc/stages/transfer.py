"""Stage transfer: stress with values no score was built on, and labels from it."""

import logging
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from cfc.artifacts import to_numpy
from cfc.errors import ArtifactError
from cfc.models.base import Model
from cfc.prepared import Prepared
from cfc.transfer import TransferSettings, mean_rule, transfer_cases

logger = logging.getLogger(__name__)


def transfer_unit(
    prepared: Prepared,
    model: Model,
    certificates: pa.Table,
    settings: TransferSettings,
    *,
    clip: float,
    seed: int,
) -> tuple[pa.Table, dict[str, Any]]:
    """Stress the confident audited cases of a unit.

    Args:
        prepared: matrix, groups, baselines, and the donors: the half of train no grid looks at.
        model: the fitted model.
        certificates: table of the certify stage.
        settings: operators, severities, draws.
        clip: lower bound of a probability for this model.
        seed: root seed.

    Returns:
        one row a case, operator and severity with flip_share and mean_kappa; timings.
    """
    is_confident = to_numpy(certificates["is_confident"])
    case_ids = to_numpy(certificates["case_id"])[is_confident]
    logger.info("%d cases x %d rows", len(case_ids), settings.rows_per_case)
    start = time.perf_counter()
    result = transfer_cases(
        prepared.X[case_ids],
        prepared.groups,
        prepared.baselines,
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
        "cases": len(case_ids),
        "rows_per_case": settings.rows_per_case,
    }
    parts = [
        pa.table(
            {
                "case_id": case_ids,
                "operator": pa.repeat(pa.scalar(operator), len(case_ids)),
                "severity": np.full(len(case_ids), severity),
                "flip_share": result.flip_share[operator][:, level],
                "mean_kappa": result.mean_kappa[operator][:, level],
            }
        )
        for operator, grid in settings.severities.items()
        for level, severity in enumerate(grid)
    ]
    return pa.concat_tables(parts), timings


def transfer_labels(
    certificates: pa.Table,
    outcomes: pa.Table,
    operators: tuple[str, ...],
    thresholds: Mapping[str, float],
) -> pa.Table:
    """Return one row an audited case with one bool column an operator.

    Args:
        certificates: table of the certify stage.
        outcomes: table of this stage.
        operators: operators wanted.
        thresholds: ``tau_p``, ``tau_kappa`` and ``tau_flip``.

    Raises:
        ArtifactError: the two tables are of different cases.
    """
    is_confident = to_numpy(certificates["is_confident"])
    ids = to_numpy(certificates["case_id"])[is_confident]
    confidence = to_numpy(certificates["confidence"])
    named = to_numpy(outcomes["operator"])
    columns = {n: certificates[n] for n in ("dataset", "model", "seed", "case_id", "confidence")}
    for operator in operators:
        cells = outcomes.filter(pa.array(named == operator))
        label = np.zeros(len(confidence), dtype=bool)
        if len(ids):
            held = to_numpy(cells["case_id"])
            cells_made = len(held) // len(ids)
            if not cells_made or not np.array_equal(held, np.tile(ids, cells_made)):
                raise ArtifactError(
                    "certificates and transfer outcomes are of different cases; rerun transfer"
                )
            flip, kappa = (
                to_numpy(cells[name]).reshape(-1, len(ids)).T
                for name in ("flip_share", "mean_kappa")
            )
            label[is_confident] = mean_rule(flip, kappa, confidence[is_confident], **thresholds)
        columns[operator] = label
    return pa.table(columns)
