"""The figures the paper prints, and the rule by which ours are compared with them.

The rule was fixed before any of our figures was looked at, and every comparison prints it.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cfc.errors import ArtifactError

COLUMNS = ("source", "dataset", "score", "metric", "value", "low", "high", "neutral")
VERDICTS = ("reproduced", "same direction", "not reproduced", "undefined")
TOLERANCE = 0.02  # in units of the figure; relative for counts
MIN_UNITS = 5  # a bootstrap over fewer units claims more than it knows
WIDEST = 0.20  # an interval wider than this agrees with too much to confirm anything
RULE = (
    f"Reproduced: ours is within {TOLERANCE:g} of the printed value, or the printed value lies in "
    f"our 95 % interval and that is no wider than {WIDEST:g}. Same direction: otherwise, both lie "
    f"on the same side of the figure's neutral value (.5 for an AUROC, 0 for a gain, .2 for "
    f"Capture@20), or both within {TOLERANCE:g} of it. Not reproduced: neither. Undefined: we have "
    f"no value. An interval needs {MIN_UNITS} units, a verdict some data set of the paper."
)


def read_reference(path: str | Path) -> pd.DataFrame:
    """Return the printed figures, one row each.

    Columns: source (table or text), dataset (a key, keys joined by ``+``, or ``all``), score,
    metric, value, low and high (the printed interval, else null), neutral (the value that says
    "no effect"; null where there is none).

    Raises:
        ArtifactError: the file is missing, lacks a column, or names a figure twice.
    """
    try:
        frame = pd.read_csv(path, keep_default_na=True)
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} does not exist") from error
    missing = [c for c in COLUMNS if c not in frame.columns]
    if missing:
        raise ArtifactError(f"{path} has no column {', '.join(missing)}")
    keys = ["source", "dataset", "score", "metric"]
    for name in keys:
        frame[name] = frame[name].astype(object)
    twice = frame[frame.duplicated(keys)]
    if len(twice):
        raise ArtifactError(f"{path} names a figure twice: {tuple(twice[keys].iloc[0])}")
    return frame[list(COLUMNS)]


@dataclass(frozen=True)
class Judgement:
    """A verdict, one of `VERDICTS`, and the numeric reason for it."""

    verdict: str
    why: str


def judge(paper: float, ours: float, low: float, high: float, neutral: float = np.nan) -> Judgement:
    """Compare one printed figure with ours by `RULE`.

    Args:
        paper: the printed value.
        ours: our value; ``nan`` when we have none.
        low, high: our 95 % interval; ``nan`` when there is none (a single unit).
        neutral: the value that says "no effect"; ``nan`` for counts, which are compared by ratio.
    """
    if np.isnan(ours):
        return Judgement("undefined", "no value")
    if np.isnan(neutral):
        return _judge_count(paper, ours)
    gap = abs(ours - paper)
    if _at_most(gap, TOLERANCE):
        return Judgement("reproduced", f"{_signed(ours - paper)} from the printed value")
    inside = low <= paper <= high
    if inside and _at_most(high - low, WIDEST):
        return Judgement("reproduced", "the printed value lies in our interval")
    same = _side(paper, neutral) == _side(ours, neutral)
    where = {1: "above", -1: "below", 0: "at"}[_side(ours, neutral)]
    text = f"{_signed(ours - paper)} from the printed value, {where} {neutral:g}"
    if inside:
        text += ", our interval is too wide to confirm it"
    if same:
        return Judgement("same direction", text)
    printed = {1: "above", -1: "below", 0: "at"}[_side(paper, neutral)]
    return Judgement("not reproduced", f"{text}; the printed value is {printed} it")


def _judge_count(paper: float, ours: float) -> Judgement:
    ratio = ours / paper if paper else np.nan
    text = f"{ratio:.2f} of the printed number"
    if abs(ratio - 1) <= TOLERANCE:
        return Judgement("reproduced", text)
    return Judgement("same direction" if 0.5 <= ratio <= 2 else "not reproduced", text)


def _side(value: float, neutral: float) -> int:
    gap = value - neutral
    return 0 if _at_most(abs(gap), TOLERANCE) else int(np.sign(gap))


def _at_most(value: float, limit: float) -> bool:
    # printed values have three decimals; .52 − .5 is a shade above .02 in binary
    return value <= limit + 1e-9


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−") if abs(value) >= 5e-4 else "0.000"
