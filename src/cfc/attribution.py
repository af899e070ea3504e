"""Attribution to groups: Shapley values of the group game, and their concentration.

The game of a case x: the players are the groups, the worth of a coalition S of present groups is
the margin of the class predicted for x when every other group is replaced by the baseline,
v(S) = m(R(x, complement of S)). So v(all) = m(x), v(none) = m(x̄) for that class, and the values
add up to m(x) − m(x̄). The values of a group's coordinates are never computed apart: a group is one
player, so signed effects within it cancel before the absolute value is taken (protocol, section 8).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cfc.errors import CfcError
from cfc.groups import Groups
from cfc.metrics import nll
from cfc.predictor import CountedPredictor, Predict, cases_per_chunk
from cfc.scores import CLIP, margin_of, predicted_label
from cfc.seeding import generator, uniforms

EXACT_GROUPS = 12
PERMUTATIONS = 32
METHODS = ("exact", "additive", "sampled")
# rounding of a log-odds near the clip; a real interaction is larger by orders of magnitude
_ADDITIVE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class GroupShapley:
    """Shapley values of n cases.

    Attributes:
        values: signed values in natural-log units, float64 [n, G].
        standard_error: of each value, float64 [n, G]; 0 where the values are exact.
        total: m(x) − m(x̄) for the class predicted for x, float64 [n].
        method: one of `METHODS` for each case, object [n].
        rows: forward rows made.
        model_seconds: time spent inside the model.
    """

    values: np.ndarray
    standard_error: np.ndarray
    total: np.ndarray
    method: np.ndarray
    rows: int = 0
    model_seconds: float = 0.0

    @property
    def additivity_error(self) -> np.ndarray:
        """|Σ_g φ_g − (m(x) − m(x̄))|, float64 [n]; rounding only, whatever the method."""
        return np.abs(self.values.sum(axis=1) - self.total)

    @property
    def relative_error(self) -> np.ndarray:
        """sqrt(Σ_g se_g²) / Σ_g |φ_g|, float64 [n]: the size of the sampling error; 0 if exact."""
        size = np.abs(self.values).sum(axis=1)
        error = np.sqrt((self.standard_error**2).sum(axis=1))
        return np.divide(error, size, out=np.zeros(len(size)), where=size > 0)


def concentration(values: np.ndarray, top: int) -> np.ndarray:
    """Return the share of the ``top`` largest |φ_g| in their sum, in [0, 1], float64 [n].

    A case whose values are all 0 has nothing to concentrate and gets 0.

    Args:
        values: signed values [n, G].
        top: number of groups, at least 1.
    """
    size = np.sort(np.abs(values), axis=1)[:, ::-1]
    whole = size.sum(axis=1)
    share = np.divide(size[:, :top].sum(axis=1), whole, out=np.zeros(len(size)), where=whole > 0)
    # rounding: all of the sum in another order
    return np.minimum(share, 1.0)


def group_shapley(
    X: np.ndarray,
    groups: Groups,
    baseline: np.ndarray,
    predict: Predict,
    *,
    case_ids: np.ndarray,
    seed: int,
    clip: float = CLIP,
    exact_groups: int = EXACT_GROUPS,
    permutations: int = PERMUTATIONS,
    additive: bool = False,
    chunk_bytes: int | None = None,
    progress=None,
) -> GroupShapley:
    """Return the Shapley values of the group game of every row.

    - At most ``exact_groups`` groups: all 2^G states (G <= 20).
    - ``additive``, for a model whose two-class log-odds are a sum over groups, such as logistic
      regression: φ_g is the one-step drop δ_g. Cases whose drops do not add up to m(x) − m(x̄),
      because a probability is at the clip, are sampled.
    - Else sampling: ``permutations`` orders a case in antithetic pairs (an order and its reverse),
      from streams keyed by seed and case. The standard error is that of the mean over pairs.

    Args:
        X: rows [n, d]; taken as float32 in C order.
        groups: partition of the d coordinates.
        baseline: x̄ [d].
        predict: float32 rows [r, d] -> probabilities [r, C].
        case_ids: stable whole numbers in [0, 2**32), [n].
        seed: root seed of the unit.
        clip: lower bound of a probability.
        exact_groups: see above.
        permutations: even, at least 4.
        additive: whether the model is linear in its log-odds.
        chunk_bytes: size of the largest state matrix (default 64 MiB).
        progress: called with the number of cases done after each chunk.

    Raises:
        CfcError: shapes do not fit, or a setting is out of range.
        ModelError: the model's answers are not probabilities.
    """
    X = np.ascontiguousarray(X, dtype=np.float32)
    baseline = np.ascontiguousarray(baseline, dtype=np.float32)
    _check_inputs(X, groups, baseline, case_ids, exact_groups, permutations)
    game = _Game(groups, baseline, CountedPredictor(predict), clip)
    n, n_groups = len(X), len(groups)
    values, errors = np.zeros((n, n_groups)), np.zeros((n, n_groups))
    total = np.zeros(n)
    method = np.full(n, "exact", dtype=object)
    ids = np.asarray(case_ids)
    exact = n_groups <= exact_groups
    states = 2 + n_groups
    if exact:
        states = 2**n_groups
    elif not additive:
        states = 2 + permutations * (n_groups - 1)
    step = cases_per_chunk(states, X.shape[1], chunk_bytes)
    for start in range(0, n, step):
        part = np.arange(start, min(start + step, n))
        if exact:
            values[part], total[part] = _all_states(game, X[part])
        else:
            todo = part
            if additive:
                drops, total[part] = _one_step(game, X[part])
                gap = np.abs(drops.sum(axis=1) - total[part])
                fits = gap <= _ADDITIVE_TOLERANCE * (1.0 + np.abs(drops).sum(axis=1))
                values[part[fits]] = drops[fits]
                method[part[fits]] = "additive"
                todo = part[~fits]
            if len(todo):
                values[todo], errors[todo], total[todo] = _sampled(
                    game, X[todo], ids[todo], seed, permutations
                )
                method[todo] = "sampled"
        if progress:
            progress(int(part[-1]) + 1)
    return GroupShapley(values, errors, total, method, game.model.rows, game.model.seconds)


@dataclass(frozen=True)
class _Game:
    groups: Groups
    baseline: np.ndarray
    model: CountedPredictor
    clip: float

    def worth(self, X: np.ndarray, present: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Return v(S) [n, s] of coalitions [s, G] or [n, s, G] for the original class."""
        n, d = X.shape
        keep = present[..., self.groups.of_coordinate]
        states = np.where(keep, X[:, None, :], self.baseline)
        count = states.shape[1]
        if not n * count:
            return np.empty((n, count))
        proba = self.model(states.reshape(n * count, d))
        return margin_of(proba, np.repeat(predicted, count), self.clip).reshape(n, count)

    def ends(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the predicted class, v(all) and v(none) of each row, each [n]."""
        proba = self.model(X)
        predicted = predicted_label(proba)
        empty = np.repeat(self.model(self.baseline[None]), len(X), axis=0)
        return predicted, *(margin_of(p, predicted, self.clip) for p in (proba, empty))


def _check_inputs(X, groups, baseline, case_ids, exact_groups, permutations) -> None:
    if X.ndim != 2 or X.shape[1] != groups.n_coordinates or baseline.shape != X.shape[1:]:
        raise CfcError(
            f"rows {X.shape}, baseline {baseline.shape} and groups of {groups.n_coordinates} "
            "coordinates do not fit together"
        )
    if len(case_ids) != len(X):
        raise CfcError(f"{len(case_ids)} case ids for {len(X)} rows")
    if not 0 <= exact_groups <= 20:
        raise CfcError(f"exact_groups is {exact_groups}: 2^G states need at most 20 groups")
    if permutations < 4 or permutations % 2:
        raise CfcError(
            f"permutations is {permutations}: give an even number of at least 4, for two pairs"
        )


def _all_states(game: _Game, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values [n, G] and totals [n] from the worth of every coalition."""
    n_groups = len(game.groups)
    present = (np.arange(2**n_groups)[:, None] >> np.arange(n_groups) & 1).astype(bool)
    predicted, _, _ = game.ends(X)
    worth = game.worth(X, present, predicted)
    size = present.sum(axis=1)
    # φ_g = Σ_{S∌g} |S|! (G−|S|−1)! / G! (v(S∪g) − v(S)), gathered by coalition; 1/(G binom(G−1,s))
    joined = [0.0, *(1 / (n_groups * math.comb(n_groups - 1, s)) for s in range(n_groups))]
    left = [*(1 / (n_groups * math.comb(n_groups - 1, s)) for s in range(n_groups)), 0.0]
    weights = np.where(present, np.array(joined)[size, None], -np.array(left)[size, None])
    # einsum, not a matrix product: its rounding does not follow the batch size
    values = np.einsum("ns,sg->ng", worth, weights)
    return values, worth[:, -1] - worth[:, 0]


def _one_step(game: _Game, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one-step drops δ [n, G] and totals [n]."""
    predicted, full, empty = game.ends(X)
    without = ~np.eye(len(game.groups), dtype=bool)
    return full[:, None] - game.worth(X, without, predicted), full - empty


def _sampled(
    game: _Game, X: np.ndarray, ids: np.ndarray, seed: int, permutations: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values and their standard errors [n, G], and totals [n], over antithetic pairs."""
    n, n_groups = len(X), len(game.groups)
    pairs = permutations // 2
    u = uniforms(seed, "group_shapley", ids, 0, np.arange(pairs), n_groups)
    forward = np.argsort(u, axis=2, kind="stable")
    orders = np.concatenate([forward, forward[:, :, ::-1]], axis=1)
    place = np.argsort(orders, axis=2, kind="stable")
    steps = np.arange(1, n_groups)
    # coalition after k arrivals: the groups whose place is below k
    present = place[:, :, None, :] < steps[:, None]
    predicted, full, empty = game.ends(X)
    inner = game.worth(X, present.reshape(n, -1, n_groups), predicted)
    worth = np.concatenate(
        [
            np.broadcast_to(empty[:, None, None], (n, permutations, 1)),
            inner.reshape(n, permutations, n_groups - 1),
            np.broadcast_to(full[:, None, None], (n, permutations, 1)),
        ],
        axis=2,
    )
    gained = np.take_along_axis(np.diff(worth, axis=2), place, axis=2)
    by_pair = (gained[:, :pairs] + gained[:, pairs:]) / 2
    error = by_pair.std(axis=1, ddof=1) / math.sqrt(pairs)
    return by_pair.mean(axis=1), error, full - empty


def random_orders(n_groups: int, count: int, seed: int) -> np.ndarray:
    """Return seeded random orders of removal, int64 [count, G], the same for all cases."""
    rng = generator(seed, "random group orders")
    return np.stack([rng.permutation(n_groups) for _ in range(count)])


def permutation_importance(
    X: np.ndarray,
    y: np.ndarray,
    groups: Groups,
    predict: Predict,
    *,
    seed: int,
    repeats: int = 5,
) -> np.ndarray:
    """Return the importance of each group, float64 [G]: the log-loss its shuffling costs.

    All coordinates of a group are shuffled together over the rows, so its values stay whole; the
    mean over ``repeats`` shuffles minus the log-loss of the unshuffled rows (paper, section Q.3).

    Args:
        X: validation rows [n, d], float32.
        y: class codes [n].
        groups: partition of the coordinates.
        predict: float32 rows [r, d] -> probabilities [r, C].
        seed: root seed of the unit.
        repeats: shuffles of each group, at least 1.
    """
    model = CountedPredictor(predict)
    start = nll(model(X), y)
    rng = generator(seed, "permutation importance")
    losses = np.empty((repeats, len(groups)))
    for repeat in range(repeats):
        order = rng.permutation(len(X))
        for g, (_, index) in enumerate(groups):
            shuffled = X.copy()
            shuffled[:, index] = X[np.ix_(order, index)]
            losses[repeat, g] = nll(model(shuffled), y)
    return losses.mean(axis=0) - start


def order_of(importance: Sequence[float]) -> np.ndarray:
    """Return group numbers by falling importance, ties by lowest number, int64 [G]."""
    return np.argsort(-np.asarray(importance, dtype=np.float64), kind="stable")
