"""A recourse method of one's own: few changes, and some features that must stay as they are.

Named in a configuration overlay, it runs beside the others:

    recourse:
      methods: [kdtree, rnce, sparse]
      own_methods: {sparse: docs/examples/sparse_recourse.py:SparseNeighbour}
      method_options: {sparse: {fixed: 2}}
"""

from typing import ClassVar

import numpy as np

from cfc.recourse.methods.base import Method, Param, nearest_rows


class SparseNeighbour(Method):
    """Copies features one by one from near accepted rows until the base network accepts.

    For each of the nearest accepted training rows, the features that differ most in units of the
    distance scale are copied first. The first row that leads to acceptance gives the candidate.
    Features that may not change are never copied: those `Problem.mutable` names, and the first
    ``fixed`` ones.
    """

    name, title = "sparse", "Sparse neighbour"
    PARAMS: ClassVar[dict[str, Param]] = {
        "rows": Param(50, "accepted training rows tried", low=1),
        "fixed": Param(0, "leading features that may not change", low=0),
    }

    def generate(self, X: np.ndarray, row_ids: np.ndarray) -> np.ndarray:
        """Return the candidate of one request, NaN when no row leads to acceptance."""
        out = np.full(X.shape, np.nan)
        problem = self.problem
        free = problem.mutable.copy()
        free[: self.params["fixed"]] = False
        for i, x in enumerate(X):
            for place in nearest_rows(x, problem.favourable)[: self.params["rows"]]:
                row = problem.favourable[place]
                gap = np.where(free, np.abs(row - x) / problem.data.scale, 0)
                order = np.argsort(-gap, kind="stable")[: int((gap > 0).sum())]
                # candidate k takes the first k + 1 features of the row
                steps = np.repeat(x[None], len(order), axis=0)
                for k, feature in enumerate(order):
                    steps[k:, feature] = row[feature]
                accepted = np.flatnonzero(problem.net.accepts(steps))
                if len(accepted):
                    out[i] = steps[accepted[0]]
                    break
        return out
