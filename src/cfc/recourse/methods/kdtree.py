"""Nearest favourable training row (the published baseline "KD-tree")."""

import numpy as np

from cfc.recourse.methods.base import Method, no_candidate


class NearestFavourable(Method):
    """The training row the base network accepts that is nearest in Euclidean distance.

    The network's prediction counts, not the row's label; ties go to the earlier row. There is no
    candidate only when the network accepts no training row.
    """

    name, title = "kdtree", "Nearest neighbour"
    is_batched = True

    def generate(self, X: np.ndarray, row_ids: np.ndarray) -> np.ndarray:
        """Return the nearest accepted training row of each request."""
        return nearest_of(X, self.problem.favourable)


def nearest_of(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the row nearest to each request in Euclidean distance, NaN when there is no row."""
    if not len(rows):
        return no_candidate(len(X), X.shape[1])
    pool = rows.astype(np.float64)
    # one request at a time: the distances are then summed in the same order in every batch
    places = [int(((pool - x.astype(np.float64)) ** 2).sum(axis=1).argmin()) for x in X]
    return pool[places]
