"""The certificate engine (paper, section 3.2, Appendix A and L).

It takes rows, groups, a baseline and a function from rows to probabilities, and nothing else. All
states of many cases go to the model in few calls; the numbers do not depend on how cases are cut
into chunks.
"""

import math
from dataclasses import dataclass

import numpy as np

from cfc.errors import CfcError
from cfc.groups import Groups
from cfc.operators import DEGRADATIONS, Context
from cfc.predictor import CountedPredictor, Predict, cases_per_chunk
from cfc.protocol import Protocol, forward_rows
from cfc.scores import (
    EPSILON,
    clip_probabilities,
    is_saturated,
    margin_of,
    predicted_label,
    relative_collapse,
)
from cfc.seeding import uniforms

_TOP = {"top1": 1, "top3": 3}
_FADING = (*_TOP, "all")
_NEVER = np.iinfo(np.int16).max  # place of a fixed coordinate in the order of removal


@dataclass(frozen=True)
class Certificates:
    """Certificates of n cases under one protocol; first axis of every array is the case.

    A model that knows one coordinate only, and two cases on either side of its boundary: nothing
    but the first group matters, and without it both look like the baseline.

    >>> import numpy as np
    >>> from cfc import PRESETS, Groups, certify
    >>> def predict(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 0]))
    ...     return np.column_stack([1 - p, p])
    >>> groups = Groups(["first", "second"], [[0], [1]], n_coordinates=2)
    >>> X = np.array([[2.0, 1.0], [-1.0, 1.0]])
    >>> certificates = certify(X, groups, np.array([-0.5, 0.0]), predict, PRESETS["paper"])
    >>> certificates.margin.round(3)
    array([8., 4.])
    >>> certificates.delta.round(3)  # of each group, in declared order
    array([[10.,  0.],
           [ 2.,  0.]])
    >>> certificates.flip_budget  # K + 1 = 3: the second does not flip
    array([1, 3], dtype=int16)
    >>> certificates.lambda_star[:, 0]  # first severity at which fading the top group flips
    array([ 1., inf])

    Attributes:
        predicted: class of the unstressed prediction, int16 [n].
        proba: its probabilities as the model gave them, float64 [n, C].
        confidence: largest clipped, renormalised probability, float64 [n].
        margin: m(x) >= 0, float64 [n].
        saturated: some probability is at the clip, bool [n].
        delta: one-step margin drop of each group in declared order, float64 [n, G] (eq. 3).
        order: group numbers in order of removal, int16 [n, G]; the first K make the path.
        path_margin: margin along the path, float64 [n, K + 1] (eq. 4).
        path_proba: probabilities along the path, float64 [n, K + 1, C].
        path_label: label along the path, int16 [n, K + 1].
        flip_budget: k*, in 1..K + 1, int16 [n]; K + 1 = no flip (eq. 7).
        rcma: in [0, inf), float64 [n] (eq. 8).
        lambda_star: first severity that flips, inf if none, float64 [n, |P|] (eq. 9).
        u: weighted sum of the three terms, float64 [n] (eq. 10); rank by it.
        fds: 1 − exp(−u), in [0, 1), float64 [n]; rounds to 1 for u above 37, so rank by u.
        baseline_label: class predicted for x̄ itself, fixed coordinates included.
        rows_per_case: forward rows made for one case.
        model_seconds: time spent inside the model.
        dtype: dtype in which the model answered.
    """

    predicted: np.ndarray
    proba: np.ndarray
    confidence: np.ndarray
    margin: np.ndarray
    saturated: np.ndarray
    delta: np.ndarray
    order: np.ndarray
    path_margin: np.ndarray
    path_proba: np.ndarray
    path_label: np.ndarray
    flip_budget: np.ndarray
    rcma: np.ndarray
    lambda_star: np.ndarray
    u: np.ndarray
    fds: np.ndarray
    baseline_label: int = -1
    rows_per_case: int = 0
    model_seconds: float = 0.0
    dtype: str = ""

    def __len__(self) -> int:
        return len(self.predicted)


def expected_rows(n_groups: int, protocol: Protocol) -> int:
    """Return the formula of forward rows a case under a protocol; see `forward_rows`."""
    cells = len(protocol.operators) * len(protocol.severities)
    return forward_rows(n_groups, min(protocol.depth, n_groups), protocol.order, cells)


def certify(
    X: np.ndarray,
    groups: Groups,
    baseline: np.ndarray,
    predict: Predict,
    protocol: Protocol,
    *,
    clip: float | None = None,
    forest_trees: int | None = None,
    order: np.ndarray | None = None,
    case_ids: np.ndarray | None = None,
    noise_scale: np.ndarray | None = None,
    fades: np.ndarray | None = None,
    dtype: str | np.dtype = "float32",
    chunk_bytes: int | None = None,
    progress=None,
) -> Certificates:
    """Certify every row of X.

    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from cfc import PRESETS, Groups, certify
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(n_estimators=20, random_state=0).fit(X[:400], y[:400])
    >>> measured = ["mean", "error", "worst"]  # of ten properties each
    >>> groups = Groups(measured, np.arange(30).reshape(3, 10), n_coordinates=30)
    >>> certificates = certify(
    ...     X[400:],
    ...     groups,
    ...     X[:400].mean(axis=0),
    ...     model.predict_proba,
    ...     PRESETS["audit"],
    ...     forest_trees=20,
    ... )
    >>> certificates.path_margin.shape  # nothing removed, then one, two, three groups
    (169, 4)
    >>> most_fragile = np.argsort(-certificates.u)[:10]
    >>> bool((certificates.flip_budget[most_fragile] == 1).all())
    True

    Args:
        X: rows, [n, d]; taken as ``dtype`` in C order.
        groups: partition of the d coordinates.
        baseline: x̄, [d].
        predict: rows [r, d] of ``dtype`` -> probabilities [r, C].
        protocol: what is declared.
        clip: lower bound of a probability; default: the protocol's, see ``forest_trees``.
        forest_trees: number of trees if the model is a forest: a protocol with
            ``clip_forest_votes`` clips it at half a vote. Ignored when ``clip`` is given.
        order: group numbers in order of removal, one order for all cases [G] or one a case
            [n, G], in place of the order the protocol would find.
        case_ids: stable whole numbers [n] in [0, 2**32), used by ``sign_noise`` only.
        noise_scale: standard deviation of each numeric coordinate, 0 elsewhere, [d]; needed by
            ``sign_noise`` only.
        fades: coordinates that can be moved part of the way to the baseline, bool [d], default
            all. The others, such as a category's code or a coordinate whose baseline is NaN, are
            replaced as a whole from severity ½ on, where a half-way value is nearer the baseline.
        dtype: ``float32`` or ``float64``, in which states are made and the model is asked.
        chunk_bytes: size of the largest state matrix (default 64 MiB).
        progress: called with the number of cases done after each chunk.

    Raises:
        CfcError: shapes do not fit, an order is no permutation of the groups, or ``sign_noise``
            lacks its inputs.
        ModelError: the model's answers are not probabilities.
    """
    X = np.ascontiguousarray(X, dtype=dtype)
    baseline = np.ascontiguousarray(baseline, dtype=dtype)
    _check_inputs(X, groups, baseline, protocol, case_ids, noise_scale, fades)
    order = None if order is None else _given_order(order, len(X), len(groups))
    model = CountedPredictor(predict)
    job = _Job(
        groups=groups,
        baseline=baseline,
        baseline_proba=model(baseline[None])[0],
        model=model,
        protocol=protocol,
        depth=min(protocol.depth, len(groups)),
        clip=protocol.clip_for(forest_trees) if clip is None else clip,
        noise_scale=noise_scale,
        fades=None if fades is None or np.all(fades) else np.asarray(fades, dtype=bool),
    )
    most_states = max(1 + len(groups), job.depth + len(_degradations(job)))
    step = cases_per_chunk(most_states, X.shape[1], chunk_bytes, X.itemsize)
    parts = []
    for start in range(0, max(1, len(X)), step):
        ids = None if case_ids is None else case_ids[start : start + step]
        given = None if order is None else order[start : start + step]
        parts.append(_certify_chunk(X[start : start + step], ids, job, given))
        if progress:
            progress(min(start + step, len(X)))
    arrays = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    return Certificates(
        **arrays,
        baseline_label=int(np.argmax(job.baseline_proba)),
        rows_per_case=(model.rows - 1) // len(X) if len(X) else 0,
        model_seconds=model.seconds,
        dtype=model.dtype,
    )


@dataclass(frozen=True)
class _Job:
    groups: Groups
    baseline: np.ndarray
    baseline_proba: np.ndarray
    model: CountedPredictor
    protocol: Protocol
    depth: int
    clip: float
    noise_scale: np.ndarray | None
    fades: np.ndarray | None

    @property
    def ends_at_baseline(self) -> bool:
        """Tell whether removing every group leaves x̄ itself: no coordinate is fixed."""
        return not self.groups.fixed.size

    def margins(self, proba: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Return margins [n, s] of states [n, s, C] for the original class."""
        n, states, classes = proba.shape
        flat = proba.reshape(-1, classes)
        if self.protocol.margin == "unsigned":
            labels = np.argmax(flat, axis=1)
        else:
            labels = np.repeat(predicted, states)
        return margin_of(flat, labels, self.clip).reshape(n, states)

    def ask(self, states: np.ndarray) -> np.ndarray:
        """Return probabilities [n, s, C] of states [n, s, d]."""
        n, s, d = states.shape
        if n * s == 0:  # some libraries refuse to predict no rows
            return np.empty((n, s, len(self.baseline_proba)), dtype=self.baseline_proba.dtype)
        return self.model(states.reshape(n * s, d)).reshape(n, s, -1)


def _check_inputs(X, groups, baseline, protocol, case_ids, noise_scale, fades) -> None:
    if X.ndim != 2 or X.shape[1] != groups.n_coordinates:
        raise CfcError(
            f"rows have shape {X.shape}, but the groups partition {groups.n_coordinates} "
            "coordinates"
        )
    if baseline.shape != (X.shape[1],):
        raise CfcError(f"the baseline has shape {baseline.shape}, expected ({X.shape[1]},)")
    if fades is not None and np.shape(fades) != (X.shape[1],):
        raise CfcError(f"fades has shape {np.shape(fades)}, expected ({X.shape[1]},)")
    faded = np.ones(X.shape[1], dtype=bool) if fades is None else np.asarray(fades, dtype=bool)
    if not np.isfinite(baseline[faded]).all():
        bad = int(np.flatnonzero(~np.isfinite(baseline) & faded)[0])
        raise CfcError(f"the baseline is not finite at coordinate {bad}")
    if "sign_noise" in protocol.operators and (case_ids is None or noise_scale is None):
        raise CfcError("the operator sign_noise needs case_ids and noise_scale")


def _given_order(order: np.ndarray, n_cases: int, n_groups: int) -> np.ndarray:
    """Return a given order as [n, G], checked to hold each group once."""
    order = np.asarray(order)
    if order.shape == (n_groups,):
        order = np.broadcast_to(order, (n_cases, n_groups))
    if order.shape != (n_cases, n_groups):
        raise CfcError(
            f"the order of removal has shape {order.shape}, expected ({n_groups},) or "
            f"({n_cases}, {n_groups})"
        )
    if not (np.sort(order, axis=1) == np.arange(n_groups)).all():
        raise CfcError(f"an order of removal must hold each group number 0..{n_groups - 1} once")
    return order


def _degradations(job: _Job) -> list[tuple[str, float]]:
    """Return the (operator, severity) pairs whose state no other state coincides with."""
    pairs = []
    for operator in job.protocol.operators:
        for severity in job.protocol.severities:
            if operator == "prefix" or (operator in _FADING and severity == 1.0):
                everything = operator == "all"
                top = len(job.groups) if everything else _TOP.get(operator, 0)
                if (everything and job.ends_at_baseline) or min(top, len(job.groups)) <= job.depth:
                    continue
            pairs.append((operator, severity))
    return pairs


def _certify_chunk(
    X: np.ndarray, ids: np.ndarray | None, job: _Job, given: np.ndarray | None
) -> dict[str, np.ndarray]:
    n = len(X)
    n_groups = len(job.groups)
    one_step = np.repeat(X[:, None, :], 1 + n_groups, axis=1)
    for number, (_, index) in enumerate(job.groups):
        one_step[:, 1 + number, index] = job.baseline[index]
    proba = job.ask(one_step)
    del one_step
    predicted = predicted_label(proba[:, 0])
    margins = job.margins(proba, predicted)
    delta = margins[:, :1] - margins[:, 1:]
    if given is None and job.protocol.order == "greedy":
        order, path_proba = _greedy_path(X, delta, proba, predicted, job)
        extra, states = _extra_states(X, order, [], ids, job)
    else:
        # stable: NumPy's default sort orders ties differently on different processors
        order = np.argsort(-delta, axis=1, kind="stable") if given is None else given
        order = order.astype(np.int16)
        # the last state of a path through all groups is the baseline itself, asked once
        steps = [k for k in range(2, job.depth + 1) if k < n_groups or not job.ends_at_baseline]
        extra, states = _extra_states(X, order, steps, ids, job)
        path_proba = np.concatenate(
            [
                proba[:, :1],
                np.take_along_axis(proba[:, 1:], order[:, :1, None].astype(np.intp), axis=1),
                extra[:, : len(steps)],
                np.broadcast_to(
                    job.baseline_proba, (n, job.depth - 1 - len(steps), proba.shape[2])
                ).astype(proba.dtype),
            ],
            axis=1,
        )
        extra = extra[:, len(steps) :]
    path_label = np.argmax(path_proba, axis=2).astype(np.int16)
    path_margin = job.margins(path_proba, predicted)
    flips = path_label[:, 1:] != predicted[:, None]
    flip_budget = np.where(flips.any(axis=1), flips.argmax(axis=1) + 1, job.depth + 1)
    rcma = relative_collapse(path_margin[:, :1], path_margin).mean(axis=1)
    lambda_star = _thresholds(extra, states, path_label, predicted, job)
    u = combine(rcma, flip_budget, lambda_star, job.protocol.weights)
    base = proba[:, 0].astype(np.float64)
    return {
        "predicted": predicted,
        "proba": base,
        "confidence": clip_probabilities(base, job.clip).max(axis=1),
        "margin": path_margin[:, 0],
        "saturated": is_saturated(base, job.clip),
        "delta": delta,
        "order": order,
        "path_margin": path_margin,
        "path_proba": path_proba.astype(np.float64),
        "path_label": path_label,
        "flip_budget": flip_budget.astype(np.int16),
        "rcma": rcma,
        "lambda_star": lambda_star,
        "u": u,
        "fds": -np.expm1(-u),
    }


def combine(
    rcma: np.ndarray, flip_budget: np.ndarray, lambda_star: np.ndarray, weights
) -> np.ndarray:
    """Return u (eq. 10): w1 RCMA + w2 / k* + w3 mean over P of 1[λ* < ∞] / (λ* + 1e-8).

    Args:
        rcma: [n].
        flip_budget: k* [n], at least 1.
        lambda_star: [n, |P|], inf where nothing flips.
        weights: (w1, w2, w3).
    """
    # 1/(inf + ε) is 0, which is what an operator without a flip contributes
    degradation = (1.0 / (lambda_star + EPSILON)).mean(axis=1)
    w1, w2, w3 = weights
    return w1 * rcma + w2 / flip_budget + w3 * degradation


def _extra_states(X, order, steps, ids, job) -> tuple[np.ndarray, list[tuple[str, float]]]:
    """Ask for path states of the given depths, then for the degradation states, in one call."""
    rank = np.empty(order.shape, dtype=np.int16)
    np.put_along_axis(
        rank,
        order.astype(np.intp),
        np.arange(order.shape[1], dtype=np.int16)[None],
        axis=1,
    )
    rank = job.groups.spread(rank, _NEVER)
    pairs = _degradations(job)
    states = np.empty((len(X), len(steps) + len(pairs), X.shape[1]), dtype=X.dtype)
    for column, k in enumerate(steps):
        states[:, column] = np.where(rank < k, job.baseline, X)
    for column, (operator, severity) in enumerate(pairs, start=len(steps)):
        states[:, column] = _degrade(X, rank, operator, severity, ids, job)
    return job.ask(states), pairs


def attenuate(
    X: np.ndarray, baseline: np.ndarray, severity: float, fades: np.ndarray | None = None
) -> np.ndarray:
    """Return x + λ(x̄ − x), kept between the two, exactly x̄ at λ = 1; in the dtype of X.

    A coordinate that cannot fade is x below λ = ½ and x̄ from there on.
    """
    if severity == 1.0:
        return np.broadcast_to(baseline, X.shape)
    moved = X + X.dtype.type(severity) * (baseline - X)
    moved = np.clip(moved, np.minimum(X, baseline), np.maximum(X, baseline))
    return moved if fades is None else np.where(fades, moved, baseline if severity >= 0.5 else X)


def _degrade(X, rank, operator, severity, ids, job) -> np.ndarray:
    if operator == "sign_noise":
        # away from the label channel's streams: those are keyed by the stress operator's name
        signs = uniforms(job.protocol.seed, "sign_noise", ids, 0, np.zeros(1), X.shape[1])[:, 0]
        scale = np.asarray(job.noise_scale, dtype=X.dtype)
        return X + X.dtype.type(severity) * np.where(signs < 0.5, -scale, scale)
    if operator in DEGRADATIONS:
        return DEGRADATIONS[operator].states(
            X, severity, _context(job, rank), seed=job.protocol.seed, case_ids=ids
        )
    moved = attenuate(X, job.baseline, severity, job.fades)
    if operator == "all":
        return moved if job.ends_at_baseline else np.where(rank < _NEVER, moved, X)
    return np.where(rank < _TOP[operator], moved, X)


def _context(job: _Job, rank: np.ndarray) -> Context:
    return Context(job.groups, job.baseline, rank, None, job.noise_scale)


def _thresholds(extra, pairs, path_label, predicted, job) -> np.ndarray:
    """Return λ* [n, |P|]: the first severity whose label differs from the original one."""
    labels = np.argmax(extra, axis=2) if extra.shape[1] else np.empty((len(predicted), 0))
    column = {pair: i for i, pair in enumerate(pairs)}
    result = np.full((len(predicted), len(job.protocol.operators)), np.inf)
    for number, operator in enumerate(job.protocol.operators):
        for severity in reversed(job.protocol.severities):
            if (operator, severity) in column:
                label = labels[:, column[operator, severity]]
            elif operator == "prefix":
                label = path_label[:, math.ceil(round(severity * job.depth, 9))]
            elif operator == "all" and job.ends_at_baseline:
                label = np.argmax(job.baseline_proba)
            elif operator == "all":
                label = path_label[:, len(job.groups)]
            else:
                label = path_label[:, min(_TOP[operator], len(job.groups))]
            result[label != predicted, number] = severity
    return result


def _greedy_path(X, delta, proba, predicted, job) -> tuple[np.ndarray, np.ndarray]:
    """Re-evaluate the remaining groups after each removal; ties go to the lowest index."""
    n, n_groups = delta.shape
    rows = np.arange(n)
    order = np.argsort(-delta, axis=1, kind="stable").astype(np.int16)
    chosen = order[:, :1].astype(np.intp)
    path = [proba[:, 0], proba[rows, 1 + chosen[:, 0]]]
    current = np.where(job.groups.of_coordinate == chosen, job.baseline, X)
    for _ in range(2, job.depth + 1):
        taken = np.zeros((n, n_groups), dtype=bool)
        np.put_along_axis(taken, chosen, True, axis=1)
        remaining = np.nonzero(~taken)[1].reshape(n, n_groups - chosen.shape[1])
        states = np.where(
            job.groups.of_coordinate == remaining[:, :, None],
            job.baseline,
            current[:, None, :],
        )
        answers = job.ask(states)
        best = np.argmin(job.margins(answers, predicted), axis=1)
        path.append(answers[rows, best])
        current = states[rows, best]
        chosen = np.concatenate([chosen, remaining[rows, best][:, None]], axis=1)
    # groups beyond the audit depth keep their one-step order
    for row in range(n):
        head = chosen[row]
        order[row] = np.concatenate([head, order[row][~np.isin(order[row], head)]])
    return order, np.stack(path, axis=1)
