"""One data set under one seed, ready for models and audits: matrix, labels, groups, baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cfc.artifacts import (
    read_json,
    read_table,
    sha256_text,
    to_numpy,
    write_json,
    write_table,
)
from cfc.errors import ArtifactError, nearest
from cfc.groups import Groups


@dataclass(frozen=True)
class Prepared:
    """What the preprocess stage leaves for later ones.

    Attributes:
        X: transformed matrix, float32 [n, d], C order.
        y: class codes, int16 [n].
        row_id: row number in the data set's table, int64 [n].
        split: ``train``, ``valid`` or ``test`` [n].
        half: half of train a row belongs to, int8 [n]; −1 outside train.
        classes: original labels in code order.
        aliases: safe column names, length d.
        groupings: name -> groups.
        grouping: name of the grouping in use.
        baselines: name -> x̄, float32 [d].
        noise_scale: train standard deviation of numeric coordinates, 0 elsewhere, float32 [d].
        data_hash: 16 hexadecimal digits of matrix, labels, rows and split.
        facts: coordinates and the report on unseen, constant and missing values.
    """

    X: np.ndarray
    y: np.ndarray
    row_id: np.ndarray
    split: np.ndarray
    half: np.ndarray
    classes: tuple[str, ...]
    aliases: tuple[str, ...]
    groupings: Mapping[str, Groups]
    grouping: str
    baselines: Mapping[str, np.ndarray]
    noise_scale: np.ndarray
    data_hash: str
    facts: Mapping[str, Any]

    @property
    def groups(self) -> Groups:
        """Groups of the grouping in use."""
        return self.groupings[self.grouping]

    def rows(self, split: str) -> np.ndarray:
        """Return positions of the rows of a split, ascending."""
        return np.flatnonzero(self.split == split)

    @property
    def donors(self) -> np.ndarray:
        """Training rows the swap stress takes values from (half 0), float32 [m, d]."""
        return self.X[self.half == 0]

    def write(self, matrix: Path, description: Path, baselines: Path, metadata: Mapping) -> None:
        """Write matrix (Parquet), description (JSON) and baselines (Parquet)."""
        import pyarrow as pa

        columns = {
            "row_id": self.row_id,
            "split": pa.array(self.split, pa.string()),
            "half": self.half,
            "label": self.y,
        }
        columns |= {alias: self.X[:, i] for i, alias in enumerate(self.aliases)}
        write_table(pa.table(columns), matrix, metadata)
        vectors = {"coordinate": pa.array(self.aliases), **self.baselines}
        vectors["noise_scale"] = self.noise_scale
        write_table(pa.table(vectors), baselines, metadata)
        write_json(
            {
                "classes": self.classes,
                "grouping": self.grouping,
                "groupings": {name: groups_to_json(g) for name, g in self.groupings.items()},
                "data_hash": self.data_hash,
                **self.facts,
            },
            description,
        )

    @classmethod
    def read(cls, matrix: Path, description: Path, baselines: Path) -> "Prepared":
        """Read what `write` wrote.

        Raises:
            ArtifactError: a file is missing, damaged or does not fit the others.
        """
        facts = read_json(description)
        table = read_table(matrix)
        aliases = tuple(name for name in table.column_names if name.startswith("f"))
        X = np.empty((len(table), len(aliases)), dtype=np.float32)
        for i, alias in enumerate(aliases):
            X[:, i] = to_numpy(table.column(alias))
        vectors = read_table(baselines)
        if to_numpy(vectors.column("coordinate")).tolist() != list(aliases):
            raise ArtifactError(f"{baselines} does not belong to {matrix}; rerun preprocess")
        named = {n: to_numpy(vectors.column(n)) for n in vectors.column_names if n != "coordinate"}
        return cls(
            X=X,
            y=to_numpy(table.column("label")),
            row_id=to_numpy(table.column("row_id")),
            split=to_numpy(table.column("split")),
            half=to_numpy(table.column("half")),
            classes=tuple(facts.pop("classes")),
            aliases=aliases,
            groupings={
                name: groups_from_json(value, name)
                for name, value in facts.pop("groupings").items()
            },
            grouping=facts.pop("grouping"),
            noise_scale=named.pop("noise_scale"),
            baselines=named,
            data_hash=facts.pop("data_hash"),
            facts=facts,
        )

    def baseline(self, name: str) -> np.ndarray:
        """Return a baseline vector by name.

        Raises:
            ArtifactError: there is none of that name.
        """
        if name not in self.baselines:
            raise ArtifactError(f"no baseline {name!r}; {nearest(name, self.baselines)}")
        return self.baselines[name]


def groups_to_json(groups: Groups) -> dict[str, Any]:
    """Return groups as plain JSON values."""
    return {
        "names": list(groups.names),
        "indices": [i.tolist() for i in groups.indices],
        "n_coordinates": groups.n_coordinates,
        **({"fixed": groups.fixed.tolist()} if groups.fixed.size else {}),
    }


def groups_from_json(value: Mapping[str, Any], label: str) -> Groups:
    """Rebuild groups, checking the partition again."""
    return Groups(
        value["names"], value["indices"], value["n_coordinates"], label, value.get("fixed", ())
    )


def arrays_hash(arrays: Sequence[np.ndarray]) -> str:
    """Return 16 hexadecimal digits of arrays: dtype, shape and values."""
    import hashlib

    parts = []
    for array in arrays:
        array = np.ascontiguousarray(array)
        if array.dtype == object:
            parts.append(sha256_text("\n".join(map(str, array.tolist()))))
        else:
            parts.append(f"{array.dtype.str}{array.shape}{hashlib.sha256(array.data).hexdigest()}")
    return sha256_text("|".join(parts))[:16]
