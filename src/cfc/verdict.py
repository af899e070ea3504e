"""The verdict page: what a run shows, in plain language, written from its tables alone.

Every sentence is chosen by the numbers, so the page is true of any run. A table the run lacks is
said to be absent.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cfc.bootstrap import bootstrap_mean, grouped_mean
from cfc.evaluate import EvaluationSettings
from cfc.reference import MIN_UNITS, RULE, VERDICTS
from cfc.tables.base import (
    UNDEFINED,
    UNIT_KEYS,
    Unit,
    interval,
    list_units,
    number,
    pick,
    score_title,
)
from cfc.tables.paper_vs_ours import PAPER_DATASETS, figure_title
from cfc.tables.render import Section

TABLES = (
    "brittle_aggregate",
    "brittle_auroc",
    "dependence",
    "natural",
    "transfer",
    "attribution",
    "exposure",
    "search_gap",
    "ablation",
    "stability",
    "baseline_sensitivity",
    "label_reliability",
    "calibration",
    "paper_vs_ours",
)
TITLE = "Verdict"
_SAME = 1e-3  # AUROCs closer than this are called equal


@dataclass(frozen=True)
class Estimate:
    """A mean over units, then data sets, with its 95 % interval (``nan`` below 5 units)."""

    value: float
    low: float
    high: float
    n_units: int
    share_positive: float

    def __str__(self) -> str:
        return f"{number(self.value)} {self._units()}"

    def signed(self) -> str:
        """Return the value as a difference, with its sign."""
        return f"{number(self.value, signed=True)} {self._units(signed=True)}"

    def _units(self, signed: bool = False) -> str:
        span = interval(self.low, self.high, signed=signed)
        count = f"{self.n_units} unit{'s' * (self.n_units != 1)}"
        return f"({span}, {count})" if span != UNDEFINED else f"({count}, no interval)"

    @property
    def sign(self) -> int:
        """1 or −1 where the interval excludes 0, else 0."""
        if np.isnan(self.low):
            return 0
        return int(self.low > 0) - int(self.high < 0)


class Evidence:
    """The tables of a run and the two questions asked of them: a mean, and a paired difference."""

    def __init__(self, tables: Callable[[str], pd.DataFrame | None], settings: EvaluationSettings):
        self.tables, self.settings = tables, settings

    def has(self, table: str) -> bool:
        """Tell whether the run holds a table."""
        return self.tables(table) is not None

    def values(self, table: str, **keys) -> pd.Series:
        """Return the unit values of a table by (dataset, model, seed); undefined ones are NaN."""
        rows = pick(self.tables(table), level="unit", **keys)
        index = pd.MultiIndex.from_frame(rows[UNIT_KEYS].astype({"seed": int}))
        return pd.Series(rows["value"].to_numpy(dtype=float), index=index)

    def mean(self, table: str, **keys) -> Estimate | None:
        """Return the mean of a metric, None when no unit has a value."""
        return self.estimate(self.values(table, **keys))

    def difference(
        self, table: str, first: str, second: str, *, sign: str = "risk", **keys
    ) -> Estimate | None:
        """Return score ``first`` minus ``second``, paired by unit; None where never both exist.

        Args:
            table: a table with unit rows by score and sign.
            first, second: scores.
            sign: sign of ``second``.
            keys: label rule and metric.
        """
        own = self.values(table, score=first, sign="risk", **keys)
        other = self.values(table, score=second, sign=sign, **keys)
        return self.estimate(own - other.reindex(own.index))

    def estimate(self, values: pd.Series) -> Estimate | None:
        """Return mean and interval of unit values; units without one are left out."""
        values = values.dropna()
        if values.empty:
            return None
        sets = values.index.get_level_values(0).to_numpy().astype(str)
        numbers = values.to_numpy()
        positive = float((numbers > 0).mean())
        if len(numbers) < MIN_UNITS:
            return Estimate(grouped_mean(numbers, sets), np.nan, np.nan, len(numbers), positive)
        found = bootstrap_mean(
            numbers,
            sets,
            resamples=self.settings.n_bootstrap,
            seed=self.settings.bootstrap_seed,
        )
        return Estimate(found.value, found.low, found.high, len(numbers), positive)


def sections(
    tables: Callable[[str], pd.DataFrame | None],
    expected: list[Unit],
    settings: EvaluationSettings,
) -> list[Section]:
    """Return the page: heading, sentences and tables of each section.

    Args:
        tables: a table's data by name, None when the run has none.
        expected: (dataset, model, seed) of every unit of the run.
        settings: label rules, resamples and seed.
    """
    run = Evidence(tables, settings)
    parts = [
        ("Does FDS beat confidence, read the way one would use it?", _confidence(run)),
        ("Does FDS beat one removal of each group?", _one_step(run)),
        ("What is left once the obvious is known?", _left(run)),
        ("Other stress, other labels", _other(run)),
        ("The removal path against exact search", _search(run)),
        ("Temperatures", _calibration(run)),
        ("Printed figures that cannot hold together", _contradictions(run)),
        ("Units without a value", _undefined(run, expected)),
    ]
    body: list[Section] = [(heading, list(found), []) for heading, found in parts]
    body[-1][2].extend(_undefined_tables(run, expected))
    absent = [name for name in TABLES if not run.has(name)]
    if absent:
        body.append(("Not in this run", [f"These tables are absent: {', '.join(absent)}."], []))
    body.append(_figures(run))
    return [("In short", _short(run, expected), []), *body]


def _rules(run: Evidence, table: str) -> list[str]:
    held = set(run.tables(table)["label_rule"])
    return [rule for rule in run.settings.label_rules if rule in held]


def _says(estimate: Estimate | None, subject: str, other: str) -> str:
    """Return a sentence on a paired difference."""
    if estimate is None:
        return f"{subject} against {other}: undefined, no unit has both."
    verb = {1: "is ahead of", -1: "is behind", 0: "cannot be told from"}[estimate.sign]
    return (
        f"{subject} {verb} {other}: {estimate.signed()}, ahead in "
        f"{estimate.share_positive:.0%} of units."
    )


def _absent(table: str) -> str:
    return f"The table `{table}` is absent from this run, so nothing can be said."


def strongest(run: Evidence, rule: str, sign: str = "risk") -> str:
    """Return the strongest confidence score of a sign under a label rule, "" when undefined."""
    top = pick(
        run.tables("brittle_aggregate"),
        level="aggregate",
        label_rule=rule,
        metric=f"gain_vs_{sign}",
    )
    return top["reference"].iloc[0] if len(top) else ""


def _confidence(run: Evidence) -> Iterator[str]:
    if not run.has("brittle_aggregate"):
        yield _absent("brittle_aggregate")
        return
    for rule in _rules(run, "brittle_aggregate"):
        best = strongest(run, rule)
        if not best:
            yield f"Label `{rule}`: undefined, no unit has an AUROC."
            continue
        keys = {"label_rule": rule, "metric": "auroc"}
        found = run.difference("brittle_aggregate", "fds", best, **keys)
        own = run.mean("brittle_aggregate", score="fds", sign="risk", **keys)
        yield f"Label `{rule}`: FDS reaches {own}. " + _says(
            found, "FDS", score_title(best, "risk")
        )
    paper = {r: strongest(run, r, "paper") for r in _rules(run, "brittle_aggregate")[:1]}
    for rule, best in paper.items():
        if best:
            found = run.difference(
                "brittle_aggregate", "fds", best, sign="paper", label_rule=rule, metric="auroc"
            )
            yield (
                "In the paper's sign, where the more confident case counts as the more brittle, "
                f"the gain would read {found.signed() if found else UNDEFINED} (label `{rule}`)."
            )


def _one_step(run: Evidence) -> Iterator[str]:
    if not run.has("brittle_aggregate"):
        yield _absent("brittle_aggregate")
        return
    held = set(run.tables("brittle_aggregate")["score"])
    for rule in _rules(run, "brittle_aggregate"):
        for other in ("one_step_relative", "one_step_sum", "group_shap"):
            # group-SHAP exists for a sample of cases: compare on those
            table = "attribution" if other == "group_shap" else "brittle_aggregate"
            if other in held and run.has(table):
                found = run.difference(table, "fds", other, label_rule=rule, metric="auroc")
                yield f"Label `{rule}`: " + _says(found, "FDS", score_title(other))
    if "exposed_fds" in held:
        for rule in _rules(run, "brittle_aggregate"):
            for other in ("fds", "one_step_sum"):
                found = run.difference(
                    "brittle_aggregate", "exposed_fds", other, label_rule=rule, metric="auroc"
                )
                name = score_title("exposed_fds").removesuffix(" (ours)")
                yield f"Label `{rule}`: " + _says(found, name, score_title(other))


def _left(run: Evidence) -> Iterator[str]:
    if run.has("brittle_auroc"):
        for rule in _rules(run, "brittle_auroc"):
            keys = {"score": "fds", "sign": "risk", "label_rule": rule}
            plain = run.values("brittle_auroc", metric="auroc", **keys)
            within = run.values("brittle_auroc", metric="auroc_within_class", **keys)
            both = within.reindex(plain.index).notna() & plain.notna()
            before, after = (
                run.estimate(plain[both]),
                run.estimate(within.reindex(plain.index)[both]),
            )
            if after is None:
                yield f"Label `{rule}`, within predicted class: undefined in every unit."
                continue
            yield (
                f"Label `{rule}`, within predicted class: FDS goes from {number(before.value)} to "
                f"{after} on the same units."
            )
    else:
        yield _absent("brittle_auroc")
    if not run.has("dependence"):
        yield _absent("dependence")
        return
    for rule in _rules(run, "dependence"):
        keys = {"score": "fds", "label_rule": rule}
        strata = run.mean("dependence", metric="auroc_within_confidence", **keys)
        gain = run.mean("dependence", metric="auroc_gain", **keys)
        partial = run.mean("dependence", metric="partial_rank_correlation", **keys)
        if gain is None:
            yield f"Label `{rule}`, given the confidence: undefined in every unit."
            continue
        adds = {1: "adds to", -1: "takes from", 0: "does not measurably add to"}[gain.sign]
        yield (
            f"Label `{rule}`, given the confidence: within strata of equal confidence FDS reaches "
            f"{strata or UNDEFINED}; partial rank correlation given the margin "
            f"{partial.signed() if partial else UNDEFINED}; in a cross-validated ranker it {adds} "
            f"confidence: {gain.signed()}."
        )


def _other(run: Evidence) -> Iterator[str]:
    if run.has("brittle_aggregate") and "swap" in _rules(run, "brittle_aggregate"):
        keys = {"label_rule": "swap", "metric": "auroc", "score": "fds", "sign": "risk"}
        swap = run.mean("brittle_aggregate", **keys)
        other = run.mean("brittle_aggregate", **keys | {"label_rule": "expected"})
        if swap is None:
            yield "Under `swap`, the stress that does not share the baseline: undefined."
        else:
            yield (
                f"Under `swap`, the stress that does not share the baseline with the score, FDS "
                f"reaches {swap}; under the same rule with baseline stress "
                f"{other or UNDEFINED}."
            )
    for table, what in (
        ("natural", "Observed field unavailability"),
        ("transfer", "Stress with values no score was built on"),
    ):
        if not run.has(table):
            yield _absent(table)
            continue
        data = run.tables(table)
        held = set(data["score"])
        for rule in [r for r in dict.fromkeys(data["label_rule"]) if r]:
            keys = {"label_rule": rule, "metric": "auroc"}
            own = run.mean(table, score="fds", sign="risk", **keys)
            if own is None:
                yield f"{what}, label `{rule}`: undefined in every unit."
                continue
            line = f"{what}, label `{rule}`: FDS reaches {own}."
            for first, second in (("fds", "one_step_sum"), ("exposed_fds", "fds")):
                if {first, second} <= held:
                    found = run.difference(table, first, second, **keys)
                    name = "It" if first == "fds" else score_title(first).removesuffix(" (ours)")
                    line += " " + _says(found, name, score_title(second).removesuffix(" (ours)"))
            yield line
    yield from _reliability(run)


def _reliability(run: Evidence) -> Iterator[str]:
    if not run.has("label_reliability"):
        yield _absent("label_reliability")
        return
    data = run.tables("label_reliability")
    for rule in [r for r in dict.fromkeys(data["label_rule"]) if r]:
        kappa = run.mean("label_reliability", label_rule=rule, metric="kappa")
        ceiling = run.mean("label_reliability", label_rule=rule, metric="ceiling_beta")
        if kappa is None:
            yield f"Label `{rule}`, reliability: undefined in every unit."
            continue
        yield (
            f"Label `{rule}`: two labels from disjoint draws agree with Cohen's κ {kappa}; the "
            f"AUROC that such a label allows is about {ceiling or UNDEFINED}."
        )


def _search(run: Evidence) -> Iterator[str]:
    if not run.has("search_gap"):
        yield _absent("search_gap")
        return
    match = run.mean("search_gap", score="static", metric="exact_match")
    over = run.mean("search_gap", score="static", metric="greedy_over")
    if match is None or over is None:
        yield "Undefined: exact search was feasible in no unit."
        return
    yield (
        f"The path finds the smallest flipping set in {match} of cases and needs more groups in "
        f"{over}; the two add up to {number(match.value + over.value)}."
    )
    beam = run.mean("search_gap", score="static", metric="beam_improve")
    if beam is not None:
        yield f"Beam search finds a smaller set than the path in {beam} of all searched cases."


def _calibration(run: Evidence) -> Iterator[str]:
    if not run.has("calibration"):
        yield _absent("calibration")
        return
    for subset, what in (("all", "all test cases"), ("fragile", "the most fragile cases")):
        for metric in ("ece", "nll"):
            keys = {"metric": f"{subset}:{metric}"}
            local = run.values("calibration", score="brittleness_aware", **keys)
            flat = run.values("calibration", score="global", **keys)
            found = run.estimate(local - flat.reindex(local.index))
            if found is None:
                yield f"{metric.upper()} of {what}: undefined."
                continue
            verb = {1: "raises", -1: "lowers", 0: "does not measurably change"}[found.sign]
            yield (
                f"The brittleness-aware temperature {verb} the {metric.upper()} of {what} against "
                f"one global temperature: {found.signed()}."
            )
    data = run.tables("calibration")
    changed = data[(data["level"] == "unit") & data["metric"].str.endswith("share_label_changed")]
    largest = changed["value"].max()
    units = changed.loc[changed["value"] > 0, UNIT_KEYS].drop_duplicates()
    if pd.isna(largest):
        yield "Whether labels change: undefined."
    elif largest == 0:
        yield "No predicted label changed in any unit, as it must be."
    else:
        names = list(units.astype({"seed": int}).itertuples(index=False, name=None))
        yield f"**Predicted labels changed, which must not be**: {list_units(names)}."


def _contradictions(run: Evidence) -> Iterator[str]:
    yield (
        "ExactMatch + GreedyOver must be 1: the path can never need fewer groups than the smallest "
        "flipping set. Printed: .869 + .092 = .961."
    )
    yield (
        "Negative energy (eq. 19) is, for two classes, an increasing function of max-softmax, so "
        "both have one AUROC. Printed on two-class data sets: .500 to .523 beside .321 to .669."
    )
    if not run.has("brittle_aggregate"):
        yield _absent("brittle_aggregate")
        return
    gaps: dict[str, float] = {}
    for rule in _rules(run, "brittle_aggregate"):
        keys = {"label_rule": rule, "metric": "auroc", "sign": "risk"}
        energy = run.values("brittle_aggregate", score="negative_energy", **keys)
        softmax = run.values("brittle_aggregate", score="max_softmax", **keys)
        gap = (energy - softmax.reindex(energy.index)).abs().dropna()
        for dataset, own in gap.groupby(level=0):
            gaps[dataset] = max(gaps.get(dataset, 0.0), float(own.max()))
    if not gaps:
        yield "In this run: undefined, no unit has an AUROC."
        return
    apart = [f"{d} (up to {number(g)})" for d, g in gaps.items() if g > _SAME]
    yield (
        f"In this run the two agree within {_SAME:g} on {len(gaps) - len(apart)} of {len(gaps)} "
        "data sets"
        + (f"; they differ on {', '.join(apart)}: more than two classes." if apart else ".")
    )


def _fds_units(run: Evidence, rule: str) -> pd.DataFrame:
    return pick(
        run.tables("brittle_aggregate"),
        level="unit",
        label_rule=rule,
        score="fds",
        sign="risk",
        metric="auroc",
    )


def _undefined(run: Evidence, expected: list[Unit]) -> Iterator[str]:
    if not run.has("brittle_aggregate"):
        yield _absent("brittle_aggregate")
        return
    for rule in _rules(run, "brittle_aggregate"):
        rows = _fds_units(run, rule)
        gone = rows[rows["value"].isna()]
        if gone.empty:
            yield f"Label `{rule}`: every unit has an AUROC."
            continue
        kinds = gone["reason"].str.replace(r"\d+", "N", regex=True).value_counts(sort=False)
        why = "; ".join(f"{n} × {reason}" for reason, n in sorted(kinds.items()))
        yield f"Label `{rule}`: {len(gone)} of {len(expected)} units have none: {why}."


def _undefined_tables(run: Evidence, expected: list[Unit]) -> list[pd.DataFrame]:
    """Return counts of undefined units by family and by data set, one column a label rule."""
    if not run.has("brittle_aggregate"):
        return []
    frames = []
    for key, title in (("model", "family"), ("dataset", "data set")):
        names = list(dict.fromkeys(u[("dataset", "model").index(key)] for u in expected))
        columns: dict[str, list[str]] = {title: names}
        for rule in _rules(run, "brittle_aggregate"):
            rows = _fds_units(run, rule)
            total = rows.groupby(key).size()
            gone = rows[rows["value"].isna()].groupby(key).size()
            columns[f"undefined, {rule}"] = [
                f"{int(gone.get(name, 0))} of {int(total.get(name, 0))}" for name in names
            ]
        frames.append(pd.DataFrame(columns))
    return frames


def _figures(run: Evidence) -> Section:
    heading = "Every printed figure"
    if not run.has("paper_vs_ours"):
        return heading, [_absent("paper_vs_ours")], []
    data = run.tables("paper_vs_ours")
    lines = []
    for row in data.to_dict("records"):
        digits = 0 if row["metric"] == "cases" else 3
        lines.append(
            [
                f"{row['source']}: {figure_title(row)}, {row['metric'].replace('_', ' ')}, "
                f"{row['dataset']}",
                number(row["paper"], digits),
                number(row["ours"], digits),
                interval(row["low"], row["high"], digits),
                row["convention"] or UNDEFINED,
                number(row["ours_risk"], digits),
                f"**{row['verdict']}**" if row["verdict"] == "not reproduced" else row["verdict"],
                row["why"],
            ]
        )
    columns = ["figure", "paper", "ours", "95 % interval", "sign", "ours, risk sign"]
    frame = pd.DataFrame(lines, columns=[*columns, "verdict", "why"])
    return heading, [RULE], [frame]


def _short(run: Evidence, expected: list[Unit]) -> list[str]:
    """Return the few sentences a reader in a hurry needs."""
    lines = [_coverage(run, expected)]
    if run.has("paper_vs_ours"):
        counts = run.tables("paper_vs_ours")["verdict"].value_counts()
        parts = [f"{int(counts.get(v, 0))} {v}" for v in VERDICTS]
        lines.append(f"Of {int(counts.sum())} printed figures: {', '.join(parts)}.")
    if not run.has("brittle_aggregate"):
        return [*lines, _absent("brittle_aggregate")]
    rules = _rules(run, "brittle_aggregate")
    lines.append(_over_rules(run, rules, "correctly signed confidence", strongest))
    held = set(run.tables("brittle_aggregate")["score"])
    for other, text in (
        ("one_step_relative", "one removal of each group, max δ/|m|"),
        ("one_step_sum", "the one-step sum (max δ + Σδ⁺)/|m|"),
    ):
        if other in held:
            lines.append(_over_rules(run, rules, text, lambda _run, _rule, name=other: name))
    lines += [line for line in (_given_confidence(run), _conclusion(run, rules)) if line]
    return lines


def _given_confidence(run: Evidence) -> str:
    if not run.has("dependence"):
        return ""
    gains = {
        rule: run.mean("dependence", score="fds", label_rule=rule, metric="auroc_gain")
        for rule in _rules(run, "dependence")
    }
    adds = [f"`{r}` ({g.signed()})" for r, g in gains.items() if g and g.sign > 0]
    rest = [f"`{r}`" for r, g in gains.items() if g and g.sign <= 0]
    parts = []
    if adds:
        parts.append(f"FDS still adds to the ranking under {', '.join(adds)}")
    if rest:
        parts.append(f"no gain is shown under {', '.join(rest)}")
    return f"Once the confidence is known, {'; '.join(parts)}." if parts else ""


def _standing(run: Evidence, rules: list[str], other_of) -> str:
    """Return how FDS stands against a score over all label rules.

    ahead, behind or tied under every rule; partly ahead or behind where some rules leave it open;
    mixed where rules disagree; undefined where none has both.
    """
    signs = []
    for rule in rules:
        other = other_of(run, rule)
        found = other and run.difference(
            "brittle_aggregate", "fds", other, label_rule=rule, metric="auroc"
        )
        if found:
            signs.append(found.sign)
    if not signs:
        return "undefined"
    if {1, -1} <= set(signs):
        return "mixed"
    standing = {1: "ahead", -1: "behind", 0: "tied"}[max(signs, key=abs)]
    return f"partly {standing}" if len(set(signs)) > 1 else standing


def _conclusion(run: Evidence, rules: list[str]) -> str:
    confidence = _standing(run, rules, strongest)
    cheap = _standing(run, rules, lambda _run, _rule: "one_step_sum")
    if "undefined" in (confidence, cheap):
        return "What a practitioner may conclude: nothing, no unit has what it takes to compare."
    against = {
        "ahead": "to find confident predictions that fail under such stress, look at what they "
        "rest on, not at their confidence",
        "behind": "correctly signed confidence finds the failing predictions better than FDS",
        "tied": "FDS is not shown to find more than correctly signed confidence",
        "mixed": "whether FDS or correctly signed confidence finds more depends on what is "
        "called brittle",
        "partly ahead": "where a difference shows, look at what confident predictions rest on, not "
        "at their confidence",
        "partly behind": "where a difference shows, correctly signed confidence finds more than "
        "FDS",
    }
    price = {
        "ahead": "the removal path ranks better than the one-step sum and so earns its price",
        "behind": "the one-step sum, which costs G + 1 predictions a case, ranks better than the "
        "whole certificate: take it for the ranking, the certificate for the explanation",
        "tied": "the one-step sum, which costs G + 1 predictions a case, ranks as well as the "
        "whole certificate, as far as this run can tell",
        "mixed": "whether the removal path ranks better than the cheap one-step sum depends on "
        "what is called brittle",
        "partly ahead": "where a difference shows, the removal path ranks better than the cheap "
        "one-step sum",
        "partly behind": "where a difference shows, the one-step sum, which costs G + 1 "
        "predictions a case, ranks better than the whole certificate",
    }
    return f"What a practitioner may conclude: {against[confidence]}; {price[cheap]}."


def _coverage(run: Evidence, expected: list[Unit]) -> str:
    datasets = list(dict.fromkeys(d for d, _, _ in expected))
    inside = [d for d in datasets if d in PAPER_DATASETS]
    counts = (
        (len(datasets), "data set", "data sets"),
        (len({m for _, m, _ in expected}), "family", "families"),
        (len({s for _, _, s in expected}), "seed", "seeds"),
    )
    parts = ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in counts)
    text = f"{len(expected)} units ({parts}): "
    if len(inside) == len(PAPER_DATASETS):
        text += "all seven of the paper's data sets."
    elif inside:
        text += f"{len(inside)} of the paper's seven data sets, so its means are over these only."
    else:
        text += "none of the paper's data sets, so its figures cannot be checked here."
    if run.has("brittle_aggregate"):
        rows = pick(run.tables("brittle_aggregate"), level="unit", score="fds", sign="risk")
        gone = rows.loc[rows["reason"].str.startswith("unit not evaluated"), UNIT_KEYS]
        n = len(gone.drop_duplicates())
        if n:
            text += f" **{n} units are missing.**"
    return text


def _over_rules(run: Evidence, rules: list[str], text: str, other_of) -> str:
    """Return one sentence on FDS against a score over all label rules."""
    ahead, behind, tied, none = [], [], [], []
    for rule in rules:
        other = other_of(run, rule)
        found = None
        if other:
            found = run.difference(
                "brittle_aggregate", "fds", other, label_rule=rule, metric="auroc"
            )
        target = none if found is None else {1: ahead, -1: behind, 0: tied}[found.sign]
        value = "" if found is None else f" ({number(found.value, signed=True)})"
        target.append(f"`{rule}`{value}")
    parts = [
        f"{verb} {', '.join(names)}"
        for verb, names in (
            ("yes under", ahead),
            ("no, it is behind, under", behind),
            ("undecided under", tied),
            ("undefined under", none),
        )
        if names
    ]
    answer = "; ".join(parts)
    return f"Does FDS beat {text}? {answer[:1].upper()}{answer[1:]}."
