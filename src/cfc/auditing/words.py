"""What a certificate says, in plain sentences, each true of its record.

Two things are easily confused, so they are kept apart here: k* counts the first groups of *one*
order, removed together, while δ_g > m says that group g *alone* changes the decision.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

CONFIDENT = 0.90  # from here a label rule can call a case brittle (protocol, section 5)
BRITTLE_RULES = ("expected", "swap")
_ENOUGH = 3  # names in a list before the rest is counted
_PARTS = {0.25: "a quarter of the way", 0.5: "half way", 0.75: "three quarters of the way"}


class Name(str):
    """A name of the user's inside a sentence: of a group, a column or a class."""

    __slots__ = ()


@dataclass(frozen=True)
class Sentence:
    """One sentence.

    Attributes:
        about: ``prediction``, ``warning``, ``removal``, ``fading``, ``exposure`` or ``stress``.
        parts: pieces of text in order; names are `Name`.
    """

    about: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f"“{part}”" if isinstance(part, Name) else part for part in self.parts)


def reading(record: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """Return what one certificate says, as plain sentences.

    Args:
        record: one row of an audit's table, lists as sequences.
        facts: the audit's facts.
    """
    return [str(sentence) for sentence in sentences(record, facts)]


def sentences(record: Mapping[str, Any], facts: Mapping[str, Any]) -> list[Sentence]:
    """Return what one certificate says, with the names in it told apart; see `reading`."""
    case = _Case(record, facts)
    found = (
        ("prediction", [_prediction(case)]),
        ("warning", _warnings(case)),
        ("removal", _removal(case)),
        ("fading", _fading(case)),
        ("exposure", _exposure(case)),
        ("stress", _stress(case)),
    )
    return [Sentence(about, tuple(parts)) for about, several in found for parts in several]


def one_step_flips(
    delta: np.ndarray,
    margin: np.ndarray,
    first: np.ndarray,
    flip_budget: np.ndarray,
    margin_rule: str = "original",
) -> np.ndarray:
    """Tell which groups change the decision when removed alone, bool [n, G].

    A margin that loses more than all of itself is below zero, where another class is predicted.
    The first group of the order is the first step of the path, so its label is known even where the
    margin is a tie, or of the protocol's kind ``unsigned``, which never falls below zero: there
    nothing is known of the other groups, and they read False.

    Args:
        delta: margin lost without each group, declared order [n, G].
        margin: [n].
        first: number of the group removed first [n].
        flip_budget: k* [n].
        margin_rule: ``margin`` of the protocol.
    """
    flips = np.asarray(delta) > np.asarray(margin)[:, None]
    if margin_rule != "original":
        flips[:] = False
    flips[np.arange(len(flips)), first] = np.asarray(flip_budget) == 1
    return flips


def probability_text(p: float) -> str:
    """Return a probability as .97 or .9996: cut, not rounded, so that only 0 and 1 read so."""
    if 0 < p < 0.01:
        return "under .01"
    digits = 2 if p < 0.99 else 3 if p < 0.999 else 4
    cut = int(p * 10**digits + 1e-9) / 10**digits
    return "1" if cut >= 1 else f"{cut:.{digits}f}"[1:]


def decimal_text(value: float) -> str:
    """Return a setting as .25 or 1."""
    text = f"{value:g}"
    return text[1:] if text.startswith("0.") else text


def percent_text(share: float) -> str:
    """Return a share as a percentage that reads 0 or 100 only if it is."""
    if 0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return ``1 case``, ``2 cases``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: Iterable[str], word: str = "and", most: int = _ENOUGH) -> list[str]:
    """Return the pieces of “a”, “b” and “c”, or of “a”, “b”, “c” and 2 more."""
    items: list[str] = [Name(name) for name in names]
    if len(items) > most + 1:  # "1 more" would be longer than its name
        items = [*items[:most], f"{len(items) - most} more"]
    parts: list[str] = []
    for k, item in enumerate(items):
        if k:
            parts.append(f" {word} " if k == len(items) - 1 else ", ")
        parts.append(item)
    return parts


@dataclass(frozen=True)
class _Case:
    record: Mapping[str, Any]
    facts: Mapping[str, Any]

    @property
    def protocol(self) -> Mapping[str, Any]:
        return self.facts["protocol"]

    @cached_property
    def order(self) -> list[Name]:
        return [Name(name) for name in self.record["group_order"]]

    @cached_property
    def labels(self) -> list[int]:
        return [int(label) for label in self.record["path_label"]]

    @property
    def depth(self) -> int:
        return len(self.labels) - 1

    @property
    def budget(self) -> int:
        return int(self.record["flip_budget"])

    def label(self, code: int) -> Name:
        return Name(self.facts["classes"][code])

    @property
    def predicted(self) -> Name:
        return self.label(self.labels[0])

    @cached_property
    def is_known_alone(self) -> bool:
        """Whether the record tells of every group what it does alone.

        It does not where the margin has no sign, nor where a group leaves an exact tie: that goes
        to the class of the lower number. The label without the first group is on the path.
        """
        delta = dict(zip(self.facts["groups"]["names"], self.record["delta"], strict=True))
        told = (delta[g] < self.record["margin"] or g in self.alone for g in self.order[1:])
        return self.protocol["margin"] == "original" and all(told)

    @cached_property
    def alone(self) -> list[Name]:
        """Groups known to change the decision alone, in order of removal."""
        names = list(self.facts["groups"]["names"])
        flips = one_step_flips(
            np.array([self.record["delta"]], dtype=float),
            np.array([self.record["margin"]], dtype=float),
            np.array([names.index(self.order[0])]),
            np.array([self.budget]),
            self.protocol["margin"],
        )[0]
        return [name for name in self.order if flips[names.index(name)]]


def _prediction(case: _Case) -> list[str]:
    record = case.record
    parts = [
        "Predicted ",
        case.predicted,
        f" with probability {probability_text(record['confidence'])}",
    ]
    proba = list(record["proba"])
    if len(proba) > 2:
        second = max((c for c in range(len(proba)) if c != case.labels[0]), key=proba.__getitem__)
        parts += [" (next: ", case.label(second), f", {probability_text(proba[second])})"]
    truth = record.get("true_label")
    if truth is None:
        return [*parts, "."]
    if str(truth) == case.predicted:
        return [*parts, ". That is right."]
    return [*parts, ". That is wrong: it is ", Name(truth), "."]


def _warnings(case: _Case) -> list[list[str]]:
    return [[_warning(case, kind)] for kind in case.record.get("warnings") or ()]


def _warning(case: _Case, kind: str) -> str:
    if kind == "saturated":
        clip, proba = case.facts["clip"], sorted(case.record["proba"])
        limit = f"the smallest probability told apart from zero ({clip:.2g})"
        if proba[-2] > clip:
            return f"An unlikely class is at {limit}: margins against it are lower bounds."
        which = "The other class" if len(proba) == 2 else "The next class"
        return (
            f"{which} is at {limit}, so the margin of {case.record['margin']:.3g} is a lower bound."
        )
    margin = case.record["margin"]
    size = "zero" if margin == 0 else "all but zero" if np.isfinite(margin) else "not a number"
    return {
        "near_tie": "Two classes are all but tied: rounding can decide which of them is predicted.",
        "undefined_margin": f"Its margin is {size}, so shares of it (RCMA, exposure and with them "
        "u) mean nothing here.",
        "unseen_category": "It holds a category that the model has never seen: the answer to that "
        "is arbitrary.",
    }.get(kind, f"Warning: {kind}.")


def _removal(case: _Case) -> list[list[str]]:
    budget, order, depth = case.budget, case.order, case.depth
    groups = len(order)
    if budget > depth:
        return _no_flip(case)
    after = case.label(case.labels[budget])
    if groups == 1:
        found = [["Without its only group, ", order[0], ", this decision becomes ", after, "."]]
    elif budget == 1:
        found = [["Without ", order[0], " this decision becomes ", after, "."]]
        if others := [name for name in case.alone if name != order[0]]:
            found.append(["Losing ", *listed(others, "or"), " alone would change it too."])
    else:
        which = f"all {groups}" if budget == groups else f"the first {budget}"
        parts = [
            f"It takes {which} groups (",
            *listed(order[:budget], most=4),
            ") together before ",
        ]
        parts += ["the decision changes, to ", after]
        if case.alone:
            found = [[*parts, "; ", *listed(case.alone, "or"), " alone would change it too."]]
        elif case.is_known_alone:
            found = [[*parts, "; none of them alone changes it."]]
        else:
            found = [[*parts, "; ", order[0], " alone does not change it."]]
        if budget > 2 and not case.alone:
            found.append(["Removal follows one order, so fewer groups may be enough."])
    back = [k for k in range(budget + 1, depth + 1) if case.labels[k] == case.labels[0]]
    if back:
        gone = f"all {groups}" if back[0] == groups else f"the first {back[0]}"
        found.append([f"With {gone} groups gone the model says ", case.predicted, " again."])
    return found


def _no_flip(case: _Case) -> list[list[str]]:
    groups, depth, predicted = len(case.order), case.depth, case.predicted
    if groups == 1:
        return [["Without its only group, ", case.order[0], ", it is still ", predicted, "."]]
    found = [[f"No flip within K = {plural(depth, 'removal')}: "]]
    is_baseline = case.record.get("baseline_label") == case.labels[0] and not case.facts["fixed"]
    if depth == groups and is_baseline:
        found[0] += ["they end at the baseline, which is predicted ", predicted]
        found[0].append(" itself, so this is weak evidence.")
    elif depth == groups:
        found[0] += [f"with all {groups} groups at their baseline it is still ", predicted, "."]
    else:
        first = "the first" if depth == 1 else f"the first {depth}"
        found[0] += [f"without {first} of {groups} groups it is still ", predicted, "."]
        if is_baseline:
            found.append(["The baseline itself is predicted ", predicted])
            found[-1].append(" as well, so this is weak evidence.")
    if case.alone:
        found.insert(1, [*listed(case.alone, "or"), " alone would change it."])
    elif case.is_known_alone:
        found.insert(1, ["No single group changes it alone."])
    return found


def fraction_text(severity: float) -> str:
    """Return how far a group is moved, in words: half way, 10 % of the way."""
    if severity == 1:
        return "all the way"
    return _PARTS.get(severity, f"{100 * severity:g} % of the way")


def _fading(case: _Case) -> list[list[str]]:
    found: list[list[str]] = []
    kept: list[list[str]] = []
    best, groups = np.inf, len(case.order)
    last = [f" {fraction_text(s)}" for s in case.protocol["severities"]]
    for operator in case.protocol["operators"]:
        severity = case.record.get(f"lambda_{operator}")
        flips = severity is not None and np.isfinite(severity)
        count = {"top1": 1, "top3": min(3, groups), "all": groups}.get(operator)
        if count is None:
            found += _other_operator(operator, severity) if flips else []
            continue
        what, to = _faded(case, count)
        if not flips:
            kept += [what] if what not in kept else []
            if count == 1 and case.budget == 1:  # the grid ends before the removal itself
                found.append(["Moving ", *what, last[-1], to, " does not change it."])
        elif severity < min(best, 1.0):
            found.append(["Moving ", *what, f" {fraction_text(severity)}", to])
            is_lasting = _label_without(case, count) != case.labels[0]
            how = " already changes it." if is_lasting else " changes it, all the way does not."
            found[-1].append(how)
        elif severity == 1.0 and count == 1 and best > 1 and len(last) > 1:
            found.append(["Moving ", *what, last[-2], to])
            found[-1].append(" does not change it: it has to go altogether.")
        elif severity == 1.0 and best > 1 and case.budget > case.depth:
            found.append(["Moving ", *what, last[-1], to, " changes it."])
        best = min(best, severity) if flips else best
    if not found and kept and not np.isfinite(best):
        found.append(["Moving ", *kept[0]])
        for k, what in enumerate(kept[1:], start=2):
            found[0] += [" or " if k == len(kept) else ", ", *what]
        steps = [f"{100 * s:g}" for s in case.protocol["severities"]]
        found[0].append(f" towards the baseline, by {_joined(steps)} %, does not change it.")
    return found


def _label_without(case: _Case, count: int) -> int | None:
    """Return the label without the first groups; None where the record does not say."""
    if count <= case.depth:
        return case.labels[count]
    return None if case.facts["fixed"] else case.record.get("baseline_label")


def _faded(case: _Case, count: int) -> tuple[list[str], str]:
    """Return what is moved and where to, in words."""
    if count == 1:
        return [case.order[0]], " to its baseline"
    if count == len(case.order):
        return [f"all {count} groups together"], " to their baseline"
    return [f"the first {count} groups together"], " to their baseline"


def _joined(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def _other_operator(operator: str, severity: float) -> list[list[str]]:
    if operator == "prefix":
        return []  # whole removals: what k* has said already
    at = decimal_text(severity)
    if operator == "sign_noise":
        how = f"by {at} standard deviations, up or down at random"
        return [[f"Shifting every number {how}, changes it."]]
    return [["The operator ", Name(operator), f" changes it from severity {at} on."]]


def _exposure(case: _Case) -> list[list[str]]:
    flips = case.record.get("exposure_flip")
    if flips is None:
        return []
    by_name = dict(zip(case.facts["groups"]["names"], flips, strict=True))
    largest = sorted((n for n in case.order if by_name[n] > 0), key=lambda n: -by_name[n])
    if not largest:
        return [["No value tried from the background changes it when one group takes it alone."]]
    parts: list[str] = ["At values that occur in the background, "]
    for k, name in enumerate(largest[:_ENOUGH]):
        link = "" if k == 0 else " and " if k == min(len(largest), _ENOUGH) - 1 else ", "
        parts += [link, name, " would change it " if k == 0 else " "]
        parts.append(f"{percent_text(by_name[name])}{' of the time' if k == 0 else ''}")
    if len(largest) > _ENOUGH:
        parts.append(f"; {plural(len(largest) - _ENOUGH, 'more group')} could too")
    return [[part for part in parts if part] + ["."]]


def stress_cells(record: Mapping[str, Any], facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of a case's stress: operator, severity, draws, flip, collapse (or None).

    Empty where the case was not stressed.
    """
    cells = []
    for operator, own in ((facts.get("stress") or {}).get("settings") or {}).items():
        flips = record.get(f"stress_{operator}_flip")
        if flips is None:
            continue
        lost = record.get(f"stress_{operator}_collapse")
        lost = [None] * len(flips) if lost is None else lost
        for severity, flip, collapse in zip(own["severities"], flips, lost, strict=True):
            cells.append(
                {
                    "operator": operator,
                    "severity": severity,
                    "draws": own["draws"],
                    "flip": flip,
                    "collapse": collapse,
                }
            )
    return cells


def brittle_rules(record: Mapping[str, Any]) -> dict[str, bool]:
    """Return rule -> whether the case is brittle, for the rules that say something about it."""
    found = {rule: record.get(f"brittle_{rule}") for rule in BRITTLE_RULES}
    return {rule: bool(value) for rule, value in found.items() if value is not None}


def _stress(case: _Case) -> list[list[str]]:
    if not case.facts.get("stress"):
        return []
    cells = stress_cells(case.record, case.facts)
    if not cells:
        threshold = probability_text(case.facts["stress"]["threshold"])
        return [[f"Not stressed: its probability is below {threshold}."]]
    worst = max(cells, key=lambda cell: cell["flip"])
    if worst["flip"] == 0:
        found = [["No draw of the simulated stress changed it."]]
    else:
        found = [
            [
                "Simulated stress changed it most often under ",
                Name(worst["operator"]),
                f" at severity {decimal_text(worst['severity'])}: in "
                f"{percent_text(worst['flip'])} of {plural(worst['draws'], 'draw')}.",
            ]
        ]
    rules = brittle_rules(case.record)
    under = [rule for rule, value in rules.items() if value]
    other = [rule for rule, value in rules.items() if not value]
    if under:
        found.append(["It counts as brittle by the rule ", *listed(under, "and by")])
        found[-1] += [", not by ", *listed(other), "."] if other else ["."]
    elif other:
        found.append(["It counts as brittle by no rule (", *listed(other), ")."])
    return found
