"""From raw fields to one transformed matrix, with every coordinate traced to its field.

One transformer a field in a scikit-learn `ColumnTransformer`: its fitted output indices say which
coordinates came from which field, so no name is ever parsed (``a`` = ``b_c`` and ``a_b`` = ``c``
would print alike).
"""

import logging
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from cfc.artifacts import atomic_path
from cfc.baselines import Coordinate
from cfc.data.registry import DatasetSpec, FieldSpec
from cfc.errors import ArtifactError, DataError, ModelError, ProblemList
from cfc.groups import Groups, merge_redundant

logger = logging.getLogger(__name__)
MAX_LEVELS = 1000
_BINS = 10
_FEW_VALUES = 32


class MarkersToMissing(TransformerMixin, BaseEstimator):
    """Turns declared "not available" numbers into NaN."""

    def __init__(self, markers: Sequence[float] = ()):
        self.markers = markers

    def fit(self, X, y=None):
        """Learn nothing."""
        self.n_features_in_ = 1
        return self

    def transform(self, X):
        """Return the column [n, 1], float64, with NaN for missing and marked cells."""
        X = np.array(X, dtype=np.float64)
        X[np.isin(X, list(self.markers))] = np.nan
        return X


class AbsenceIndicators(TransformerMixin, BaseEstimator):
    """One 0/1 column for each marker that occurs in train, and one for plain missingness."""

    def __init__(self, markers: Sequence[float] = ()):
        self.markers = markers

    def fit(self, X, y=None):
        """Remember which states of absence occur."""
        X = np.asarray(X, dtype=np.float64)
        self.n_features_in_ = 1
        self.markers_ = [float(m) for m in self.markers if (m == X).any()]
        self.has_missing_ = bool(np.isnan(X).any())
        return self

    def transform(self, X):
        """Return the indicators [n, markers seen + has missing], float64."""
        X = np.asarray(X, dtype=np.float64)
        columns = [X[:, 0] == m for m in self.markers_]
        if self.has_missing_:
            columns.append(np.isnan(X[:, 0]))
        return np.stack(columns, axis=1).astype(np.float64) if columns else np.empty((len(X), 0))


@dataclass(frozen=True)
class Preprocessor:
    """A fitted map from cleaned tables to matrices.

    Attributes:
        transformer: the fitted `ColumnTransformer`, one entry a field.
        fields: declared fields, in order.
        coordinates: what each column of the matrix is.
        field_indices: field name -> its coordinate indices.
    """

    transformer: ColumnTransformer
    fields: tuple[FieldSpec, ...]
    coordinates: tuple[Coordinate, ...]
    field_indices: dict[str, np.ndarray]

    @classmethod
    def fit(
        cls, table: pd.DataFrame, fields: Sequence[FieldSpec], max_levels: int = MAX_LEVELS
    ) -> "Preprocessor":
        """Fit on training rows.

        Numeric: markers to missing, missing to the train median, standardised by train mean and
        standard deviation, plus one indicator column a marker or missingness seen in train.
        Nominal: one-hot over the train categories, missing being a category of its own.

        Args:
            table: one column a field: float64 for numeric, text or missing for nominal.
            fields: what is declared.
            max_levels: most categories of one nominal field.

        Raises:
            DataError: columns are missing, or a nominal field has more categories than allowed.
        """
        problems = ProblemList(
            f"column {f.name!r} is missing" for f in fields if f.name not in table.columns
        )
        problems += [
            f"nominal column {f.name!r} has {levels} categories in train, more than {max_levels}: "
            "one column each would drown the rest; drop it, group rare categories, or raise "
            "preprocess.max_levels"
            for f in fields
            if f.kind == "nominal"
            and f.name in table.columns
            and (levels := table[f.name].nunique(dropna=False)) > max_levels
        ]
        problems.raise_if_any(DataError, "training table")
        transformer = ColumnTransformer(
            [(f"field{i}", _field_transformer(f), [i]) for i, f in enumerate(fields)],
            sparse_threshold=0.0,
            verbose_feature_names_out=False,
        )
        transformer.fit(_as_matrix_of_objects(table, fields))
        return cls.describe(transformer, fields)

    @classmethod
    def describe(
        cls, transformer: ColumnTransformer, fields: Sequence[FieldSpec]
    ) -> "Preprocessor":
        """Trace every output column of a fitted transformer to its field."""
        coordinates: list[Coordinate] = []
        indices: dict[str, np.ndarray] = {}
        for i, spec in enumerate(fields):
            where = transformer.output_indices_[f"field{i}"]
            indices[spec.name] = np.arange(where.start, where.stop)
            for kind, level, absent in _outputs(transformer.named_transformers_[f"field{i}"], spec):
                alias = f"f{len(coordinates):04d}"
                coordinates.append(Coordinate(alias, spec.name, kind, level, absent))
            if len(coordinates) != where.stop:
                raise ArtifactError(f"field {spec.name!r} does not cover its output columns")
        return cls(transformer, tuple(fields), tuple(coordinates), indices)

    def transform(self, table: pd.DataFrame) -> np.ndarray:
        """Return the matrix of a table, float32 [n, d] in C order.

        A category not seen in train gives an all-zero block; see `unseen`.
        """
        matrix = self.transformer.transform(_as_matrix_of_objects(table, self.fields))
        return np.ascontiguousarray(matrix, dtype=np.float32)

    def unseen(self, table: pd.DataFrame) -> dict[str, dict[str, int]]:
        """Return field -> {category not seen in train: number of rows}."""
        found: dict[str, dict[str, int]] = {}
        for i, spec in enumerate(self.fields):
            if spec.kind == "nominal":
                known = self.transformer.named_transformers_[f"field{i}"].categories_[0]
                values = _nominal(table[spec.name])
                strange = values[~pd.Series(values).isin(known).to_numpy()]
                if len(strange):
                    counts = pd.Series(strange).value_counts(dropna=False)
                    found[spec.name] = {_level_name(k): int(v) for k, v in counts.items()}
        return found

    @property
    def noise_scale(self) -> np.ndarray:
        """Train standard deviation of value coordinates in the matrix, 0 elsewhere, float32 [d].

        Standardised values have deviation 1; a constant one keeps 0, so noise leaves it alone.
        """
        scale = np.zeros(len(self.coordinates), dtype=np.float32)
        for i, spec in enumerate(self.fields):
            if spec.kind == "numeric":
                value = self.transformer.named_transformers_[f"field{i}"].transformer_list[0][1]
                scale[self.field_indices[spec.name][0]] = float(value[-1].var_[0] > 0)
        return scale

    def groups(self, grouping: str, spec: DatasetSpec, table: pd.DataFrame | None = None) -> Groups:
        """Return the groups of one grouping.

        Args:
            grouping: ``raw_origin`` (one group a field), ``domain`` (blocks declared for the data
                set) or ``redundancy_merged`` (fields merged when associated on ``table``).
            spec: the data set's declaration.
            table: training rows, for ``redundancy_merged``.

        Raises:
            DataError: ``domain`` without declared blocks.
            GroupError: declared blocks are not a partition.
        """
        names = [f.name for f in self.fields]
        if grouping == "raw_origin":
            blocks: Mapping[str, Sequence[str]] = {name: [name] for name in names}
        elif grouping == "domain":
            if not spec.domain_groups:
                raise DataError(f"data set {spec.key!r} declares no domain_groups")
            blocks = spec.domain_groups
        elif grouping == "redundancy_merged":
            blocks = merge_redundant(associations(table, self.fields), names)
        else:
            raise DataError(
                f"grouping {grouping!r} is unknown; one of raw_origin, domain, redundancy_merged"
            )
        return Groups.of_fields(blocks, self.field_indices, len(self.coordinates), grouping)

    def save(self, path: Path) -> None:
        """Write the fitted transformer as a skops file (no pickle), equal bytes for equal fits."""
        from cfc.models.sklearn_files import dumps

        with atomic_path(path) as temporary:
            temporary.write_bytes(dumps(self.transformer))

    @classmethod
    def load(cls, path: Path, fields: Sequence[FieldSpec]) -> "Preprocessor":
        """Read a transformer written by `save`.

        Raises:
            ArtifactError: the file is missing or damaged, holds types other than the declared ones,
                or was fitted on other fields.
        """
        from cfc.models.sklearn_files import loads

        own = {f"{__name__}.{c.__name__}" for c in (MarkersToMissing, AbsenceIndicators)}
        own.add("numpy.dtype")
        try:
            transformer = loads(
                Path(path).read_bytes(), expected=ColumnTransformer, trusted=sorted(own)
            )
        except FileNotFoundError as error:
            raise ArtifactError(f"{path} does not exist") from error
        except ModelError as error:
            raise ArtifactError(f"{path}: {error}; rerun preprocess") from error
        except (zipfile.BadZipFile, KeyError) as error:
            raise ArtifactError(
                f"{path} cannot be read as a skops file ({error}); delete it and rerun preprocess"
            ) from error
        found = [name for name, _, _ in transformer.transformers_]
        if found != [f"field{i}" for i in range(len(fields))]:
            raise ArtifactError(
                f"{path} was fitted on {len(found)} fields, but {len(fields)} are declared; "
                "rerun preprocess"
            )
        return cls.describe(transformer, fields)


def _field_transformer(spec: FieldSpec):
    if spec.kind == "nominal":
        return OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32)
    markers = list(spec.markers)
    value = make_pipeline(
        MarkersToMissing(markers),
        SimpleImputer(strategy="median", keep_empty_features=True),
        StandardScaler(),
    )
    return FeatureUnion([("value", value), ("absence", AbsenceIndicators(markers))])


def _outputs(fitted, spec: FieldSpec) -> Iterable[tuple[str, str | None, bool]]:
    if spec.kind == "nominal":
        for category in fitted.categories_[0]:
            name = _level_name(category)
            yield "level", name, _is_absent(category) or name in spec.unavailable
        return
    yield "value", None, False
    absence = fitted.transformer_list[1][1]
    for marker in absence.markers_:
        yield "indicator", f"{marker:g}", True
    if absence.has_missing_:
        yield "indicator", "missing", True


def _is_absent(category: Any) -> bool:
    # by value: a NaN read from a file is not the object `np.nan`
    return isinstance(category, float) and np.isnan(category)


def _level_name(category: Any) -> str:
    return "missing" if _is_absent(category) else str(category)


def _nominal(column: pd.Series) -> np.ndarray:
    values = column.astype(object).to_numpy(copy=True)
    values[pd.isna(values)] = np.nan
    return values


def _as_matrix_of_objects(table: pd.DataFrame, fields: Sequence[FieldSpec]) -> pd.DataFrame:
    """Return the fields under the numbers 0.., so that no column name reaches a library."""
    return pd.DataFrame(
        {
            str(i): _nominal(table[f.name])
            if f.kind == "nominal"
            else table[f.name].to_numpy(dtype=np.float64)
            for i, f in enumerate(fields)
        }
    ).astype({str(i): object for i, f in enumerate(fields) if f.kind == "nominal"})


def associations(table: pd.DataFrame, fields: Sequence[FieldSpec]) -> dict[tuple[str, str], float]:
    """Return how strongly each pair of fields is associated, in [0, 1].

    Two numeric fields: |Spearman| over rows where both are present. Any other pair: bias-corrected
    Cramér's V (Bergsma 2013), a numeric field with more than 32 values cut at its deciles first.
    """
    numeric: dict[str, np.ndarray] = {}
    codes: dict[str, np.ndarray] = {}
    for spec in fields:
        column = table[spec.name]
        if spec.kind == "numeric":
            values = column.to_numpy(dtype=np.float64).copy()
            values[np.isin(values, spec.markers)] = np.nan
            numeric[spec.name] = values
            if len(np.unique(values[~np.isnan(values)])) > _FEW_VALUES:
                edges = np.unique(np.nanquantile(values, np.arange(1, _BINS) / _BINS))
                column = pd.Series(np.searchsorted(edges, values)).where(~np.isnan(values))
        codes[spec.name] = pd.factorize(column, use_na_sentinel=False)[0]
    result = {}
    names = [f.name for f in fields]
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            if a in numeric and b in numeric:
                result[a, b] = _spearman(numeric[a], numeric[b])
            else:
                result[a, b] = cramers_v(codes[a], codes[b])
    return result


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    if len(a) < 3 or (a == a[0]).all() or (b == b[0]).all():
        return 0.0
    return abs(float(stats.spearmanr(a, b).statistic))


def cramers_v(a: np.ndarray, b: np.ndarray) -> float:
    """Return the bias-corrected Cramér's V of two code arrays, in [0, 1]."""
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)
    n = table.sum()
    rows, columns = table.shape
    if min(rows, columns) < 2 or n < 2:
        return 0.0
    expected = np.outer(table.sum(1), table.sum(0)) / n
    phi2 = ((table - expected) ** 2 / expected).sum() / n
    phi2 = max(0.0, phi2 - (rows - 1) * (columns - 1) / (n - 1))
    rows_c = rows - (rows - 1) ** 2 / (n - 1)
    columns_c = columns - (columns - 1) ** 2 / (n - 1)
    smallest = min(rows_c, columns_c) - 1
    return float(min(1.0, np.sqrt(phi2 / smallest))) if smallest > 0 else 0.0


def coordinate_records(coordinates: Sequence[Coordinate]) -> list[dict[str, Any]]:
    """Return coordinates as JSON records."""
    return [asdict(c) for c in coordinates]
