"""BetaRCE: a point most of a population of networks would accept, by a vote and a Beta bound."""

from functools import cache
from typing import ClassVar

import numpy as np

from cfc.errors import ConfigError
from cfc.recourse.methods.base import Method, Param, no_candidate
from cfc.recourse.methods.spheres import Shells, growing_sphere


@cache
def votes_needed(members: int, share: float, level: float) -> int | None:
    """Return the fewest votes that show acceptance by more than a share of all networks.

    With k of n votes and Jeffreys' prior the share is Beta(0.5 + k, 0.5 + n − k); enough votes put
    its lower quantile above the share.

    Args:
        members: n, number of voters.
        share: δ in (0, 1).
        level: probability of the lower quantile, in (0, 1).

    Returns:
        k, or None where even all votes are too few (below 18 voters for 0.9 and 5 %).
    """
    from scipy.stats import beta

    for votes in range(members + 1):
        if beta.ppf(level, 0.5 + votes, 0.5 + members - votes) > share:
            return votes
    return None


class BetaRCE(Method):
    """Growing spheres to the decision boundary, then on until enough of an ensemble agree.

    The ensemble holds bootstrap networks of the base initialisation that no evaluation uses. With
    32 members, a share of 0.9 and 5 %, enough means all of them.
    """

    name, title = "betarce", "BetaRCE"
    needs_ensemble = True
    PARAMS: ClassVar[dict[str, Param]] = {
        "delta": Param(0.9, "share of networks that must accept", low=0.0, high=0.9999),
        "level": Param(0.05, "probability of the lower quantile", low=1e-6, high=0.5),
        "samples": Param(100, "points a shell", low=1),
        "step": Param(0.1, "thickness of a shell", low=1e-6),
        "first_shells": Param(200, "most shells to the base model's boundary", low=1),
        "second_shells": Param(100, "most shells to the vote", low=1),
    }

    def prepare(self) -> None:
        """Work out how many votes pass."""
        if self.problem.ensemble is None:
            raise ConfigError("betarce needs an ensemble: set recourse.ensemble to at least 1")
        members = len(self.problem.ensemble)
        self.needed = votes_needed(members, self.params["delta"], self.params["level"])

    def generate(self, X: np.ndarray, row_ids: np.ndarray) -> np.ndarray:
        """Return the point found for one request, NaN when shells run out."""
        out = no_candidate(*X.shape)
        if self.needed is None:
            return out
        shells = {"samples": self.params["samples"], "order": 2, "step": self.params["step"]}
        for i, (x, row_id) in enumerate(zip(X, row_ids, strict=True)):
            rng = self.problem.rng(row_id=row_id)
            net = self.problem.net
            first = Shells(most=self.params["first_shells"], **shells)
            start = growing_sphere(x, net.accepts, first, rng)
            if start is None:
                continue
            if not self.passes(start[None])[0]:
                second = Shells(most=self.params["second_shells"], **shells)
                start = growing_sphere(start, self.passes, second, rng)
            if start is not None:
                out[i] = start
        return out

    def passes(self, points: np.ndarray) -> np.ndarray:
        """Return whether the base network and enough of the ensemble accept points [n, p]."""
        passed = self.problem.net.accepts(points)
        if passed.any():
            votes = (self.problem.ensemble.logits(points[passed]) >= 0).sum(axis=0)
            passed[passed] = votes >= self.needed
        return passed

    def facts(self) -> dict[str, float]:
        """Return the votes needed; NaN where no vote is enough."""
        return {"betarce_votes": float("nan") if self.needed is None else float(self.needed)}
