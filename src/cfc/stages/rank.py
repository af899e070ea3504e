"""Stage rank: every ranking score of a unit's audited cases, in both signs."""

import numpy as np
import pyarrow as pa

from cfc.artifacts import lists_to_matrix, to_numpy
from cfc.errors import ArtifactError
from cfc.ranking import SIGNS, ranking_scores


def rank_unit(
    certificates: pa.Table,
    clip: float,
    exposure: pa.Table | None = None,
    attribution: pa.Table | None = None,
) -> pa.Table:
    """Return one row an audited case with ``<score>_paper`` and ``<score>_risk`` columns.

    Args:
        certificates: table of the certify stage.
        clip: lower bound of a probability for this unit's model.
        exposure: table of the exposure stage, where the run has it: adds ``exposure`` and
            ``exposed_fds``.
        attribution: table of the attribution stage, where the run has it: adds ``group_shap``,
            null for the cases that stage did not look at.

    Raises:
        ArtifactError: an exposure is missing, or a case of the other tables was not certified.
    """
    delta = lists_to_matrix(certificates["delta"])
    scores = ranking_scores(
        proba=lists_to_matrix(certificates["proba"]),
        delta=delta,
        clip=clip,
        **{
            name: to_numpy(certificates[name])
            for name in ("margin", "rcma", "u", "predicted", "baseline_label")
        },
    )
    scores |= both_signs("one_step", delta.max(axis=1, initial=-np.inf))
    case_id = to_numpy(certificates["case_id"])
    if exposure is not None:
        for name in ("exposure", "exposed_fds"):
            values = joined(case_id, exposure, name, "exposure")
            if np.isnan(values).any():
                raise ArtifactError("the exposure file lacks certified cases; rerun exposure")
            scores |= both_signs(name, values)
    if attribution is not None:
        values = joined(case_id, attribution, "group_shap", "attribution")
        scores |= both_signs("group_shap", pa.array(values, mask=np.isnan(values)))
    names = ("dataset", "model", "seed", "case_id")
    return pa.table({**{n: certificates[n] for n in names}, **scores})


def both_signs(name: str, values) -> dict:
    """Return a score that has one sign only under both column names."""
    return {f"{name}_{sign}": values for sign in SIGNS}


def joined(case_id: np.ndarray, table: pa.Table, column: str, stage: str) -> np.ndarray:
    """Return a column of another stage's table for each case, float64 [n], nan where it has none.

    Raises:
        ArtifactError: the table holds a case twice or one that is not asked for.
    """
    held = to_numpy(table["case_id"])
    place = {case: i for i, case in enumerate(case_id.tolist())}
    if len(set(held.tolist())) != len(held) or not set(held.tolist()) <= set(place):
        raise ArtifactError(f"certificates and {stage} are of different cases; rerun {stage}")
    values = np.full(len(case_id), np.nan)
    values[[place[case] for case in held.tolist()]] = to_numpy(table[column])
    return values
