"""How far the removal path is from the smallest set of groups that flips (paper, Appendix I).

Two searches beside the path of a certificate, under the same protocol: exact enumeration where the
number of subsets allows it, and beam search everywhere. Both take rows, groups, a baseline and a
function from rows to probabilities; states of many cases and many subsets go to the model together,
and the result does not depend on how they are cut into calls.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb

import numpy as np

from cfc.errors import CfcError
from cfc.groups import Groups
from cfc.predictor import CountedPredictor, Predict, cases_per_chunk
from cfc.scores import CLIP, margin_of, predicted_label

_BLOCK = 256  # subsets asked at once: a case stops as soon as one of them flips


@dataclass(frozen=True)
class SearchResult:
    """Smallest flipping sets found for n cases.

    Attributes:
        exact_depth: size D up to which every subset was looked at; 0 = exact search not feasible.
        n_subsets: number of subsets of size 1 to min(K, limit), whether searched or not.
        k_exact: size of the smallest flipping set, D + 1 if none has up to D groups; int16 [n],
            all 0 where exact search was not feasible (eq. 21).
        exact_set: its groups, ascending; the first in lexicographic order, () if none.
        k_beam: size at which beam search met a flip, K + 1 if none; int16 [n] (eq. 22).
        beam_set: its groups, ascending; of those met, the one with the largest margin collapse.
        rows: forward rows made.
        model_seconds: time spent inside the model.
    """

    exact_depth: int
    n_subsets: int
    k_exact: np.ndarray
    exact_set: list[tuple[int, ...]]
    k_beam: np.ndarray
    beam_set: list[tuple[int, ...]]
    rows: int
    model_seconds: float


def subset_count(n_groups: int, depth: int) -> int:
    """Return the number of non-empty subsets of at most ``depth`` of ``n_groups`` groups."""
    return sum(comb(n_groups, k) for k in range(1, min(depth, n_groups) + 1))


def exact_depth(n_groups: int, depth: int, *, limit: int, most_subsets: int) -> int:
    """Return the size up to which exact search is made: min(K, G, limit), or 0 if not feasible.

    Feasible means that all subsets up to that size number at most ``most_subsets``.
    """
    reach = min(depth, n_groups, limit)
    return reach if subset_count(n_groups, reach) <= most_subsets else 0


def search_flips(
    X: np.ndarray,
    groups: Groups,
    baseline: np.ndarray,
    predict: Predict,
    *,
    depth: int,
    limit: int = 5,
    most_subsets: int = 20_000,
    width: int = 10,
    clip: float = CLIP,
    chunk_bytes: int | None = None,
    progress=None,
) -> SearchResult:
    """Search, for every row of X, the smallest set of groups whose removal flips its label.

    Args:
        X: rows [n, d], taken as float32.
        groups: partition of the d coordinates into G groups.
        baseline: x̄ [d].
        predict: float32 rows [r, d] -> probabilities [r, C].
        depth: audit depth K >= 1; min(K, G) is used.
        limit: largest subset size of the exact search, at least 1.
        most_subsets: exact search is made only where no more subsets than this exist.
        width: candidates kept by beam search at each size, at least 1. Candidates are ranked by
            the margin of the originally predicted class, smallest first (largest collapse); ties
            go to the lexicographically smallest set of group numbers.
        clip: lower bound of a probability.
        chunk_bytes: size of the largest state matrix (default 64 MiB).
        progress: called with a sentence after each stage.

    Raises:
        CfcError: shapes do not fit, or a limit is below 1.
        ModelError: the model's answers are not probabilities.
    """
    X = np.ascontiguousarray(X, dtype=np.float32)
    baseline = np.ascontiguousarray(baseline, dtype=np.float32)
    if X.ndim != 2 or X.shape[1] != groups.n_coordinates or baseline.shape != (X.shape[1],):
        raise CfcError(f"rows {X.shape}, baseline {baseline.shape} and groups do not fit together")
    if min(depth, limit, width) < 1:
        raise CfcError("depth, limit and width of a search must be at least 1")
    asked = _Asked(X, groups, baseline, CountedPredictor(predict), clip, chunk_bytes)
    reach = exact_depth(len(groups), depth, limit=limit, most_subsets=most_subsets)
    depth = min(depth, len(groups))
    k_exact, exact_set = _exact(asked, reach, progress)
    k_beam, beam_set = _beam(asked, depth, width, progress)
    return SearchResult(
        exact_depth=reach,
        n_subsets=subset_count(len(groups), min(depth, limit)),
        k_exact=k_exact,
        exact_set=exact_set,
        k_beam=k_beam,
        beam_set=beam_set,
        rows=asked.model.rows,
        model_seconds=asked.model.seconds,
    )


class _Asked:
    """The cases of a search and the model's answers to states of them."""

    def __init__(self, X, groups, baseline, model, clip, chunk_bytes):
        self.X, self.groups, self.baseline, self.model = X, groups, baseline, model
        self.clip = clip
        self.rows_per_call = cases_per_chunk(1, X.shape[1], chunk_bytes)
        parts = [
            predicted_label(model(X[start : start + self.rows_per_call]))
            for start in range(0, len(X), self.rows_per_call)
        ]
        self.predicted = np.concatenate(parts) if parts else np.empty(0, dtype=np.int16)

    def __len__(self) -> int:
        return len(self.X)

    def answers(self, case: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (flips, margins) of states: ``members`` [r, k] are the groups removed."""
        flips = np.empty(len(case), dtype=bool)
        margins = np.empty(len(case))
        for start in range(0, len(case), self.rows_per_call):
            part = slice(start, start + self.rows_per_call)
            removed = np.zeros((len(case[part]), len(self.groups)), dtype=bool)
            np.put_along_axis(removed, members[part].astype(np.intp), True, axis=1)
            hit = removed[:, self.groups.of_coordinate]
            proba = self.model(np.where(hit, self.baseline, self.X[case[part]]))
            own = self.predicted[case[part]]
            flips[part] = predicted_label(proba) != own
            margins[part] = margin_of(proba, own, self.clip)
        return flips, margins


def _exact(asked: _Asked, reach: int, progress) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    found: list[tuple[int, ...]] = [()] * len(asked)
    size_found = np.full(len(asked), reach + 1 if reach else 0, dtype=np.int16)
    alive = np.arange(len(asked)) if reach else np.empty(0, dtype=np.intp)
    for size in range(1, reach + 1):
        for block in _blocks(combinations(range(len(asked.groups)), size)):
            if not len(alive):
                break
            case = np.repeat(alive, len(block))
            flips, _ = asked.answers(case, np.tile(block, (len(alive), 1)))
            flips = flips.reshape(len(alive), len(block))
            hit = flips.any(axis=1)
            for i, first in zip(alive[hit], flips[hit].argmax(axis=1), strict=True):
                found[i] = tuple(block[first].tolist())
                size_found[i] = size
            alive = alive[~hit]
        if progress:
            progress(f"exact search, sets of {size}: {len(alive)} cases without a flip")
    return size_found, found


def _blocks(subsets: Iterator[tuple[int, ...]]) -> Iterator[np.ndarray]:
    while block := list(islice(subsets, _BLOCK)):
        yield np.array(block, dtype=np.int16)


def _beam(
    asked: _Asked, depth: int, width: int, progress
) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    n_groups = len(asked.groups)
    found: list[tuple[int, ...]] = [()] * len(asked)
    size_found = np.full(len(asked), depth + 1, dtype=np.int16)
    beams = {i: np.empty((1, 0), dtype=np.int16) for i in range(len(asked))}
    for size in range(1, depth + 1):
        if not beams:
            break
        grown = {i: _grow(beam, n_groups) for i, beam in beams.items()}
        case = np.repeat(list(grown), [len(g) for g in grown.values()])
        flips, margins = asked.answers(case, np.concatenate(list(grown.values())))
        start, beams = 0, {}
        for i, candidates in grown.items():
            part = slice(start, start + len(candidates))
            start = part.stop
            # candidates are in lexicographic order, which a stable sort keeps among ties
            order = np.argsort(margins[part], kind="stable")
            flipped = order[flips[part][order]]
            if len(flipped):
                size_found[i] = size
                found[i] = tuple(candidates[flipped[0]].tolist())
            else:
                beams[i] = candidates[order[:width]]
        if progress:
            progress(f"beam search, sets of {size}: {len(beams)} cases without a flip")
    return size_found, found


def _grow(beam: np.ndarray, n_groups: int) -> np.ndarray:
    """Return every set that has one group more than a set of the beam, each once, sorted."""
    parent = np.repeat(np.arange(len(beam)), n_groups)
    added = np.tile(np.arange(n_groups, dtype=np.int16), len(beam))
    new = ~(beam[parent] == added[:, None]).any(axis=1)
    grown = np.column_stack([beam[parent[new]], added[new]])
    return np.unique(np.sort(grown, axis=1), axis=0)


def group_names(sets: Sequence[tuple[int, ...]], names: Sequence[str]) -> list[list[str] | None]:
    """Return sets of group numbers as lists of names; None for an empty set."""
    return [[names[g] for g in chosen] or None for chosen in sets]
