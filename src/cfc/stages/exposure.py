"""Stage exposure: sweep the groups of a unit's audited cases over values of train."""

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cfc.artifacts import matrix_to_lists, to_numpy
from cfc.errors import DataError
from cfc.exposure import ExposureGrid, expose, exposure_grid
from cfc.models.base import Model
from cfc.prepared import Prepared, arrays_hash

if TYPE_CHECKING:
    import pandas as pd

    from cfc.preprocess import Preprocessor

logger = logging.getLogger(__name__)
STRESS_HALF, GRID_HALF = 0, 1


def halves_of_train(prepared: Prepared) -> tuple[np.ndarray, np.ndarray]:
    """Return the row ids the swap stress draws from and those the grids come from.

    Raises:
        DataError: they share a row, or a row lies outside train.
    """
    stress, grid = (prepared.row_id[prepared.half == h] for h in (STRESS_HALF, GRID_HALF))
    if len(np.intersect1d(stress, grid)):
        raise DataError("the two halves of train share rows; rerun split")
    if (prepared.split[prepared.half >= 0] != "train").any():
        raise DataError("a half of train holds rows of another split; rerun split")
    return stress, grid


def unit_grid(
    prepared: Prepared,
    preprocessor: "Preprocessor",
    table: "pd.DataFrame",
    points: int,
    seed: int,
) -> tuple[ExposureGrid, dict[str, Any]]:
    """Return the grid of a unit's data set, with the hashes of both halves of train.

    Args:
        prepared: matrix, groups, halves.
        preprocessor: the fitted map from raw rows to coordinates.
        table: the cleaned data set, rows in the order of ``row_id``.
        points: resolution Q.
        seed: root seed.
    """
    stress, own = halves_of_train(prepared)
    field_of = [c.field for c in preprocessor.coordinates]
    groups = prepared.groups
    grid = exposure_grid(
        table.iloc[own],
        groups,
        [list(dict.fromkeys(field_of[i] for i in index)) for _, index in groups],
        {spec.name: spec for spec in preprocessor.fields},
        preprocessor.transform,
        points=points,
        seed=seed,
    )
    facts = {
        "grid_hash": grid.hash,
        "grid_sizes": dict(zip(groups.names, map(len, grid.weights), strict=True)),
        "grid_half_hash": arrays_hash([own]),
        "stress_half_hash": arrays_hash([stress]),
    }
    return grid, facts


def expose_unit(
    prepared: Prepared,
    model: Model,
    certificates: pa.Table,
    grid: ExposureGrid,
    *,
    clip: float,
    unit: Mapping[str, Any],
) -> tuple[pa.Table, dict[str, Any]]:
    """Expose every audited case of a unit.

    Args:
        prepared: matrix and groups.
        model: the fitted model.
        certificates: table of the certify stage.
        grid: see `unit_grid`.
        clip: lower bound of a probability for this model.
        unit: ``dataset``, ``model`` and ``seed``, repeated in every row.

    Returns:
        one row a case: e and f in declared group order, exposure X, root_square R and
        exposed_fds S = u + X; timings.
    """
    case_ids = to_numpy(certificates.column("case_id"))
    logger.info("%d cases x %d rows", len(case_ids), grid.rows_per_case)
    start = time.perf_counter()
    result = expose(
        prepared.X[case_ids],
        prepared.groups,
        grid,
        model.predict_proba,
        clip=clip,
        progress=lambda done: logger.info("exposed %d of %d cases", done, len(case_ids)),
    )
    timings = {
        "seconds": time.perf_counter() - start,
        "model_seconds": result.model_seconds,
        "forward_rows": result.rows,
        "cases": len(case_ids),
        "rows_per_case": 1 + grid.rows_per_case,
    }
    table = pa.table(
        {
            **{name: certificates.column(name) for name in unit},
            "case_id": case_ids,
            "e": matrix_to_lists(result.e),
            "f": matrix_to_lists(result.f),
            "exposure": result.total,
            "root_square": result.root_square,
            "exposed_fds": to_numpy(certificates.column("u")) + result.total,
        }
    )
    return table, timings
