"""What every model family has in common: training data, parameters, saving, refusing.

A family is a subclass of `Model` with a table of its parameters (``PARAMS``), a ``_fit`` and the
two directions of its file (``_to_bytes``, ``_from_bytes``). Everything a caller sees, checks
included, is here, so that all families behave alike.

Three promises hold for every family and are tested for each:

* equal data, parameters and seed give equal predictions, byte for byte, in any process;
* a row's probabilities depend on that row alone, not on its neighbours in the call;
* a loaded model predicts the same bytes as the one that was saved.
"""

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from cfc.artifacts import atomic_path
from cfc.errors import ConfigError, ModelError, ProblemList, nearest
from cfc.seeding import generator

FORMAT_VERSION = 1
DESCRIPTION_FILE = "model.json"
_PICKLE_SUFFIXES = {".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin", ".dill"}


@dataclass(frozen=True)
class TrainingData:
    """What a family is fitted on.

    Attributes:
        X_train: float32 [n, d], C order, finite; transformed coordinates of the training split.
        y_train: int [n], class codes; every code 0..n_classes−1 occurs.
        X_valid: float32 [v, d]; validation split, for early stopping.
        y_valid: int [v], class codes.
        n_classes: C ≥ 2.
        groups: index arrays that partition the d coordinates; used by ``fr_resmlp`` only.
        baseline: float32 [d], the replacement values x̄; used by ``fr_resmlp`` only.
    """

    X_train: np.ndarray
    y_train: np.ndarray
    X_valid: np.ndarray
    y_valid: np.ndarray
    n_classes: int
    groups: list[np.ndarray]
    baseline: np.ndarray

    def check(self) -> None:
        """Raise `ModelError` listing everything that a family could not be fitted on."""
        problems = ProblemList()
        if self.n_classes < 2:
            problems.append(f"n_classes is {self.n_classes}; a classifier needs at least 2")
        for name, x, y in (
            ("train", self.X_train, self.y_train),
            ("valid", self.X_valid, self.y_valid),
        ):
            problems.extend(_split_problems(name, x, y, self.n_classes))
        if not problems:
            problems.extend(self._consistency_problems())
        problems.raise_if_any(ModelError, "training data")

    def _consistency_problems(self) -> Iterable[str]:
        d = self.X_train.shape[1]
        if self.X_valid.shape[1] != d:
            yield f"valid has {self.X_valid.shape[1]} coordinates, train has {d}"
        if np.shape(self.baseline) != (d,):
            yield f"the baseline has shape {np.shape(self.baseline)}, expected ({d},)"
        counts = np.bincount(self.y_train, minlength=self.n_classes)
        absent = np.flatnonzero(counts == 0)
        if absent.size:
            codes = ", ".join(map(str, absent))
            yield (
                f"class code {codes} does not occur in train ({self.n_classes} classes are "
                "declared); use another split seed or drop the class"
            )


def _split_problems(name: str, x: np.ndarray, y: np.ndarray, n_classes: int) -> Iterable[str]:
    if x.ndim != 2 or x.dtype != np.float32:
        yield f"X_{name} is {x.dtype} with shape {x.shape}; expected float32 [n, d]"
        return
    if len(x) == 0 or len(x) != len(y):
        yield f"X_{name} has {len(x)} rows and y_{name} {len(y)}; expected equal and at least 1"
        return
    if not np.isfinite(x).all():
        bad = np.unique(np.nonzero(~np.isfinite(x))[1])[:5]
        yield f"X_{name} holds NaN or infinity, in coordinates {', '.join(map(str, bad))}"
    if not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= n_classes:
        yield f"y_{name} must hold integer class codes 0..{n_classes - 1}"


@dataclass(frozen=True)
class Param:
    """One hyper-parameter of a family.

    Attributes:
        default: value when the configuration is silent; its type is the type required.
        doc: meaning, in one line.
        low: smallest allowed number, or None.
        high: largest allowed number, or None.
        choices: allowed values, or None.
    """

    default: Any
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[Any, ...] | None = None

    def problem(self, value: Any) -> str | None:
        """Return what is wrong with a value, or None."""
        if self.choices is not None:
            known = ", ".join(map(repr, self.choices))
            return None if value in self.choices else f"must be one of {known}"
        if isinstance(self.default, bool) or isinstance(value, bool):
            good = isinstance(value, bool) and isinstance(self.default, bool)
            return None if good else f"must be {_type_name(self.default)}"
        wanted = (int, float) if isinstance(self.default, float) else type(self.default)
        if not isinstance(value, wanted):
            return f"must be {_type_name(self.default)}"
        if self.low is not None and not value >= self.low:
            return f"must be at least {self.low}"
        if self.high is not None and not value <= self.high:
            return f"must be at most {self.high}"
        return None


def _type_name(value: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return names.get(type(value), type(value).__name__)


class Model(ABC):
    """A fitted classifier of one family.

    Attributes:
        family: name in the registry.
        is_neural: trained by gradient steps in torch; may use a GPU for training.
        is_forest: probabilities are averages over trees, so 0 and 1 are reached exactly.
        predictor_dtype: dtype of the probabilities, the library's own precision.
        PARAMS: every parameter the family knows.
        n_classes: C.
        n_features: d.
        params: all parameters, defaults filled in.
        facts: what the fit found (trees, best iteration, ...); equal for equal fits.
        history: metrics per iteration or epoch of a model just fitted, else empty.
        timings: seconds of the fit; not part of the saved files, which are equal for equal fits.
        threads: threads used by `predict_proba`, 1 unless changed. No family's result depends
            on it; forests and torch always predict with one thread.
    """

    family: ClassVar[str]
    is_neural: ClassVar[bool] = False
    is_forest: ClassVar[bool] = False
    predictor_dtype: ClassVar[str] = "float64"
    PARAMS: ClassVar[Mapping[str, Param]] = {}
    model_file: ClassVar[str]
    magic: ClassVar[bytes] = b""
    library: ClassVar[str]

    def __init__(
        self,
        *,
        n_classes: int,
        n_features: int,
        params: dict[str, Any],
        facts: dict[str, Any] | None = None,
        history: list[dict[str, Any]] | None = None,
    ):
        self.n_classes = n_classes
        self.n_features = n_features
        self.params = params
        self.facts = facts or {}
        self.history = history or []
        self.timings: dict[str, Any] = {}
        self.threads = 1
        self._digest: str | None = None

    # ---- parameters -------------------------------------------------------------------------

    @classmethod
    def check_params(cls, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return all parameters of the family, defaults filled in.

        Raises:
            ConfigError: unknown names (with the nearest) and bad values, all at once.
        """
        return checked_params(f"model {cls.family}", cls.PARAMS, params)

    # ---- fitting ----------------------------------------------------------------------------

    @classmethod
    def fit(
        cls,
        data: TrainingData,
        params: Mapping[str, Any],
        *,
        seed: int,
        threads: int = 1,
        device: str = "cpu",
    ) -> Self:
        """Fit one model.

        Args:
            data: training and validation arrays.
            params: the family's parameters that differ from its defaults.
            seed: root seed of the unit; the family's own stream is derived from it.
            threads: threads to fit with.
            device: ``cpu`` or a torch device such as ``cuda``; neural families only.

        Raises:
            ModelError: the data cannot be fitted on (all reasons listed).
            ConfigError: unknown or bad parameters.
        """
        full = cls.check_params(params)
        data.check()
        start = time.perf_counter()
        model = cls._fit(data, full, seed=seed, threads=max(1, int(threads)), device=device)
        model.timings["fit_seconds"] = time.perf_counter() - start
        return model

    @classmethod
    @abstractmethod
    def _fit(
        cls, data: TrainingData, params: dict[str, Any], *, seed: int, threads: int, device: str
    ) -> Self:
        """Fit on checked data with complete parameters."""

    @classmethod
    def library_seed(cls, seed: int) -> int:
        """Return the family's seed in [0, 2**31 − 1), derived from the root seed."""
        return int(generator(seed, f"model/{cls.family}").integers(2**31 - 1))

    # ---- predicting -------------------------------------------------------------------------

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return class probabilities.

        Args:
            X: float32 [n, d]; C order is the fast case, any other is copied first.

        Returns:
            [n, C] in the family's ``predictor_dtype``, columns in the order of the class codes.
            A row's result is the same bytes whatever the other rows of the call are.

        Raises:
            ModelError: wrong shape or dtype.
        """
        X = np.asarray(X)
        if X.dtype != np.float32 or X.ndim != 2 or X.shape[1] != self.n_features:
            raise ModelError(
                f"model {self.family} wants float32 rows of {self.n_features} coordinates, "
                f"got {X.dtype} with shape {X.shape}"
            )
        if len(X) == 0:
            return np.empty((0, self.n_classes), dtype=self.predictor_dtype)
        return self._predict_proba(np.ascontiguousarray(X))

    @abstractmethod
    def _predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Predict for float32 C-order rows [n ≥ 1, d]."""

    # ---- files ------------------------------------------------------------------------------

    @abstractmethod
    def _to_bytes(self) -> bytes:
        """Return the content of the model file; equal for equal fits."""

    @classmethod
    @abstractmethod
    def _from_bytes(cls, content: bytes, base: dict[str, Any]) -> Self:
        """Rebuild a model from its file's content.

        Args:
            content: bytes of the model file, its hash already checked.
            base: keyword arguments of `Model.__init__`.
        """

    def model_hash(self) -> str:
        """Return the SHA-256 of the model file's content, hexadecimal."""
        if self._digest is None:
            self._digest = hashlib.sha256(self._to_bytes()).hexdigest()
        return self._digest

    def save(self, directory: str | Path) -> Path:
        """Write the model file and ``model.json`` into a new folder, whole or not at all.

        Returns:
            the folder. Equal fits give equal bytes in both files.
        """
        content = self._to_bytes()
        self._digest = hashlib.sha256(content).hexdigest()
        description = {
            "format_version": FORMAT_VERSION,
            "family": self.family,
            "n_classes": self.n_classes,
            "n_features": self.n_features,
            "params": self.params,
            "facts": self.facts,
            "library": self.library,
            "library_version": _version(self.library),
            "file": self.model_file,
            "sha256": self._digest,
        }
        directory = Path(directory)
        with atomic_path(directory) as temporary:
            temporary.mkdir(parents=True)
            (temporary / self.model_file).write_bytes(content)
            text = json.dumps(description, indent=1, sort_keys=True, allow_nan=False) + "\n"
            (temporary / DESCRIPTION_FILE).write_text(text, encoding="utf-8")
        return directory

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read a model of this family from a folder written by `save`.

        Raises:
            ModelError: no model there, another family or format, a changed or foreign file.
        """
        directory = Path(directory)
        description = read_description(directory)
        if description["family"] != cls.family:
            raise ModelError(
                f"{directory} holds a model of family {description['family']!r}, "
                f"not {cls.family!r}; load it with cfc.models.load_model"
            )
        content = cls._checked_content(directory, description)
        base = {
            "n_classes": description["n_classes"],
            "n_features": description["n_features"],
            "params": cls.check_params(description["params"]),
            "facts": description["facts"],
        }
        try:
            model = cls._from_bytes(content, base)
        except ModelError as error:
            raise ModelError(f"{directory / cls.model_file}: {error}") from error
        except Exception as error:
            # The libraries raise types of their own for a damaged file; the user needs the file.
            raise ModelError(
                f"{directory / cls.model_file} cannot be read as a {cls.family} model: {error}"
            ) from error
        model._digest = description["sha256"]
        return model

    @classmethod
    def _checked_content(cls, directory: Path, description: Mapping[str, Any]) -> bytes:
        if description["file"] != cls.model_file:
            raise ModelError(
                f"{directory}: a {cls.family} model is kept in {cls.model_file!r}, "
                f"not in {description['file']!r}"
            )
        path = directory / cls.model_file
        if not path.is_file():
            raise ModelError(f"{directory} lacks {cls.model_file}; fit the model again")
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != description["sha256"]:
            raise ModelError(
                f"{path} is not the file its {DESCRIPTION_FILE} describes (SHA-256 differs): "
                "changed or damaged; fit the model again"
            )
        if not content.startswith(cls.magic):
            raise ModelError(
                f"{path} is not a {cls.family} model file "
                f"(it should begin with {cls.magic!r}); pickled files are never read"
            )
        return content


def checked_params(
    owner: str, known: Mapping[str, "Param"], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all parameters of a family or method, defaults filled in.

    Args:
        owner: whose they are, for the message.
        known: what may be set.
        params: what is set.

    Raises:
        ConfigError: unknown names (with the nearest) and bad values, all at once.
    """
    problems = ProblemList()
    for name, value in params.items():
        if name not in known:
            problems.append(f"unknown parameter {name!r}; {nearest(name, known)}")
        elif problem := known[name].problem(value):
            problems.append(f"{name} {problem}, not {value!r} ({known[name].doc})")
    problems.raise_if_any(ConfigError, f"parameters of {owner}")
    merged = {name: param.default for name, param in known.items()} | dict(params)
    return {
        name: float(value) if isinstance(known[name].default, float) else value
        for name, value in merged.items()
    }


def read_description(directory: str | Path) -> dict[str, Any]:
    """Return the checked content of a model folder's ``model.json``.

    Raises:
        ModelError: it is missing, not readable, of another format version or incomplete.
    """
    directory = Path(directory)
    path = directory / DESCRIPTION_FILE
    if not path.is_file():
        names = sorted(p.name for p in directory.iterdir()) if directory.is_dir() else []
        pickled = [n for n in names if Path(n).suffix in _PICKLE_SUFFIXES]
        detail = f"; {pickled[0]} may be a pickled file, never read" if pickled else ""
        raise ModelError(f"{directory} is no model folder: it has no {DESCRIPTION_FILE}{detail}")
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
    types = {
        "format_version": int,
        "family": str,
        "n_classes": int,
        "n_features": int,
        "params": dict,
        "facts": dict,
        "file": str,
        "sha256": str,
    }
    if not isinstance(description, dict):
        raise ModelError(f"{path} must hold a JSON object")
    problems = ProblemList(
        f"{key!r} is missing or not of type {kind.__name__}"
        for key, kind in types.items()
        if not isinstance(description.get(key), kind)
    )
    problems.raise_if_any(ModelError, str(path))
    if description["format_version"] != FORMAT_VERSION:
        raise ModelError(
            f"{path} has format version {description['format_version']}, "
            f"this version reads {FORMAT_VERSION}; fit the model again"
        )
    return description


def expect(condition: bool, message: str) -> None:
    """Raise `ModelError` unless a condition on a loaded file holds."""
    if not condition:
        raise ModelError(message)


def column_order(classes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the positions of the codes 0..C−1 in a library's ``classes_``.

    Raises:
        ModelError: the codes are not exactly 0..C−1.
    """
    codes = np.asarray(classes).astype(np.int64)
    order = np.argsort(codes, kind="stable")
    if not np.array_equal(codes[order], np.arange(n_classes)):
        raise ModelError(f"the fitted model knows the classes {codes.tolist()}, not 0..C-1")
    return order


def two_columns(p1: np.ndarray) -> np.ndarray:
    """Return [1 − p, p] from the probability of class 1 [n], in its own dtype."""
    out = np.empty((len(p1), 2), dtype=p1.dtype)
    out[:, 1] = p1
    np.subtract(1.0, p1, out=out[:, 0])
    return out


def _version(distribution: str) -> str:
    for name in (distribution, f"{distribution}-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"
