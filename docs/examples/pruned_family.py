"""A family of model change of one's own: the deployed network is pruned to save memory.

Named in a configuration overlay, it joins the others:

    recourse:
      families: [bootstrap, pruned]
      own_families: {pruned: docs/examples/pruned_family.py:Pruned}
"""

import numpy as np

from cfc.recourse.families import VARIANTS, BaseModel, ChangeFamily, Rows, Variant
from cfc.recourse.seeds import SeedPlan


class Pruned(ChangeFamily):
    """Weights below a quantile of their absolute values become 0; nothing is trained."""

    name, title = "pruned", "Pruned"

    def variants(self, base: BaseModel, rows: Rows, seeds: SeedPlan) -> list[Variant]:
        """Return networks with 2 % to 50 % of their parameters at 0."""
        flat = base.net.flat()
        out = []
        for share in np.round(np.linspace(0.02, 0.5, VARIANTS), 2):
            kept = np.where(np.abs(flat) < np.quantile(np.abs(flat), share), 0, flat)
            out.append(Variant(f"{share:g}", 0, net=base.net.with_flat(kept)))
        return out
