"""Table ``paper_vs_ours``: every printed figure beside ours, with a verdict by a fixed rule."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from cfc.bootstrap import bootstrap_mean, grouped_mean
from cfc.errors import ConfigError
from cfc.evaluate import EvaluationSettings, capture_metric
from cfc.ranking import SCORES
from cfc.reference import MIN_UNITS, RULE, VERDICTS, judge, read_reference
from cfc.tables.base import (
    UNDEFINED,
    UNIT_KEYS,
    TableContext,
    TableResult,
    Unit,
    Units,
    interval,
    number,
    pick,
    score_title,
)

TITLE = "The paper's printed figures and ours"
PRIMARY = "literal"  # eq. 30 as printed
CONFIDENCE = tuple(info.name for info in SCORES if info.kind == "confidence")
# table of the paper -> our table that holds its figures
TABLE_OF = {
    "2a": "brittle_aggregate",
    "2b": "brittle_aggregate",
    "7": "search_gap",
    "9": "natural",
    "10": "ablation",
    "11": "stability",
    "12": "brittle_aggregate",
    "14": "budget",
    "16": "attribution",
    "text": "brittle_aggregate",
}
READ = tuple(dict.fromkeys(TABLE_OF.values()))
PAPER_DATASETS = ("adult", "bank", "credit_g", "default", "electricity", "heloc", "covertype")
_TITLES = {
    "default": "FDS, K = 10",
    "depth_3": "FDS, K = 3",
    "depth_15": "FDS, K = 15",
    "flip_heavy": "FDS, flip-heavy weights",
    "degradation_heavy": "FDS, degradation-heavy weights",
    "tempered": "FDS after temperature scaling",
    "flip_budget": "flip budget alone",
    "degradation": "degradation alone",
    "full": "full FDS",
    "static": "greedy path",
    "strongest_confidence": "strongest non-certificate score",
    "confidence_low": "confidence scores, lowest",
    "confidence_high": "confidence scores, highest",
}


@dataclass(frozen=True)
class Found:
    """Our value of one printed figure in one sign.

    Attributes:
        value, low, high: the value and its 95 % interval; ``nan`` where there is none.
        n_units, n_datasets: units and data sets behind it.
        n_undefined: units without a value.
        reason: why there is no value.
        convention: how scores are signed.
    """

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    n_units: int = 0
    n_datasets: int = 0
    n_undefined: int = 0
    reason: str = ""
    convention: str = ""


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table.

    Data: one row a printed figure: source, dataset, score, metric, paper, paper_low, paper_high,
    neutral, ours, low, high, convention, ours_risk, risk_low, risk_high (the same with confidence
    scores in the risk sign; null where no sign enters), verdict, why, n_units, n_undefined,
    n_datasets.

    Raises:
        ConfigError: the context holds no reference file or no access to the run's tables.
    """
    if context.tables is None or context.reference is None:
        raise ConfigError("paper_vs_ours needs the run's other tables and the printed figures")
    units = Units(rows, expected)
    look = Lookup(context.tables, settings, units)
    lines = [_compare(row, look) for row in read_reference(context.reference).to_dict("records")]
    data = pd.DataFrame(lines)
    counts = {v: int((data["verdict"] == v).sum()) for v in VERDICTS}
    displays = [("Verdicts", _summary(data))]
    for source in dict.fromkeys(data["source"]):
        displays.append((source, _display(pick(data, source=source))))
    absent = [name for name in READ if context.tables(name) is None]
    notes = units.notes()
    inside = [d for d in PAPER_DATASETS if d in units.datasets]
    notes += [
        f"{len(data)} printed figures: " + ", ".join(f"{n} {v}" for v, n in counts.items()) + ".",
        RULE,
        f"Ours: label rule `{PRIMARY}` (eq. 30), mean over units, then data sets; interval: "
        f"percentile bootstrap over units, 95 %, {settings.n_bootstrap} resamples. "
        "Sign 'paper': more confidence is ranked as more brittle, as the printed "
        "values need; gains and win rates are then against the strongest score so signed. "
        "Column 'ours, risk sign': the same with less confidence as more brittle, the sign one "
        "would use; the verdict is about the paper's convention.",
        f"This run holds {len(inside)} of the paper's {len(PAPER_DATASETS)} data sets"
        + (f" ({', '.join(inside)})" if inside else "")
        + "; means printed as 'all' are compared with the mean of those"
        + (", so they need not agree." if len(inside) < len(PAPER_DATASETS) else "."),
    ]
    if absent:
        notes.append(f"Not in this run, so their figures are undefined: {', '.join(absent)}.")
    return units.result("paper_vs_ours", TITLE, context, data, displays, notes)


def _compare(row: dict, look: "Lookup") -> dict:
    own, risk = look(row)
    decided = judge(row["value"], own.value, own.low, own.high, row["neutral"])
    is_defined = decided.verdict != "undefined"
    parts = [decided.why, _remark(row)] if is_defined else [own.reason]
    if is_defined and own.n_undefined:
        parts.append(f"{own.n_undefined} of {own.n_units + own.n_undefined} units undefined")
    return {
        "source": row["source"],
        "dataset": row["dataset"],
        "score": row["score"],
        "metric": row["metric"],
        "paper": row["value"],
        "paper_low": row["low"],
        "paper_high": row["high"],
        "neutral": row["neutral"],
        "ours": own.value,
        "low": own.low,
        "high": own.high,
        "convention": own.convention,
        "ours_risk": risk.value if risk else np.nan,
        "risk_low": risk.low if risk else np.nan,
        "risk_high": risk.high if risk else np.nan,
        "verdict": decided.verdict,
        "why": "; ".join(part for part in parts if part),
        "n_units": own.n_units,
        "n_undefined": own.n_undefined,
        "n_datasets": own.n_datasets,
    }


def _remark(row: dict) -> str:
    if row["score"] == "negative_energy" and row["dataset"] not in ("all", "covertype"):
        return "eq. 19 is monotone in max-softmax for two classes, so the two must agree"
    if row["metric"] in ("exact_match", "greedy_over") and row["dataset"] == "all":
        return "the printed match and over-estimate add up to .961, but must to 1"
    if row["score"] == "strongest_confidence":
        return "printed for negative energy, which eq. 19 cannot give"
    return ""


class Lookup:
    """Finds our value of a printed figure in the tables of a run.

    Args:
        tables: another table's data by name, None when the run has none.
        settings: resamples and seed of the intervals.
        units: the run's units.
    """

    def __init__(
        self,
        tables: Callable[[str], pd.DataFrame | None],
        settings: EvaluationSettings,
        units: Units,
    ):
        self.tables, self.settings, self.units = tables, settings, units
        self._kept: dict = {}

    def __call__(self, row: dict) -> tuple[Found, Found | None]:
        """Return our value in the paper's convention and, where a sign enters, in the risk sign."""
        table = TABLE_OF[row["source"].removeprefix("Table ").removesuffix(" and text")]
        if self.tables(table) is None:
            return Found(reason=f"table {table} is not in this run"), None
        kept = self._datasets(row["dataset"])
        if not kept:
            name = "none of the paper's data sets"
            name = name if row["dataset"] == "all" else f"data set {row['dataset']}"
            verb = "is in this run" if row["dataset"] == "all" else "is not in this run"
            return Found(reason=f"{name} {verb}"), None
        find = getattr(self, f"_{row['metric']}")
        signed = row["score"] in CONFIDENCE or row["metric"] in (
            "gain",
            "share_not_improving",
            "win_rate",
        )
        signed = signed or row["score"] in (
            "strongest_confidence",
            "confidence_low",
            "confidence_high",
        )
        if not signed:
            return replace(find(table, row, kept, "risk"), convention="no sign enters"), None
        own, risk = (find(table, row, kept, sign) for sign in ("paper", "risk"))
        return replace(own, convention="paper sign"), replace(risk, convention="risk sign")

    def _datasets(self, name: str) -> list[str]:
        if name == "all":
            return [d for d in self.units.datasets if d in PAPER_DATASETS]
        return [d for d in name.split("+") if d in self.units.datasets]

    # --- one function a metric -------------------------------------------------------------------

    def _auroc(self, table, row, kept, sign) -> Found:
        score = row["score"]
        if score == "strongest_confidence":
            score = self._reference(sign)
            if not score:
                return Found(reason="no confidence score is defined")
        if table == "ablation" and score in CONFIDENCE:
            table = "brittle_aggregate"
        keys = {"metric": "auroc_fds" if table == "stability" else "auroc", "score": score}
        if table in ("brittle_aggregate", "natural", "attribution"):
            keys["sign"] = sign
        return self._mean(table, kept, label_rule=PRIMARY, **keys)

    def _auroc_min(self, table, row, kept, sign) -> Found:
        return self._extreme(table, row, kept, sign, np.nanargmin)

    def _auroc_max(self, table, row, kept, sign) -> Found:
        return self._extreme(table, row, kept, sign, np.nanargmax)

    def _extreme(self, table, row, kept, sign, choose) -> Found:
        found = [self._auroc(table, row, [d], sign) for d in kept]
        values = np.array([f.value for f in found])
        if np.isnan(values).all():
            return Found(reason=found[0].reason)
        chosen = found[int(choose(values))]
        return replace(chosen, n_datasets=int((~np.isnan(values)).sum()))

    def _gain(self, table, row, kept, sign) -> Found:
        return self._of_units(self._gains(row["score"], sign), kept, grouped=True)

    def _share_not_improving(self, table, row, kept, sign) -> Found:
        gains = self._gains(row["score"], sign)
        return self._of_units(gains.assign(value=_flag(gains["value"] <= 0, gains)), kept)

    def _win_rate(self, table, row, kept, sign) -> Found:
        gains = self._gains(row["score"], sign)
        return self._of_units(gains.assign(value=_flag(gains["value"] > 0, gains)), kept)

    def _capture_20(self, table, row, kept, sign) -> Found:
        keys = {"label_rule": PRIMARY, "metric": capture_metric(0.2), "sign": sign}
        if row["score"] not in ("confidence_low", "confidence_high"):
            return self._mean(table, kept, score=row["score"], **keys)
        found = [self._mean(table, kept, score=name, **keys) for name in CONFIDENCE]
        defined = [f for f in found if not np.isnan(f.value)]
        if not defined:
            return found[0]
        best = min if row["score"] == "confidence_low" else max
        return best(defined, key=lambda f: f.value)

    def _search(self, table, row, kept, sign) -> Found:
        return self._mean(table, kept, metric=row["metric"], score=row["score"])

    _exact_match = _greedy_over = _mean_gap = _pair_miss = _beam_improve_larger = _search

    def _cases(self, table, row, kept, sign) -> Found:
        if self.tables("search_gap") is None:
            return Found(reason="table search_gap is not in this run")
        rows = self._rows("search_gap", metric="exact_match", score=row["score"])
        own = rows[rows["value"].notna() & rows["dataset"].isin(kept)]
        if own.empty:
            return Found(reason="no exact search was feasible")
        return Found(
            float(own["n"].sum()), n_units=len(own), n_datasets=int(own["dataset"].nunique())
        )

    # --- rows, references and means --------------------------------------------------------------

    def _rows(self, table: str, **keys) -> pd.DataFrame:
        data = self.tables(table)
        keys = {name: value for name, value in keys.items() if name in data.columns}
        return pick(data, level="unit", **keys)

    def _reference(self, sign: str) -> str:
        top = pick(
            self.tables("brittle_aggregate"),
            level="aggregate",
            label_rule=PRIMARY,
            metric=f"gain_vs_{sign}",
        )
        return top["reference"].iloc[0] if len(top) else ""

    def _gains(self, score: str, sign: str) -> pd.DataFrame:
        """Return a score's AUROC minus that of the strongest confidence score, unit by unit."""
        reference = self._reference(sign)
        keys = {"label_rule": PRIMARY, "metric": "auroc"}
        own = self._rows("brittle_aggregate", score=score, sign="risk", **keys)
        against = self._rows("brittle_aggregate", score=reference, sign=sign, **keys)
        at = against.set_index(UNIT_KEYS)["value"].reindex(pd.MultiIndex.from_frame(own[UNIT_KEYS]))
        return own.assign(value=own["value"].to_numpy(dtype=float) - at.to_numpy(dtype=float))

    def _mean(self, table: str, kept: list[str], **keys) -> Found:
        rows = self._rows(table, **keys)
        if rows.empty:
            named = ", ".join(str(v) for v in keys.values())
            return Found(reason=f"table {table} has no row for {named}")
        return self._of_units(rows, kept, grouped=True)

    def _of_units(self, rows: pd.DataFrame, kept: list[str], grouped: bool = False) -> Found:
        rows = rows[rows["dataset"].isin(kept)]
        values = rows["value"].to_numpy(dtype=float)
        defined = ~np.isnan(values)
        if not defined.any():
            reasons = [r for r in rows["reason"] if isinstance(r, str) and r]
            why = pd.Series(reasons).value_counts().index[0] if reasons else "no unit has a value"
            return Found(reason=why, n_undefined=len(rows))
        values, sets = values[defined], rows["dataset"].to_numpy()[defined].astype(str)
        groups = sets if grouped else None
        key = (values.tobytes(), tuple(sets), grouped)
        if key not in self._kept:
            self._kept[key] = self._interval(values, groups)
        value, low, high = self._kept[key]
        return Found(
            value,
            low,
            high,
            n_units=len(values),
            n_datasets=len(set(sets)),
            n_undefined=int((~defined).sum()),
        )

    def _interval(self, values, groups) -> tuple[float, float, float]:
        if len(values) < MIN_UNITS:
            return grouped_mean(values, groups), np.nan, np.nan
        found = bootstrap_mean(
            values,
            groups,
            resamples=self.settings.n_bootstrap,
            seed=self.settings.bootstrap_seed,
        )
        return found.value, found.low, found.high


def _flag(condition: pd.Series, gains: pd.DataFrame) -> pd.Series:
    return condition.astype(float).where(gains["value"].notna())


def figure_title(row) -> str:
    """Return the readable name of a figure's score."""
    name = row["score"]
    return _TITLES.get(name) or score_title(name).split(", ")[0]


def _summary(data: pd.DataFrame) -> pd.DataFrame:
    lines = []
    for source in dict.fromkeys(data["source"]):
        own = pick(data, source=source)
        lines.append([source, *[str(int((own["verdict"] == v).sum())) for v in VERDICTS]])
    lines.append(["all", *[str(int((data["verdict"] == v).sum())) for v in VERDICTS]])
    return pd.DataFrame(lines, columns=["printed in", *VERDICTS])


def _display(own: pd.DataFrame) -> pd.DataFrame:
    lines = []
    for row in own.to_dict("records"):
        digits = 0 if row["metric"] == "cases" else 3
        lines.append(
            [
                f"{figure_title(row)}, {row['metric'].replace('_', ' ')}, {row['dataset']}",
                _printed(row, digits),
                number(row["ours"], digits),
                interval(row["low"], row["high"], digits),
                row["convention"] or UNDEFINED,
                number(row["ours_risk"], digits),
                f"{row['n_units']}/{row['n_units'] + row['n_undefined']}",
                row["verdict"],
                row["why"],
            ]
        )
    columns = ["figure", "paper", "ours", "95 % interval", "sign", "ours, risk sign", "units"]
    return pd.DataFrame(lines, columns=[*columns, "verdict", "why"])


def _printed(row: dict, digits: int) -> str:
    text = number(row["paper"], digits)
    if pd.notna(row["paper_low"]):
        text += f" {interval(row['paper_low'], row['paper_high'], digits)}"
    return text
