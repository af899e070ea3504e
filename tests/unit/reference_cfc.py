"""The method again, by brute force: one row at a time, plain loops, no line of the library.

Written from the formulas of the paper (section 3.2, Appendix A, C, K, L) and the protocol, to have
something to hold the library against. A model is a function from one row (a list of numbers) to
one list of probabilities; groups are lists of coordinate numbers.
"""

import math

TINY = 1e-8  # the paper's ε in eq. 8, 10 and 29


# ---- scores of one prediction (Appendix C)


def clipped(p, clip=1e-12):
    """Eq. 14."""
    raised = [max(float(value), clip) for value in p]
    total = sum(raised)
    return [value / total for value in raised]


def pseudo_logits(p, clip=1e-12):
    """Eq. 15."""
    logs = [math.log(value) for value in clipped(p, clip)]
    centre = sum(logs) / len(logs)
    return [value - centre for value in logs]


def label_of(p):
    """Argmax, ties to the lowest class."""
    best = 0
    for c in range(1, len(p)):
        if p[c] > p[best]:
            best = c
    return best


def margin_of(p, own, clip=1e-12):
    """Eq. 2 for the class ``own``."""
    z = pseudo_logits(p, clip)
    return z[own] - max(z[c] for c in range(len(z)) if c != own)


def unsigned_margin(p, clip=1e-12):
    """Eq. 18: gap of the two largest pseudo-logits."""
    largest, second = sorted(pseudo_logits(p, clip), reverse=True)[:2]
    return largest - second


def confidence_scores(p, clip=1e-12):
    """Eq. 16 to 19."""
    q, z = clipped(p, clip), pseudo_logits(p, clip)
    return {
        "max_softmax": max(q),
        "entropy": -sum(value * math.log(value) for value in q),
        "margin": unsigned_margin(p, clip),
        "negative_energy": math.log(sum(math.exp(value) for value in z)),
    }


def collapse(margin, stressed):
    """Eq. 8, 29 and 31."""
    return max(0.0, (margin - stressed) / (abs(margin) + TINY))


# ---- states


def removed(x, chosen, groups, baseline):
    """R(x, S): the coordinates of the chosen groups are the baseline's."""
    state = list(x)
    for g in chosen:
        for i in groups[g]:
            state[i] = baseline[i]
    return state


def attenuated(x, chosen, groups, baseline, severity):
    """x + λ(x̄ − x) on the chosen groups, x̄ itself at λ = 1."""
    state = list(x)
    for g in chosen:
        for i in groups[g]:
            if severity == 1:
                state[i] = baseline[i]
            else:
                low, high = sorted((x[i], baseline[i]))
                state[i] = min(max(x[i] + severity * (baseline[i] - x[i]), low), high)
    return state


# ---- the certificate (Algorithm 1)


def certificate(
    x,
    groups,
    baseline,
    model,
    *,
    depth=10,
    order="static",
    operators=("top1", "top3", "all"),
    severities=(0.25, 0.5, 0.75, 1.0),
    weights=(1 / 3, 1 / 3, 1 / 3),
    clip=1e-12,
    margin="original",
):
    """Certificate of one row as a dictionary."""
    p = model(x)
    own = label_of(p)

    def support(q):
        return unsigned_margin(q, clip) if margin == "unsigned" else margin_of(q, own, clip)

    start = support(p)
    count = len(groups)
    delta = [start - support(model(removed(x, [g], groups, baseline))) for g in range(count)]
    ranked = sorted(range(count), key=lambda g: (-delta[g], g))
    depth = min(depth, count)
    if order == "greedy":
        ranked = greedy_order(x, groups, baseline, model, support, ranked, depth)

    path = [model(removed(x, ranked[:k], groups, baseline)) for k in range(depth + 1)]
    path_margin = [support(q) for q in path]
    path_label = [label_of(q) for q in path]
    budget = depth + 1
    for k in range(depth, 0, -1):
        if path_label[k] != own:
            budget = k
    rcma = sum(collapse(start, m) for m in path_margin) / (depth + 1)

    thresholds = []
    for operator in operators:
        first = math.inf
        for severity in sorted(severities, reverse=True):
            state = degraded(operator, x, ranked, groups, baseline, severity, depth)
            if label_of(model(state)) != own:
                first = severity
        thresholds.append(first)
    partial = sum(1 / (t + TINY) for t in thresholds if t < math.inf) / len(operators)
    u = weights[0] * rcma + weights[1] / budget + weights[2] * partial
    return {
        "predicted": own,
        "proba": list(p),
        "confidence": max(clipped(p, clip)),
        "margin": start,
        "saturated": any(value <= clip for value in p),
        "delta": delta,
        "order": ranked,
        "path_margin": path_margin,
        "path_proba": [list(q) for q in path],
        "path_label": path_label,
        "flip_budget": budget,
        "rcma": rcma,
        "lambda_star": thresholds,
        "u": u,
        "fds": 1 - math.exp(-u),
    }


def greedy_order(x, groups, baseline, model, support, static, depth):
    """Remove, each time, the remaining group whose removal leaves the least support."""
    taken = []
    while len(taken) < depth:
        best, least = None, math.inf
        for g in range(len(groups)):
            if g not in taken:
                left = support(model(removed(x, [*taken, g], groups, baseline)))
                if left < least:
                    best, least = g, left
        taken.append(best)
    return taken + [g for g in static if g not in taken]


def degraded(operator, x, ranked, groups, baseline, severity, depth):
    """State of one degradation operator at one severity."""
    if operator == "prefix":
        steps = next(k for k in range(1, depth + 1) if k >= severity * depth - 1e-9)
        return removed(x, ranked[:steps], groups, baseline)
    chosen = {"top1": ranked[:1], "top3": ranked[:3], "all": ranked}[operator]
    return attenuated(x, chosen, groups, baseline, severity)


# ---- held-out stress, from given uniforms


def stressed(operator, x, severity, u, groups, baseline, scale, donors):
    """One stressed state; ``u`` are the uniforms of this case, operator, severity and draw."""
    state = list(x)
    if operator == "mask":
        state = removed(x, [g for g in range(len(groups)) if u[g] < severity], groups, baseline)
    elif operator == "dropout":
        for i in range(len(x)):
            if u[i] < severity:
                state[i] = baseline[i]
    elif operator == "noise":
        position = 0
        for i in range(len(x)):
            if scale[i] != 0:
                state[i] = x[i] + severity * scale[i] * (2 * u[position] - 1)
                position += 1
    elif operator == "swap":
        donor = donors[int(u[0] * len(donors))]
        for g, members in enumerate(groups):
            if u[1 + g] < severity:
                for i in members:
                    state[i] = donor[i]
    return state


# ---- brittle labels (Appendix K)


def is_brittle(
    kind, cells, draws, use_collapse, confidence, own, margin, outcome, *, tau_p=0.9, tau=0.5
):
    """Label of one case; ``outcome[operator, severity]`` lists (margin, label) of every draw."""
    if confidence < tau_p:
        return False
    for operator, grid in cells.items():
        for severity in grid:
            seen = outcome[operator, severity][:draws]
            flips = [label != own for _, label in seen]
            kappas = [collapse(margin, m) for m, _ in seen]
            if kind == "any_draw":
                fails = any(flips) or (use_collapse and any(k >= tau for k in kappas))
            else:
                fails = sum(flips) / len(flips) >= tau
                fails = fails or (use_collapse and sum(kappas) / len(kappas) >= tau)
            if fails:
                return True
    return False


# ---- small models


def softmax_model(weights, bias):
    """Return a softmax-linear model of one row; ``weights[i][c]``."""

    def model(row):
        scores = [
            b + sum(float(v) * w[c] for v, w in zip(row, weights, strict=True))
            for c, b in enumerate(bias)
        ]
        top = max(scores)
        powers = [math.exp(s - top) for s in scores]
        return [value / sum(powers) for value in powers]

    return model


def tree_model(features, thresholds, leaves):
    """Return a complete binary tree: level j asks ``row[features[j]] > thresholds[j]``."""

    def model(row):
        leaf = 0
        for feature, threshold in zip(features, thresholds, strict=True):
            leaf = 2 * leaf + (float(row[feature]) > threshold)
        return list(leaves[leaf])

    return model
