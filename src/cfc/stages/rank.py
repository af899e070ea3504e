"""Stage rank: every ranking score of a unit's audited cases, in both signs."""

import pyarrow as pa

from cfc.artifacts import lists_to_matrix, to_numpy
from cfc.ranking import ranking_scores


def rank_unit(certificates: pa.Table, clip: float) -> pa.Table:
    """Return one row an audited case with ``<score>_paper`` and ``<score>_risk`` columns.

    Args:
        certificates: table of the certify stage.
        clip: lower bound of a probability for this unit's model.
    """
    scores = ranking_scores(
        proba=lists_to_matrix(certificates["proba"]),
        delta=lists_to_matrix(certificates["delta"]),
        clip=clip,
        **{
            name: to_numpy(certificates[name])
            for name in ("margin", "rcma", "u", "predicted", "baseline_label")
        },
    )
    names = ("dataset", "model", "seed", "case_id")
    return pa.table({**{n: certificates[n] for n in names}, **scores})
