"""The finished stages of one profile, read once, with the metrics every table shares.

Aggregation: metrics are computed within a base model, then averaged over base models; the spread
is the sample standard deviation over base models. Candidates and changed models are never pooled
across base models, except where a column says ``pooled``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cfc.artifacts import read_json, read_metadata, read_table
from cfc.recourse.data import RecourseData, lacks_median_deviation
from cfc.recourse.families import FAMILIES
from cfc.recourse.generate import COVERED
from cfc.recourse.methods.registry import METHODS

METRICS = (
    "coverage_pct",
    "base_validity_pct",
    "empirical_robustness_pct",
    "end_to_end_robustness_pct",
    "scaled_l1_distance",
)
PERCENT = 100.0


@dataclass(frozen=True)
class Results:
    """Files of one profile, each read on first use.

    Attributes:
        folder: the profile's folder.
        run, profile: names printed on tables.
        datasets, methods, families: what the run holds, in order.
        titles: printed names of data sets.
        settings: ``variants``, ``bases``, ``n_bootstrap``, ``bootstrap_seed``.
        reference: file with the published numbers, or None.
    """

    folder: Path
    run: str
    profile: str
    datasets: Sequence[str]
    methods: Sequence[str]
    families: Sequence[str]
    titles: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    reference: Path | None = None

    def _frames(self, pattern: str, **fixed: str) -> pd.DataFrame:
        parts = []
        for dataset in self.datasets:
            frame = read_table(self.folder / pattern.format(dataset=dataset, **fixed)).to_pandas()
            parts.append(frame.assign(dataset=dataset))
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def data_facts(self) -> dict[str, dict[str, Any]]:
        """Facts and part sizes of each data set."""
        found = {}
        for dataset in self.datasets:
            path = self.folder / f"data/{dataset}.parquet"
            parts = read_table(path, ["part"]).column("part").to_pandas().value_counts()
            own = read_metadata(path)["recourse"]["facts"]
            found[dataset] = {**own, **{f"n_{k}": int(v) for k, v in parts.items()}}
        return found

    @cached_property
    def without_mad(self) -> dict[str, list[str]]:
        """Data set -> features without a median absolute deviation over training rows."""
        found = {}
        for dataset in self.datasets:
            data = RecourseData.read(self.folder / f"data/{dataset}.parquet")
            lacking = lacks_median_deviation(data.X["train"])
            found[dataset] = [f for f, lacks in zip(data.fields, lacking, strict=True) if lacks]
        return found

    @cached_property
    def bases(self) -> pd.DataFrame:
        """A row a data set and base model."""
        return self._frames("bases/{dataset}.parquet")

    @cached_property
    def bank(self) -> pd.DataFrame:
        """A row a changed model."""
        return pd.concat(
            [self._frames("bank/{dataset}/{family}.parquet", family=f) for f in self.families],
            ignore_index=True,
        )

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """A row a data set, method, base model and request."""
        return self._frames("evaluation/{dataset}.candidates.parquet")

    @cached_property
    def survival(self) -> pd.DataFrame:
        """A row a valid candidate and change family, with the share of models it survives."""
        return self._frames("evaluation/{dataset}.survival.parquet")

    @cached_property
    def models(self) -> pd.DataFrame:
        """A row a method and changed model, with the candidates it accepts."""
        return self._frames("evaluation/{dataset}.models.parquet")

    @cached_property
    def certificates(self) -> pd.DataFrame:
        """A row a request, with its certificate."""
        return self._frames("certificates/{dataset}.parquet")

    def method_json(self, kind: str) -> list[dict[str, Any]]:
        """Return the JSON of every data set and method: ``facts`` or ``timings``."""
        return [
            read_json(self.folder / f"candidates/{d}/{m}.{kind}.json")
            for d in self.datasets
            for m in self.methods
        ]

    @cached_property
    def by_base(self) -> pd.DataFrame:
        """The metrics of each data set, method and base model.

        Columns: dataset, method, base, n_requests, n_covered, n_valid and `METRICS`; undefined
        metrics are NaN (base validity without candidates, robustness and distance without valid
        ones). End-to-end robustness is 0 where nothing is valid.
        """
        keys = ["dataset", "method", "base"]
        rows = []
        robust = self.by_family.groupby(keys)["robustness_pct"].mean()
        for key, own in self.candidates.groupby(keys, sort=False):
            covered = own["status"].isin(COVERED)
            valid = own["status"] == "ok"
            coverage = covered.mean()
            validity = valid.sum() / covered.sum() if covered.any() else np.nan
            robustness = robust.get(key, np.nan) / PERCENT
            whole = coverage * validity * robustness if valid.any() else 0.0
            rows.append(
                {
                    **dict(zip(keys, key, strict=True)),
                    "n_requests": len(own),
                    "n_covered": int(covered.sum()),
                    "n_valid": int(valid.sum()),
                    "coverage_pct": PERCENT * coverage,
                    "base_validity_pct": PERCENT * validity,
                    "empirical_robustness_pct": PERCENT * robustness,
                    "end_to_end_robustness_pct": PERCENT * whole,
                    "scaled_l1_distance": own.loc[valid, "distance"].mean(),
                    "n_changed": own.loc[valid, "n_changed"].mean(),
                    "plausibility": own.loc[valid, "plausibility"].mean(),
                }
            )
        return pd.DataFrame(rows)

    @cached_property
    def by_family(self) -> pd.DataFrame:
        """Robustness (percent) of each data set, method, base model and family.

        Columns: dataset, method, base, family, robustness_pct, n_valid. Base models without a
        valid candidate have no row.
        """
        keys = ["dataset", "method", "base", "family"]
        grouped = self.survival.groupby(keys, sort=False)["share"]
        found = grouped.agg(robustness_pct="mean", n_valid="size").reset_index()
        found["robustness_pct"] *= PERCENT
        return found

    def spread(self, frame: pd.DataFrame, keys: list[str], value: str) -> pd.DataFrame:
        """Return mean, sample standard deviation and number of base models of a column."""
        grouped = frame.groupby(keys, sort=False)[value]
        return grouped.agg(mean="mean", sd="std", n_bases="count").reset_index()


def spearman(one: pd.Series, other: pd.Series) -> float:
    """Return the rank correlation of two columns; NaN where one of them is constant."""
    ranks = pd.DataFrame({"one": one, "other": other}).astype(float).rank()
    # pandas would warn and divide by 0
    if (ranks.nunique() < 2).any():
        return float("nan")
    return float(ranks["one"].corr(ranks["other"]))


def in_known_order(names, known: Sequence[str]) -> list[str]:
    """Return names in the published order, those of one's own after them."""
    names = list(dict.fromkeys(names))
    return [n for n in known if n in names] + [n for n in names if n not in known]


def method_title(name: str) -> str:
    """Return the printed name of a method; one's own keeps its key."""
    from cfc.recourse.methods.registry import get_method

    return get_method(name).title if name in METHODS else name


def family_title(name: str) -> str:
    """Return the printed name of a change family; one's own keeps its key."""
    return FAMILIES[name].title if name in FAMILIES else name
