"""Table ``runtime``: wall time and peak memory of every stage, from the run's benchmark files."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import (
    UNDEFINED,
    UNIT_KEYS,
    TableContext,
    TableResult,
    Unit,
    Units,
    number,
    pick,
)

TITLE = "Running time and memory by stage"
_BENCHMARK = {"s": "seconds", "cpu_time": "cpu_seconds", "max_rss": "peak_mb"}
COLUMNS = ["stage", *UNIT_KEYS, "job", *_BENCHMARK.values()]
_GIGABYTE_MB = 1024.0
logger = logging.getLogger(__name__)


def read_benchmarks(folder: Path, expected: Sequence[Unit]) -> pd.DataFrame:
    """Return one row a finished job of this run's units.

    A file lies under ``<rule>/<data set>/<family>/seed<n>.jsonl``, ``<rule>/<data set>/seed<n>``,
    ``<rule>/<data set>`` or ``<rule>/<table or figure>``. Files of data sets, families and seeds
    outside the run are left out. A damaged file is skipped and said so in the log.

    Args:
        folder: the run's benchmarks.
        expected: (dataset, model, seed) of every unit.

    Returns:
        columns `COLUMNS`; the unit's columns are empty or null where a job has none. Seconds are
        wall time, ``peak_mb`` the largest resident memory seen (null for very short jobs).
    """
    datasets, models, seeds = (set(part) for part in zip(*expected, strict=True))
    rows = []
    for path in sorted(Path(folder).rglob("*.jsonl")):
        stage, *parts = path.relative_to(folder).with_suffix("").parts
        if not parts:
            continue
        unit = {"dataset": "", "model": "", "seed": None}
        if parts[-1].startswith("seed") and parts[-1][4:].isdigit():
            unit["seed"] = int(parts[-1][4:])
            unit |= dict(zip(("dataset", "model"), parts[:-1], strict=False))
            unknown = unit["seed"] not in seeds or unit["dataset"] not in datasets
            if unknown or (unit["model"] and unit["model"] not in models):
                continue
        elif stage == "acquire_data":
            if parts[0] not in datasets:
                continue
            unit["dataset"] = parts[0]
        try:
            last = json.loads(path.read_text(encoding="utf-8").strip().splitlines()[-1])
        except (ValueError, IndexError) as error:
            logger.warning("%s cannot be read (%s); left out", path, error)
            continue
        measured = {ours: last.get(name) for name, ours in _BENCHMARK.items()}
        rows.append({"stage": stage, **unit, "job": "/".join(parts), **measured})
    frame = pd.DataFrame(rows, columns=COLUMNS)
    for name in _BENCHMARK.values():
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype("float64")
    return frame


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table.

    Data: level ``job`` (one row a job), ``stage``, ``stage_dataset``, ``stage_model`` and
    ``total``: seconds (sum), mean_seconds, max_seconds, cpu_seconds, peak_mb (largest), n_jobs.
    """
    units = Units(rows, expected)
    jobs = pd.DataFrame(columns=COLUMNS)
    if context.benchmarks is not None:
        jobs = read_benchmarks(context.benchmarks, units.expected)
    levels = [("stage", ["stage"]), ("stage_dataset", ["stage", "dataset"])]
    levels.append(("stage_model", ["stage", "model"]))
    parts = [jobs.assign(level="job")]
    for level, keys in levels:
        own = jobs
        for key in keys[1:]:
            own = own[own[key] != ""]
        parts.append(_sums(own, keys).assign(level=level))
    parts.append(
        _sums(jobs.assign(every=""), ["every"]).drop(columns="every").assign(level="total")
    )
    parts = [part for part in parts if len(part)]
    data = pd.concat(parts, ignore_index=True) if parts else jobs.assign(level="", n_jobs=0)
    for name in ("stage", "dataset", "model", "job"):
        data[name] = data[name].astype(object).where(data[name].notna(), "")
    displays = [("By stage, longest first", _stages(data) if len(jobs) else _nothing())]
    if len(jobs):
        displays.append(("Minutes by stage and data set", _grid(data, "dataset", units.datasets)))
        displays.append(("Minutes by stage and family", _grid(data, "model", units.models)))
    notes = units.notes()
    if not len(jobs):
        notes.append("No benchmark file was found, so nothing is shown.")
    notes += [
        "Wall time of each job, its start included (libraries are loaded anew in every job), as "
        "measured by the workflow engine; the sum is what one core needs. Peak memory: largest "
        "resident set of one job, sampled, so that jobs of a second or two may show too little.",
        "Only the last execution of each job counts. Times differ from machine to machine and "
        "with the load; tables and figures made after this one are not in it. Presets of one run "
        "share these files.",
    ]
    return units.result("runtime", TITLE, context, data, displays, notes)


def _sums(jobs: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    if jobs.empty:
        return pd.DataFrame(columns=[*keys, "seconds"])
    return (
        jobs.groupby(keys, sort=False)
        .agg(
            n_jobs=("seconds", "size"),
            seconds=("seconds", "sum"),
            mean_seconds=("seconds", "mean"),
            max_seconds=("seconds", "max"),
            cpu_seconds=("cpu_seconds", "sum"),
            peak_mb=("peak_mb", "max"),
        )
        .reset_index()
    )


def _stages(data: pd.DataFrame) -> pd.DataFrame:
    stages = pick(data, level="stage").sort_values("seconds", ascending=False, kind="stable")
    jobs = pick(data, level="job")
    total = pick(data, level="total").iloc[0]
    lines = []
    for row in stages.itertuples(index=False):
        own = pick(jobs, stage=row.stage)
        slowest = own.loc[own["seconds"].idxmax(), "job"] if own["seconds"].notna().any() else ""
        lines.append([row.stage, *_cells(row, total["seconds"]), slowest])
    lines.append(["all", *_cells(total, total["seconds"]), ""])
    columns = ["stage", "jobs", "minutes", "share", "mean s", "longest s", "peak GB"]
    return pd.DataFrame(lines, columns=[*columns, "longest job"])


def _nothing() -> pd.DataFrame:
    return pd.DataFrame([["no job measured", UNDEFINED]], columns=["stage", "minutes"])


def _cells(row, total: float) -> list[str]:
    share = row.seconds / total if total else float("nan")
    return [
        str(int(row.n_jobs)),
        number(row.seconds / 60, 2),
        "—" if pd.isna(share) else f"{share:.1%}",
        number(row.mean_seconds, 1),
        number(row.max_seconds, 1),
        number(row.peak_mb / _GIGABYTE_MB, 2),
    ]


def _grid(data: pd.DataFrame, key: str, names: list[str]) -> pd.DataFrame:
    own = pick(data, level=f"stage_{key}")
    at = own.set_index(["stage", key])["seconds"] / 60
    lines = [
        [stage, *[number(at.get((stage, name)), 2) for name in names]]
        for stage in dict.fromkeys(own["stage"])
    ]
    sums = [number(at[at.index.get_level_values(1) == name].sum(), 2) for name in names]
    return pd.DataFrame([*lines, ["all", *sums]], columns=["stage", *names])
