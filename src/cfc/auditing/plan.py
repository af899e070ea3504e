"""Everything one audit declares, and the work on one block of cases."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cfc.artifacts import matrix_to_lists
from cfc.baselines import Coordinate
from cfc.certificate import certify
from cfc.errors import ArtifactError
from cfc.exposure import POINTS, ExposureGrid, expose
from cfc.groups import Groups
from cfc.labels import LabelRule, brittle
from cfc.operators import DEGRADATIONS, STRESSES
from cfc.prepared import arrays_hash, groups_from_json, groups_to_json
from cfc.protocol import Protocol
from cfc.scores import relative_collapse
from cfc.stages.certify import certificate_table
from cfc.stress import StressSettings, stress_cases

TAU_P = 0.90  # confidence from which a case can be brittle (paper, Appendix K)
STRESS_FROM = 0.85  # lowest confidence that is stressed; below it every label is "no" by rule
NEAR_TIE = 1e-6  # margin below which two classes are as good as equal
DEFAULT_STRESS = {
    "mask": {"severities": [0.1, 0.2, 0.3], "draws": 50},
    "dropout": {"severities": [0.1, 0.2, 0.3], "draws": 50},
    "noise": {"severities": [0.1, 0.25, 0.5], "draws": 50},
    "swap": {"severities": [0.1, 0.2, 0.3], "draws": 100},
}
# label column -> operators it looks at, at all their severities, over all draws
LABELS = {"brittle_expected": ("mask", "dropout", "noise"), "brittle_swap": ("swap",)}


@dataclass(frozen=True)
class Plan:
    """What an audit needs besides the rows.

    Attributes:
        predict: rows [r, d] of ``dtype`` -> probabilities [r, C].
        dtype: ``float32`` or ``float64``.
        protocol: what is declared.
        groups: partition of the coordinates.
        coordinates: what each coordinate is.
        baseline: x̄ [d], in ``dtype``.
        clip: lower bound of a probability.
        scale: standard deviation of each value in the background, 0 elsewhere [d].
        grid: exposure grid, or None.
        stress: stress settings, or None.
        donors: background rows to swap from [m, d]; None without stress.
        seed: seed of every random draw.
        classes: class labels as text, in code order.
        model_hash, data_hash: repeated in every row.
    """

    predict: Any
    dtype: str
    protocol: Protocol
    groups: Groups
    coordinates: tuple[Coordinate, ...]
    baseline: np.ndarray
    clip: float
    scale: np.ndarray
    grid: ExposureGrid | None
    stress: StressSettings | None
    donors: np.ndarray | None
    seed: int
    classes: tuple[str, ...]
    model_hash: str | None
    data_hash: str

    @property
    def fades(self) -> np.ndarray:
        """Coordinates that can be moved part of the way to x̄, bool [d]."""
        is_code = np.array([c.kind == "code" for c in self.coordinates])
        return ~(is_code | np.isnan(self.baseline))

    @property
    def operators(self) -> dict[str, str]:
        """Name -> hash of the operators of the user's own that this audit runs."""
        known = {**DEGRADATIONS, **STRESSES}
        names = [*self.protocol.operators, *(self.stress.severities if self.stress else ())]
        return {name: known[name].hash for name in names if name in known}

    def rows_per_case(self) -> int:
        """Return an upper bound of the forward rows of one case, stress left out."""
        cells = len(self.protocol.operators) * len(self.protocol.severities)
        certificate = 1 + len(self.groups) + min(self.protocol.depth, len(self.groups)) + cells
        return certificate + (1 + self.grid.rows_per_case if self.grid else 0)

    def block(self, Z: np.ndarray, case_ids: np.ndarray, chunk_bytes=None) -> pa.Table:
        """Return the record of some cases, without their rank.

        Args:
            Z: rows in the model's coordinates [n, d].
            case_ids: position of each in the audited table [n].
            chunk_bytes: size of the largest state matrix.
        """
        result = certify(
            Z,
            self.groups,
            self.baseline,
            self.predict,
            self.protocol,
            clip=self.clip,
            case_ids=case_ids,
            noise_scale=self.scale,
            fades=self.fades,
            dtype=self.dtype,
            chunk_bytes=chunk_bytes,
        )
        names = np.array(self.classes, dtype=object)
        table = certificate_table(
            result,
            self.groups.names,
            self.protocol,
            columns={
                "case_id": np.asarray(case_ids, dtype=np.int64),
                "row_hash": pa.array(row_hashes(Z, self.dtype)),
                "predicted_label": pa.array(names[result.predicted], pa.string()),
            },
            constants={"model_hash": self.model_hash, "data_hash": self.data_hash},
        )
        if self.grid:
            swept = expose(
                Z,
                self.groups,
                self.grid,
                self.predict,
                clip=self.clip,
                dtype=self.dtype,
                chunk_bytes=chunk_bytes,
            )
            for name, values in (
                ("exposure_mean", matrix_to_lists(swept.e)),
                ("exposure_flip", matrix_to_lists(swept.f)),
                ("exposure", swept.total),
                ("s", result.u + swept.total),
            ):
                table = table.append_column(name, pa.array(values))
        if self.stress:
            table = self._stressed(table, Z, result, case_ids, chunk_bytes)
        return table.append_column("warnings", _warnings(result))

    def _stressed(self, table, Z, result, case_ids, chunk_bytes) -> pa.Table:
        chosen = result.confidence >= STRESS_FROM
        outcome = stress_cases(
            Z[chosen],
            self.groups,
            self.baseline,
            self.predict,
            self.stress,
            seed=self.seed,
            case_ids=np.asarray(case_ids)[chosen],
            noise_scale=self.scale,
            donors=self.donors,
            clip=self.clip,
            dtype=self.dtype,
            chunk_bytes=chunk_bytes,
        )
        for operator in self.stress.severities:
            margins = outcome.margins[operator].astype(np.float64)
            flips = outcome.labels[operator] != outcome.predicted[:, None, None]
            kappa = relative_collapse(outcome.margin[:, None, None], margins)
            for kind, values in (("flip", flips.mean(axis=2)), ("collapse", kappa.mean(axis=2))):
                column = _where(chosen, values)
                table = table.append_column(f"stress_{operator}_{kind}", column)
        for name, operators in LABELS.items():
            cells = {o: g for o, g in self.stress.severities.items() if o in operators}
            if not cells:
                continue
            label = brittle(
                LabelRule("mean", cells),
                confidence=result.confidence[chosen],
                predicted=outcome.predicted,
                margin=outcome.margin,
                severities=self.stress.severities,
                margins=outcome.margins,
                labels=outcome.labels,
                tau_p=TAU_P,
            )
            values = np.zeros(len(chosen), dtype=bool)
            values[chosen] = label
            table = table.append_column(name, pa.array(values, mask=result.confidence < TAU_P))
        return table

    def facts(self) -> dict[str, Any]:
        """Return what a file must hold so that the audit can be recomputed from it."""
        return {
            "protocol": self.protocol.to_dict(),
            "protocol_hash": self.protocol.hash,
            "clip": self.clip,
            "classes": list(self.classes),
            "groups": groups_to_json(self.groups),
            "grouping": self.groups.label,
            "coordinates": [
                {"field": c.field, "kind": c.kind, "level": c.level} for c in self.coordinates
            ],
            "fixed": list(
                dict.fromkeys(self.coordinates[i].field for i in self.groups.fixed.tolist())
            ),
            "baseline": numbers(self.baseline),
            "scale": numbers(self.scale),
            "dtype": self.dtype,
            "exposure": self.grid
            and {
                "points": POINTS,
                "seed": self.seed,
                "hash": self.grid.hash,
                "values": [[numbers(point) for point in values] for values in self.grid.values],
                "weights": [numbers(weights) for weights in self.grid.weights],
            },
            "stress": self.stress
            and {
                "settings": {
                    name: {"severities": list(grid), "draws": self.stress.draws[name]}
                    for name, grid in self.stress.severities.items()
                },
                "seed": self.seed,
                "donors_hash": arrays_hash([self.donors]),
                "threshold": STRESS_FROM,
                "tau_p": TAU_P,
            },
            "operators": self.operators,
            "seed": self.seed,
        }


def grid_from_facts(facts: Mapping[str, Any]) -> ExposureGrid | None:
    """Return the exposure grid a file holds, None if it has no exposure.

    Raises:
        ArtifactError: values and hash do not fit each other.
    """
    stored = facts["exposure"]
    if not stored:
        return None
    widths = [len(index) for index in facts["groups"]["indices"]]
    grid = ExposureGrid(
        tuple(
            from_numbers(values, facts["dtype"]).reshape(-1, width)
            for values, width in zip(stored["values"], widths, strict=True)
        ),
        tuple(np.array(weights, dtype=np.float64) for weights in stored["weights"]),
    )
    if grid.hash != stored["hash"]:
        raise ArtifactError("exposure.hash does not fit the exposure grid in the file")
    return grid


def groups_from_facts(facts: Mapping[str, Any]) -> Groups:
    """Return the groups a file holds."""
    return groups_from_json(facts["groups"], facts["grouping"])


def numbers(values: np.ndarray) -> list[float | None]:
    """Return an array as JSON numbers, None for NaN."""
    return [None if np.isnan(v) else float(v) for v in np.asarray(values)]


def from_numbers(values: list, dtype: str) -> np.ndarray:
    """Return what `numbers` wrote, nested lists allowed."""
    return np.array(values, dtype=np.float64).astype(dtype)


def row_hashes(Z: np.ndarray, dtype: str) -> list[str]:
    """Return 16 hexadecimal digits of each row as the model was asked with it."""
    from hashlib import blake2b

    # adding 0 makes −0.0 and 0.0 one value, and there is only one NaN
    Z = np.ascontiguousarray(Z, dtype=dtype) + np.dtype(dtype).type(0)
    Z[np.isnan(Z)] = np.nan
    return [blake2b(row.tobytes(), digest_size=8).hexdigest() for row in Z]


def _where(chosen: np.ndarray, values: np.ndarray) -> pa.ListArray:
    """Return lists of values for the chosen cases and null for the others."""
    rows = iter(values.tolist())
    return pa.array([next(rows) if c else None for c in chosen], pa.list_(pa.float64()))


def _warnings(result) -> pa.Array:
    texts = [[] for _ in range(len(result))]
    for name, found in (
        ("saturated", result.saturated),
        ("near_tie", result.margin < NEAR_TIE),
        ("undefined_margin", result.margin == 0),
    ):
        for i in np.flatnonzero(found):
            texts[i].append(name)
    return pa.array(texts, pa.list_(pa.string()))
