"""Data of the recourse benchmark: cleaning, four parts, standardised rows, distance scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cfc.data.registry import DatasetSpec
from cfc.errors import ArtifactError, DataError, ProblemList, nearest

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("train", "update", "validation", "test")
_SMALLEST_SCALE = 1e-8


@dataclass(frozen=True)
class RecourseData:
    """One data set, ready for training and recourse.

    Rows of a part keep the order the splitter shuffled them to; row samples are drawn over it.

    Attributes:
        dataset: its key.
        fields: names of the p features.
        X: part -> float32 [n, p], standardised with the training mean and population deviation.
        y: part -> int8 [n], 1 = favourable.
        row_id: part -> int64 [n], position in the source file.
        mean, sd: float64 [p], what the raw values were standardised with; sd is 1 where constant.
        scale: float64 [p] > 0, the unit of distance of each feature: the median absolute deviation
            of the standardised training rows, or their standard deviation where that is 0, or 1.
        facts: counts for the tables (rows read, rows used, share of the favourable class).
    """

    dataset: str
    fields: tuple[str, ...]
    X: dict[str, np.ndarray]
    y: dict[str, np.ndarray]
    row_id: dict[str, np.ndarray]
    mean: np.ndarray
    sd: np.ndarray
    scale: np.ndarray
    facts: dict[str, Any]

    @property
    def n_features(self) -> int:
        """Number p of features."""
        return len(self.fields)

    @property
    def low(self) -> np.ndarray:
        """Smallest training value of each feature, float64 [p]."""
        return self.X["train"].min(axis=0).astype(np.float64)

    @property
    def high(self) -> np.ndarray:
        """Largest training value of each feature, float64 [p]."""
        return self.X["train"].max(axis=0).astype(np.float64)

    def write(self, path: str | Path, metadata: Mapping[str, Any] | None = None) -> None:
        """Write everything to one Parquet file: a row a data row, the rest in the footer."""
        import pyarrow as pa

        from cfc.artifacts import matrix_to_lists, write_table

        parts = [p for p in PARTS for _ in range(len(self.y[p]))]
        table = pa.table(
            {
                "row_id": pa.array(np.concatenate([self.row_id[p] for p in PARTS])),
                "part": pa.array(parts, type=pa.string()),
                "y": pa.array(np.concatenate([self.y[p] for p in PARTS])),
                "x": matrix_to_lists(np.concatenate([self.X[p] for p in PARTS]), pa.float32()),
            }
        )
        own = {
            "dataset": self.dataset,
            "fields": list(self.fields),
            "mean": self.mean.tolist(),
            "sd": self.sd.tolist(),
            "scale": self.scale.tolist(),
            "facts": self.facts,
        }
        write_table(table, path, {**(metadata or {}), "recourse": own})

    @classmethod
    def read(cls, path: str | Path) -> "RecourseData":
        """Read what `write` wrote.

        Raises:
            ArtifactError: the file is missing, damaged or of another stage.
        """
        from cfc.artifacts import lists_to_matrix, read_metadata, read_table, to_numpy

        facts = read_metadata(path).get("recourse")
        if facts is None:
            raise ArtifactError(f"{path} was not written by rule prepare_recourse; rerun it")
        table = read_table(path)
        part = np.asarray(to_numpy(table.column("part")), dtype=str)
        columns = {
            "X": lists_to_matrix(table.column("x")).astype(np.float32),
            "y": to_numpy(table.column("y")).astype(np.int8),
            "row_id": to_numpy(table.column("row_id")).astype(np.int64),
        }
        by_part = {
            name: {p: np.ascontiguousarray(values[part == p]) for p in PARTS}
            for name, values in columns.items()
        }
        return cls(
            dataset=facts["dataset"],
            fields=tuple(facts["fields"]),
            mean=np.array(facts["mean"], dtype=np.float64),
            sd=np.array(facts["sd"], dtype=np.float64),
            scale=np.array(facts["scale"], dtype=np.float64),
            facts=facts["facts"],
            **by_part,
        )


def prepare(
    table: "pd.DataFrame",
    spec: DatasetSpec,
    *,
    favourable: Sequence[str] | None,
    seed: int,
    drop: Sequence[str] = (),
    drop_rows_below: float | None = None,
) -> RecourseData:
    """Clean, split and standardise one data set.

    Args:
        table: the clean table as `cfc.data.read_dataset` gives it.
        spec: its declaration.
        favourable: labels that count as favourable; None for two classes: the second declared.
        seed: of the split, in [0, 2**32).
        drop: features left out.
        drop_rows_below: rows with a smaller value in any feature kept are left out; for HELOC,
            whose negative numbers are codes.

    Raises:
        DataError: a feature is nominal, a value is missing, the target is not made binary, or a
            class is too small to be split; every problem is named at once.
    """
    problems = ProblemList()
    kept = [f for f in spec.fields if f.name not in drop]
    for name in drop:
        if name not in spec.field_names:
            problems.append(f"drop: no feature {name!r}; {nearest(name, spec.field_names)}")
    nominal = [f.name for f in kept if f.kind != "numeric"]
    if nominal:
        problems.append(
            f"nominal features: {', '.join(map(repr, nominal))}; recourse is defined for numbers "
            "only, so drop them or leave the data set out"
        )
    chosen = _favourable(spec, favourable, problems)
    problems.raise_if_any(DataError, f"data set {spec.key} cannot be used for recourse")
    fields = [f.name for f in kept]
    raw = table[fields].to_numpy(dtype=np.float64)
    y = table[spec.target].isin(chosen).to_numpy().astype(np.int8)
    rows = np.arange(len(raw))
    if drop_rows_below is not None:
        keep = ~(raw < drop_rows_below).any(axis=1)
        raw, y, rows = raw[keep], y[keep], rows[keep]
    empty = [f for f, v in zip(fields, raw.T, strict=True) if not np.isfinite(v).all()]
    if empty:
        raise DataError(
            f"data set {spec.key}: missing values in {', '.join(map(repr, empty))}; the recourse "
            "benchmark imputes nothing, so drop the features or the rows"
        )
    if min(np.bincount(y, minlength=2)) < 20:
        raise DataError(
            f"data set {spec.key}: {int(y.sum())} favourable of {len(y)} rows; each class needs "
            "20 rows to be split four ways"
        )
    places = split_parts(y, seed)
    mean = raw[places["train"]].mean(axis=0)
    sd = raw[places["train"]].std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    X = {p: ((raw[i] - mean) / sd).astype(np.float32) for p, i in places.items()}
    return RecourseData(
        dataset=spec.key,
        fields=tuple(fields),
        X=X,
        y={p: y[i] for p, i in places.items()},
        row_id={p: rows[i].astype(np.int64) for p, i in places.items()},
        mean=mean,
        sd=sd,
        scale=distance_scale(X["train"]),
        facts={
            "rows_read": len(table),
            "rows": len(raw),
            "features": len(fields),
            "favourable_share": float(y.mean()),
            "favourable": list(chosen),
        },
    )


def _favourable(spec: DatasetSpec, favourable, problems: ProblemList) -> list[str]:
    if favourable is None:
        if len(spec.classes) != 2:
            problems.append(
                f"the target {spec.target!r} has {len(spec.classes)} classes and is not binary; "
                "say in recourse.dataset_options which labels are favourable"
            )
        return [spec.classes[-1]]
    for label in favourable:
        if label not in spec.classes:
            problems.append(f"favourable: no label {label!r}; {nearest(label, spec.classes)}")
    if not favourable or set(favourable) >= set(spec.classes):
        problems.append("favourable: name at least one label, and leave at least one out")
    return list(favourable)


def split_parts(y: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return the rows of each part: half train, a tenth update, a tenth validation, 30 % test.

    Three chained stratified splits with one seed, in this order; the published sizes depend on it
    (holding the test rows out first gives Pima 383 training rows in place of 384).

    Args:
        y: class codes [n].
        seed: in [0, 2**32) after truncation to 32 bits.

    Returns:
        part -> positions in ``y``, as the splitter shuffled them.
    """
    from sklearn.model_selection import train_test_split

    def halve(rows, share):
        return train_test_split(
            rows, test_size=share, stratify=y[rows], random_state=seed % 2**32, shuffle=True
        )

    train, rest = halve(np.arange(len(y)), 0.5)
    update, rest = halve(rest, 0.8)
    validation, test = halve(rest, 0.75)
    return {"train": train, "update": update, "validation": validation, "test": test}


def distance_scale(X: np.ndarray) -> np.ndarray:
    """Return the unit of distance of each column; see `RecourseData.scale`.

    Args:
        X: standardised training rows [n, p].
    """
    X = np.asarray(X, dtype=np.float64)
    scale = np.where(lacks_median_deviation(X), X.std(axis=0), _median_deviation(X))
    return np.where(scale > _SMALLEST_SCALE, scale, 1.0)


def lacks_median_deviation(X: np.ndarray) -> np.ndarray:
    """Tell which columns have a median absolute deviation of 0, bool [p].

    More than half of their rows are alike. Their unit of distance is another one, so a split that
    moves a median off a heap of equal values changes distances by a jump.

    Args:
        X: standardised training rows [n, p].
    """
    return _median_deviation(np.asarray(X, dtype=np.float64)) <= _SMALLEST_SCALE


def _median_deviation(X: np.ndarray) -> np.ndarray:
    return np.median(np.abs(X - np.median(X, axis=0)), axis=0)
