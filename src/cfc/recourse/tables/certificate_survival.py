"""Table ``certificate_survival``: certificates of requests against survival of their recourse.

An open question of our own: does a request whose evidence is about to fail have recourse that does
not last? Nothing beyond the association is claimed.
"""

import numpy as np
import pandas as pd

from cfc.bootstrap import bootstrap_mean
from cfc.recourse.results import PERCENT, Results, family_title, method_title, spearman
from cfc.recourse.tables.base import dataset_title, finished
from cfc.tables.base import UNDEFINED, TableResult, interval, number

TITLE = "Certificates of requests and survival of their recourse (ours)"
ALL = "all"
SCORES = {
    "u": "FDS (u)",
    "flip_budget": "flip budget k*",
    "k_exact": "exact flip budget",
    "confidence": "confidence of the refusal",
    "distance": "distance of the candidate",
}
# score -> (what it is a score of, what is held fixed)
GIVEN = {"u_given": ("u", "confidence"), "k_exact_given": ("k_exact", "confidence")}
SHOWN = {
    **SCORES,
    "u_given": "FDS (u), given the confidence",
    "k_exact_given": "exact flip budget, given the confidence",
}
_MIN_CANDIDATES = 10
_MIN_UNITS = 5
_FLIP_GROUPS = ("1", "2", "3 or more", "none found")


def build(results: Results) -> TableResult:
    """Return the table.

    A unit is a data set and base model. In each unit, the rank correlation (Spearman) over valid
    candidates of a request's score with the share of changed models its candidate survives (and
    the partial one at fixed confidence of the refusal); then the mean over units within a data set,
    then over data sets, with a 95 % bootstrap interval over units (stratified by data set).

    Data, by ``kind``: ``correlation``: one row a method (and ``all``), family (and ``all``) and
    ``score``; ``survival_pct``: one row a data set, method and group of the flip budget. Columns:
    dataset, method, family, kind, score, value, low, high, n_units, n_undefined, n_candidates.
    """
    frame = _joined(results)
    data = pd.DataFrame([*_correlations(results, frame), *_by_flip_budget(results, frame)])
    displays = [
        (f"Rank correlation of survival with {text}", _shown(results, data, score))
        for score, text in SHOWN.items()
    ]
    head = "Survival, %, by exact flip budget of the request (candidates)"
    displays += [
        (f"{head}: {dataset_title(results, d)}", _groups(results, data, d))
        for d in results.datasets
    ]
    notes = [
        "Positive: the larger the score, the more changed models accept the candidate. FDS is "
        "large where little evidence has to fail before the refusal turns, so such a request is "
        "near the boundary; flip budgets are small there. The confidence of the refusal and the "
        "candidate's own distance are shown beside them for comparison. Given the confidence: the "
        "partial rank correlation, what is left when requests are equally confidently refused.",
        f"A unit counts where at least {_MIN_CANDIDATES} valid candidates have more than one score "
        f"and more than one survival (in a group of the flip budget: {_MIN_CANDIDATES} valid "
        f"candidates); an interval needs {_MIN_UNITS} units. Bold: the interval excludes 0. There "
        "are many cells, so some will do so by chance. The mean over methods can hide opposite "
        "signs.",
        "Base models of a data set share its split, and on small data sets most requests, so "
        "intervals speak of other first weights, not of other data.",
        "Associations over the requests of one base model; nothing here says that changing the "
        "evidence would change how long recourse lasts.",
    ]
    return finished(results, "certificate_survival", TITLE, data, displays, notes)


def _joined(results: Results) -> pd.DataFrame:
    keys = ["dataset", "base", "row_id"]
    per_family = results.survival
    over_all = (
        per_family.groupby([*keys, "method"], sort=False)["share"].mean().reset_index()
    ).assign(family=ALL)
    frame = pd.concat([per_family, over_all], ignore_index=True)
    frame = frame.merge(
        results.candidates[[*keys, "method", "distance"]], on=[*keys, "method"], how="left"
    )
    return frame.merge(results.certificates, on=keys, how="left", validate="many_to_one")


def _rank_correlations(own: pd.DataFrame) -> dict[str, float]:
    found = {score: _spearman(own, score, "share") for score in SCORES}
    for name, (score, fixed) in GIVEN.items():
        found[name] = partial(found[score], found[fixed], _spearman(own, score, fixed))
    return found


def _spearman(own: pd.DataFrame, one: str, other: str) -> float:
    pair = own[[one, other]].dropna().astype(float)
    if len(pair) < _MIN_CANDIDATES:
        return float("nan")
    return spearman(pair[one], pair[other])


def partial(with_score: float, with_fixed: float, between: float) -> float:
    """Return the partial correlation of score and survival from the three plain ones.

    Args:
        with_score, with_fixed: of survival with the score and with what is held fixed.
        between: of the score with what is held fixed. NaN anywhere, or ±1 here or with what is held
            fixed, gives NaN.
    """
    left = (1 - with_fixed**2) * (1 - between**2)
    if not left > 1e-12:
        return float("nan")
    return float((with_score - with_fixed * between) / np.sqrt(left))


def _correlations(results: Results, frame: pd.DataFrame):
    units = [
        {**dict(zip(("method", "family", "dataset", "base"), key, strict=True)), "n": len(own)}
        | _rank_correlations(own)
        for key, own in frame.groupby(["method", "family", "dataset", "base"], sort=False)
    ]
    units = pd.DataFrame(units)
    # over methods: the mean of the methods' correlations in a unit
    keys = ["family", "dataset", "base"]
    whole = units.groupby(keys, sort=False)[[*SHOWN]].mean().reset_index().assign(method=ALL)
    whole["n"] = units.groupby(keys, sort=False)["n"].sum().to_numpy()
    units = pd.concat([units, whole], ignore_index=True)
    for method in (ALL, *results.methods):
        for family in (ALL, *results.families):
            own = units[(units["method"] == method) & (units["family"] == family)]
            for score in SHOWN:
                yield {
                    "dataset": ALL,
                    "method": method,
                    "family": family,
                    "kind": "correlation",
                    "score": score,
                    **_estimate(results, own, score),
                    "n_candidates": int(own["n"].sum()),
                }


def _estimate(results: Results, own: pd.DataFrame, column: str) -> dict[str, float]:
    defined = own[own[column].notna()]
    counts = {"n_units": len(defined), "n_undefined": len(own) - len(defined)}
    values = defined[column].to_numpy(dtype=float)
    groups = defined["dataset"].to_numpy().astype(str)
    if not len(values):
        return {"value": np.nan, "low": np.nan, "high": np.nan, **counts}
    found = bootstrap_mean(
        values,
        groups,
        scheme="stratified",
        resamples=results.settings["n_bootstrap"],
        seed=results.settings["bootstrap_seed"],
    )
    few = len(values) < _MIN_UNITS
    low, high = (np.nan, np.nan) if few else (found.low, found.high)
    return {"value": found.value, "low": low, "high": high, **counts}


def flip_group(k_exact: float, k_beam: float, depth: int) -> str:
    """Return the class of a request's exact flip budget.

    Args:
        k_exact: smallest flipping set, depth + 1 when none up to the depth flips, NaN when no
            exact search was made.
        k_beam: what beam search met; used where there is no exact search.
        depth: largest set the exact search looked at.
    """
    k = k_beam if np.isnan(k_exact) else k_exact
    if k > depth:
        return _FLIP_GROUPS[3]
    return str(int(k)) if k < 3 else _FLIP_GROUPS[2]


def _by_flip_budget(results: Results, frame: pd.DataFrame):
    depth = results.settings["exact_depth"]
    own = frame[frame["family"] == ALL]
    own = own.assign(
        group=[
            flip_group(float(k), float(b), depth)
            for k, b in zip(own["k_exact"].astype(float), own["k_beam"], strict=True)
        ]
    )
    keys = ["method", "group", "dataset", "base"]
    units = own.groupby(keys, sort=False)["share"].agg(["mean", "size"]).reset_index()
    units["share"] = (PERCENT * units["mean"]).where(units["size"] >= _MIN_CANDIDATES)
    # data sets are not averaged: some have hardly a request in some groups
    for dataset in results.datasets:
        for method in results.methods:
            for group in _FLIP_GROUPS:
                part = units[
                    (units["method"] == method)
                    & (units["group"] == group)
                    & (units["dataset"] == dataset)
                ]
                yield {
                    "dataset": dataset,
                    "method": method,
                    "family": ALL,
                    "kind": "survival_pct",
                    "score": group,
                    **_estimate(results, part, "share"),
                    "n_candidates": int(part["size"].sum()),
                }


def _shown(results: Results, data: pd.DataFrame, score: str) -> pd.DataFrame:
    at = data[(data["kind"] == "correlation") & (data["score"] == score)]
    at = at.set_index(["method", "family"])
    lines = []
    for method in (ALL, *results.methods):
        line = ["all methods" if method == ALL else method_title(method)]
        for family in (ALL, *results.families):
            line.append(_cell(at.loc[(method, family)], 2, signed=True))
        lines.append(line)
    heads = ["all families", *[family_title(f) for f in results.families]]
    return pd.DataFrame(lines, columns=["method", *heads])


def _groups(results: Results, data: pd.DataFrame, dataset: str) -> pd.DataFrame:
    own = data[(data["kind"] == "survival_pct") & (data["dataset"] == dataset)]
    at = own.set_index(["method", "score"])
    lines = [
        [
            method_title(m),
            *[
                f"{_cell(at.loc[(m, g)], 1)} ({at.loc[(m, g), 'n_candidates']})"
                for g in _FLIP_GROUPS
            ],
        ]
        for m in results.methods
    ]
    return pd.DataFrame(lines, columns=["method", *[f"k {g}" for g in _FLIP_GROUPS]])


def _cell(row: pd.Series, digits: int, signed: bool = False) -> str:
    text = number(row["value"], digits, signed=signed)
    span = interval(row["low"], row["high"], digits, signed=signed)
    if text == UNDEFINED or span == UNDEFINED:
        return text
    decided = signed and (row["low"] > 0 or row["high"] < 0)
    return f"**{text}** {span}" if decided else f"{text} {span}"
