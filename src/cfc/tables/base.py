"""What every table shares: its inputs, the aggregation, the result, the formatting of numbers.

Aggregation is always metric per unit, then the mean over seeds and families within a data set, then
the mean over data sets. A unit without a value stays in the table as a row with its reason.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from cfc.errors import ArtifactError
from cfc.evaluate import EvaluationSettings
from cfc.ranking import SCORES, SIGNS, in_order, score_info

Unit = tuple[str, str, int]
Display = tuple[str, pd.DataFrame]

UNIT_KEYS = ["dataset", "model", "seed"]
METRIC_KEYS = ["label_rule", "score", "sign", "metric"]
MISSING_FILE = "unit not evaluated: its file is missing"
MISSING_ROW = "not in the unit's evaluate file"
LISTED_UNITS = 12
UNDEFINED = "—"


@dataclass(frozen=True)
class TableContext:
    """Facts of the run a table needs besides the evaluated units.

    Attributes:
        run: name of the run.
        preset: name of the protocol preset, printed on every table.
        timings: columns dataset, model, seed, stage, seconds, model_seconds, forward_rows and,
            where a stage has them, cases and rows_per_case (by formula); one row a unit and
            stage. None when no timing was collected.
        certificates: returns the certificate rows of a unit as a DataFrame, or None when it has
            none; needed by ``case_degradation`` only.
        benchmarks: folder of the run's benchmark files; needed by ``runtime`` only.
        tables: returns another table of the run by name, read from disk with the conventions of
            `TableResult.data`, or None when the run has none; needed by ``paper_vs_ours`` only.
        reference: file with the printed figures of the paper; needed by ``paper_vs_ours`` only.
    """

    run: str
    preset: str
    timings: pd.DataFrame | None = None
    certificates: Callable[[Unit], pd.DataFrame | None] | None = None
    benchmarks: Path | None = None
    tables: Callable[[str], pd.DataFrame | None] | None = None
    reference: Path | None = None


@dataclass
class TableResult:
    """One finished table.

    Attributes:
        id: its name in the results folder.
        title: its heading.
        run, preset: the run and protocol preset it belongs to.
        data: long, full precision; what figures read.
        displays: (caption, readable table of strings) pairs.
        notes: sentences printed under the table.
        n_expected, n_evaluated: units of the run, and those with an evaluate file.
        preset_label, unit_label: what ``preset`` and the counted units are called in print.
    """

    id: str
    title: str
    run: str
    preset: str
    data: pd.DataFrame
    displays: list[Display]
    notes: list[str] = field(default_factory=list)
    n_expected: int = 0
    n_evaluated: int = 0
    preset_label: str = "protocol preset"
    unit_label: str = "units"


class Units:
    """The evaluated units of a run against the units it should have.

    Args:
        rows: the concatenated evaluate files (``pyarrow.Table`` or DataFrame).
        expected: (dataset, model, seed) of every unit of the run, in the order tables show.

    Raises:
        ArtifactError: a unit occurs twice, or no unit is expected.
    """

    def __init__(self, rows, expected: Iterable[Unit]):
        self.expected = [(str(d), str(m), int(s)) for d, m, s in expected]
        if not self.expected:
            raise ArtifactError("a table needs at least one expected unit")
        self.datasets = list(dict.fromkeys(d for d, _, _ in self.expected))
        self.models = list(dict.fromkeys(m for _, m, _ in self.expected))
        frame = rows.to_pandas() if hasattr(rows, "to_pandas") else rows.copy()
        for name in (*METRIC_KEYS, "dataset", "model", "family"):
            # Through categories, so that equal texts share one object: the frame has about 3,400
            # rows a unit. Empty text, not null: nulls take no part in joins and groupings.
            column = frame[name].astype("category").astype(object)
            frame[name] = column.where(frame[name].notna(), "")
        index = pd.MultiIndex.from_frame(frame[UNIT_KEYS])
        self.frame = frame[index.isin(self.expected)].reset_index(drop=True)
        seen = set(map(tuple, frame[UNIT_KEYS].drop_duplicates().itertuples(index=False)))
        self.missing = [unit for unit in self.expected if unit not in seen]
        self.foreign = sorted(seen - set(self.expected))
        if self.frame.duplicated([*UNIT_KEYS, "family", *METRIC_KEYS]).any():
            raise ArtifactError("a unit's evaluate rows were given twice: pass each file once")

    @property
    def n_evaluated(self) -> int:
        """Number of expected units that have an evaluate file."""
        return len(self.expected) - len(self.missing)

    def result(
        self,
        table_id: str,
        title: str,
        context: TableContext,
        data: pd.DataFrame,
        displays: list[Display],
        notes: list[str],
    ) -> TableResult:
        """Return a finished table of these units."""
        return TableResult(
            table_id,
            title,
            context.run,
            context.preset,
            data,
            displays,
            notes,
            len(self.expected),
            self.n_evaluated,
        )

    def select(self, family: str, metrics: Sequence[str], **keys: Sequence[str]) -> pd.DataFrame:
        """Return one row for every expected unit and every combination asked for.

        Args:
            family: metric group of the evaluate file.
            metrics: metric names.
            keys: for label_rule, score, sign: the values wanted (default: those without one).

        Returns:
            columns `UNIT_KEYS`, `METRIC_KEYS`, value, n, n_positive, reason; ordered by the
            combination asked for, then by unit.
        """
        wanted = {name: list(keys.get(name, [""])) for name in METRIC_KEYS[:3]}
        wanted["metric"] = list(metrics)
        columns = ["value", "n", "n_positive", "reason"]
        frame = self.frame[self.frame["family"] == family]
        for name, values in wanted.items():
            frame = frame[frame[name].isin(values)]
        grid = pd.MultiIndex.from_product(list(wanted.values()), names=METRIC_KEYS).to_frame()
        units = pd.DataFrame(self.expected, columns=UNIT_KEYS)
        grid = grid.reset_index(drop=True).merge(units, how="cross")
        for name in (*METRIC_KEYS, "dataset", "model"):
            grid[name] = grid[name].astype(object)
            frame = frame.assign(**{name: frame[name].astype(object)})
        found = grid.merge(
            frame[[*UNIT_KEYS, *METRIC_KEYS, *columns]],
            on=[*METRIC_KEYS, *UNIT_KEYS],
            how="left",
        )
        reason = found["reason"].astype(object).where(found["reason"].notna(), None)
        absent = found["value"].isna() & reason.isna()
        gone = pd.MultiIndex.from_frame(found[UNIT_KEYS]).isin(self.missing)
        reason[absent] = np.where(gone[absent], MISSING_FILE, MISSING_ROW)
        found["reason"] = reason
        return found[[*UNIT_KEYS, *METRIC_KEYS, *columns]]

    def notes(self) -> list[str]:
        """Return sentences on units that are missing or do not belong."""
        lines = []
        if self.missing:
            lines.append(
                f"{len(self.missing)} of {len(self.expected)} expected units have no evaluate "
                f"file: {list_missing(self.missing, self.expected)}."
            )
        if self.foreign:
            lines.append(
                f"{len(self.foreign)} units were given that the run does not expect, and left "
                f"out: {list_units(self.foreign)}."
            )
        return lines


def score_signs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the (score, sign) rows of a ranking table: a score whose sign matters gets two.

    Confidence scores come first in the risk sign, then in the paper's; all others have one row,
    stored under ``risk``.
    """
    confidence = confidence_names(names)
    return (
        [(name, "risk") for name in confidence]
        + [(name, "paper") for name in confidence]
        + [(name, "risk") for name in names if name not in confidence]
    )


def confidence_names(names: Sequence[str]) -> list[str]:
    """Return the scores that are functions of the unstressed prediction alone."""
    kinds = {info.name: info.kind for info in SCORES}
    return [name for name in names if kinds.get(name) == "confidence"]


def score_title(name: str, sign: str = "risk") -> str:
    """Return the printed name of a score, with its sign or the mark of our own rows."""
    info = score_info(name)
    if info is None:
        return f"{name} (ours)"
    if info.kind == "confidence":
        return f"{info.title}, {sign} sign"
    return f"{info.title} (ours)" if info.kind == "ours" else info.title


def scores_in(units: Units) -> list[str]:
    """Return the scores that occur in the units: the declared ones in their order, then others."""
    held = [name for name in units.frame["score"].unique() if name]
    return in_order([*(info.name for info in SCORES), *held])


def select_ranking(
    units: Units, metrics: Sequence[str], settings: EvaluationSettings
) -> pd.DataFrame:
    """Return the unit rows of ranking metrics for each label rule and each (score, sign) row."""
    pairs = score_signs(scores_in(units))
    frame = units.select(
        "brittle",
        metrics,
        label_rule=settings.label_rules,
        score=list(dict.fromkeys(score for score, _ in pairs)),
        sign=SIGNS,
    )
    order = {pair: i for i, pair in enumerate(pairs)}
    position = pd.Series(
        [order.get(pair, -1) for pair in zip(frame["score"], frame["sign"], strict=True)],
        index=frame.index,
    )
    frame = frame.assign(_order=position)[position >= 0]
    rules = {rule: i for i, rule in enumerate(settings.label_rules)}
    frame = frame.assign(_rule=frame["label_rule"].map(rules))
    return (
        frame.sort_values(["_rule", "_order"], kind="stable")
        .drop(columns=["_rule", "_order"])
        .reset_index(drop=True)
    )


def aggregate(unit_rows: pd.DataFrame) -> pd.DataFrame:
    """Return the unit rows with the levels above them.

    Args:
        unit_rows: as `Units.select` gives them.

    Returns:
        columns level (unit, dataset, aggregate), `UNIT_KEYS`, `METRIC_KEYS`, value, sd,
        n_defined, n_undefined, n, n_positive, reason. ``sd`` is the standard deviation (n - 1)
        over the defined units below; the aggregate's value is the mean of the data sets' values.
    """
    unit = unit_rows.assign(
        level="unit",
        sd=np.nan,
        n_defined=unit_rows["value"].notna().astype(int),
        n_undefined=unit_rows["value"].isna().astype(int),
    )
    dataset = _spread(unit_rows, ["dataset", *METRIC_KEYS]).assign(level="dataset")
    top = _spread(unit_rows, METRIC_KEYS).assign(level="aggregate")
    means = dataset.groupby(METRIC_KEYS, sort=False)["value"].mean()
    top["value"] = means.to_numpy()
    every = pd.concat([unit, dataset, top], ignore_index=True)
    return every[
        [
            "level",
            *UNIT_KEYS,
            *METRIC_KEYS,
            "value",
            "sd",
            "n_defined",
            "n_undefined",
            "n",
            "n_positive",
            "reason",
        ]
    ]


def _spread(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    grouped = rows.groupby(keys, sort=False)["value"]
    out = grouped.agg(value="mean", sd="std", n_defined="count", total="size").reset_index()
    out["n_undefined"] = out.pop("total") - out["n_defined"]
    return out


def pick(data: pd.DataFrame, **keys) -> pd.DataFrame:
    """Return the rows whose columns equal the given values."""
    mask = np.ones(len(data), dtype=bool)
    for name, value in keys.items():
        mask &= (data[name] == value).to_numpy()
    return data[mask]


def undefined_notes(unit_rows: pd.DataFrame, what: str) -> list[str]:
    """Return one sentence on how many units are undefined, with reasons and units.

    Args:
        unit_rows: one row a unit.
        what: what is undefined, for the sentence.
    """
    undefined = unit_rows[unit_rows["value"].isna()]
    total = len(unit_rows)
    if undefined.empty:
        return [f"{what}: defined in all {total} units."]
    groups: dict[str, list[Unit]] = {}
    for row in undefined.itertuples(index=False):
        kind = re.sub(r"\d+", "N", str(row.reason))
        groups.setdefault(kind, []).append((row.dataset, row.model, int(row.seed)))
    parts = [f"{len(u)} × {kind} ({list_units(u)})" for kind, u in sorted(groups.items())]
    return [
        f"{what}: defined in {total - len(undefined)} of {total} units; undefined: "
        + "; ".join(parts)
        + "."
    ]


def list_units(units: Sequence[Unit]) -> str:
    """Return units as text, cut after a dozen."""
    shown = [f"{d}/{m}/{s}" for d, m, s in units[:LISTED_UNITS]]
    rest = len(units) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def list_missing(missing: Sequence[Unit], expected: Sequence[Unit]) -> str:
    """Return missing units as text, whole seeds and whole data sets of a seed in one word."""
    gone, parts = set(missing), []
    blocks = [(f"all of seed {s}", (None, s)) for s in dict.fromkeys(s for _, _, s in expected)]
    blocks += [
        (f"all of {d}, seed {s}", (d, s)) for d, s in dict.fromkeys((d, s) for d, _, s in expected)
    ]
    for text, (dataset, seed) in blocks:
        block = {u for u in expected if u[2] == seed and dataset in (None, u[0])}
        if len(block) > 1 and block <= gone:
            parts.append(text)
            gone -= block
    left = [unit for unit in missing if unit in gone]
    return "; ".join([*parts, *([list_units(left)] if left else [])])


def number(value: float, digits: int = 3, *, signed: bool = False) -> str:
    """Return a number as text with fixed decimals; a null as a dash."""
    if value is None or pd.isna(value):
        return UNDEFINED
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "").replace("+", "")


def interval(low: float, high: float, digits: int = 3, *, signed: bool = False) -> str:
    """Return an interval as text."""
    if pd.isna(low) or pd.isna(high):
        return UNDEFINED
    return f"[{number(low, digits, signed=signed)}, {number(high, digits, signed=signed)}]"


def mark_best(values: Sequence[float], texts: Sequence[str], *, larger_is_better: bool) -> list:
    """Return the texts with the best in bold and the second underlined; ties share a mark."""
    keyed = [(-v if larger_is_better else v) if pd.notna(v) else np.nan for v in values]
    ranks = sorted({k for k in keyed if pd.notna(k)})
    marked = []
    for key, text in zip(keyed, texts, strict=True):
        if len(ranks) > 1 and key == ranks[0]:
            text = f"**{text}**"
        elif len(ranks) > 2 and key == ranks[1]:
            text = f"<u>{text}</u>"
        marked.append(text)
    return marked


def defined_text(n_defined: int, n_undefined: int) -> str:
    """Return ``defined/all`` as text."""
    return f"{n_defined}/{n_defined + n_undefined}"
