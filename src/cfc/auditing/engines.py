"""What a fitted model is when asked with a matrix: its classes, columns, precision, fastest path.

One function a library; the libraries themselves are imported only when a model of theirs comes.
Every fast path gives the same bytes as the library's own ``predict_proba``, except where said.
"""

import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from cfc.errors import ModelError
from cfc.models.base import two_columns

# rows of one forward pass of a network or a matrix product; the last block is filled up, because a
# row's rounding follows the height of the block it is in
BLOCK_ROWS = 256
# rows sent through one tree before the next: bounds memory while a tree stays in the cache
_CHUNK_ROWS = 32768
_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Engine:
    """A fitted model seen from outside.

    Attributes:
        kind: ``sklearn``, ``xgboost``, ``lightgbm``, ``catboost``, ``torch``, ``cfc`` or
            ``callable``.
        ask: rows -> probabilities [r, C]; what the rows are says ``takes``.
        takes: ``array`` (a matrix in ``dtype``) or ``table`` (raw columns in the model's types).
        classes: labels in column order, None if the model does not know them.
        names: columns the model was fitted on, None if it was fitted on arrays.
        n_features: number of columns, None if not known.
        dtype: dtype of the matrix; ``float32`` only where the model casts to it itself.
        is_exact: a row's answer is the same bytes whatever its batch.
        takes_sparse: ``ask`` takes sparse matrices as well, and answers as the model does.
        n_trees: of a forest that votes.
        codes: position of a column the model treats as nominal -> its levels in code order, None
            where the levels are numbers that stay themselves.
        category_lists: levels in code order of each column that was a pandas category in training,
            in order of these columns, where the model does not say which columns they are.
        has_codes_for_classes: the classes are 0..C-1 because the library knows no others.
    """

    kind: str
    ask: Callable[[Any], np.ndarray]
    takes: str = "array"
    classes: tuple | None = None
    names: tuple[str, ...] | None = None
    n_features: int | None = None
    dtype: str = "float64"
    is_exact: bool = False
    takes_sparse: bool = False
    n_trees: int | None = None
    codes: Mapping[int, Sequence[Any] | None] = field(default_factory=dict)
    category_lists: Sequence[Sequence[Any]] = ()
    has_codes_for_classes: bool = False


def engine_of(model: Any, output: str | None = None) -> Engine:
    """Return the engine of a fitted model that is not a Pipeline.

    Args:
        model: see `cfc.auditing.targets.target_of`.
        output: what a torch module gives.

    Raises:
        ModelError: the model is not fitted, is no classifier with probabilities, or is of no
            accepted kind.
    """
    libraries = {cls.__module__.partition(".")[0] for cls in type(model).__mro__}
    if any(_full_name(cls) == "cfc.models.base.Model" for cls in type(model).__mro__):
        return _own(model)
    if "torch" in libraries and hasattr(model, "state_dict"):
        return _torch(model, output)
    if output is not None:
        raise ModelError(f"output={output!r} is for torch modules; {_shown(model)} is none")
    for library, make in (("xgboost", _xgboost), ("lightgbm", _lightgbm), ("catboost", _catboost)):
        if library in libraries:
            return make(model)
    if hasattr(model, "predict_proba") or hasattr(model, "fit"):
        return _sklearn(model)
    if callable(model):
        owner = getattr(model, "__self__", None)  # model.predict_proba knows its labels
        classes = getattr(owner, "classes_", None)
        known = isinstance(classes, np.ndarray) and classes.ndim == 1
        return Engine(
            "callable",
            lambda rows: checked(model(rows), len(rows)),
            takes="table",
            classes=tuple(classes.tolist()) if known else None,
        )
    hint = "; load_model_file reads files" if isinstance(model, str) else ""
    raise ModelError(
        f"{_shown(model)} is no model: expected a fitted classifier of scikit-learn, XGBoost, "
        f"LightGBM or CatBoost, a torch module, or a function from rows to probabilities{hint}"
    )


def checked(proba: Any, n: int, n_classes: int | None = None) -> np.ndarray:
    """Return a model's answer as an array, checked to be probabilities.

    Args:
        proba: the answer to n rows.
        n: number of rows.
        n_classes: number of classes, where known.

    Raises:
        ModelError: it is not [n, C >= 2], holds NaN or negative numbers, or does not sum to 1.
    """
    proba = np.asarray(proba)
    wanted = f"({n}, {n_classes or 'number of classes'})"
    if proba.ndim != 2 or len(proba) != n or proba.shape[1] < 2 or proba.dtype.kind not in "fiu":
        one = " (one class or a column for the second class only?)" if proba.ndim == 1 else ""
        raise ModelError(
            f"the model answered {n} rows with {proba.dtype} of shape {proba.shape}, expected "
            f"probabilities of shape {wanted}{one}"
        )
    if n_classes not in (None, proba.shape[1]):
        raise ModelError(f"the model answered with {proba.shape[1]} classes, expected {n_classes}")
    if np.isnan(proba).any():
        raise ModelError(f"the model answered NaN, first in row {_first(np.isnan(proba))}")
    if (proba < 0).any():
        row = _first(proba < 0)
        raise ModelError(
            f"the model answered negative probabilities, first in row {row}: {proba[row].tolist()};"
            " are these scores before softmax?"
        )
    off = np.abs(proba.sum(axis=1, dtype=np.float64) - 1) > _SUM_TOLERANCE
    if off.any():
        row = int(off.argmax())
        raise ModelError(
            f"the model's probabilities do not sum to 1, first in row {row}: "
            f"{proba[row].tolist()} sum to {proba[row].sum():.6g}; are these scores before softmax?"
        )
    return proba


def _first(bad: np.ndarray) -> int:
    return int(bad.any(axis=1).argmax())


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _shown(model: Any) -> str:
    return repr(model) if isinstance(model, str) else f"a {type(model).__name__}"


def python_labels(classes: Any) -> tuple:
    """Return labels as Python values (str, int, bool, float)."""
    return tuple(c.item() if isinstance(c, np.generic) else c for c in classes)


# ---- models of this package -------------------------------------------------------------------


def _own(model: Any) -> Engine:
    return Engine(
        "cfc",
        model.predict_proba,
        n_features=model.n_features,
        classes=tuple(range(model.n_classes)),
        has_codes_for_classes=True,
        dtype="float32",
        # the networks and the linear family round alike on one machine, not on every machine
        is_exact=not (model.is_neural or model.family == "lr"),
        n_trees=model.facts.get("n_trees") if model.is_forest else None,
    )


# ---- XGBoost ----------------------------------------------------------------------------------


def _xgboost(model: Any) -> Engine:
    import xgboost

    is_wrapper = isinstance(model, xgboost.XGBModel)
    if is_wrapper and not isinstance(model, xgboost.XGBClassifier):
        raise ModelError(f"{_shown(model)} is no classifier")
    if is_wrapper and not model.__sklearn_is_fitted__():
        raise ModelError(f"{_shown(model)} is not fitted; call its fit on training rows first")
    booster = model.get_booster() if is_wrapper else model
    if not isinstance(booster, xgboost.Booster):
        raise ModelError(f"{_shown(model)} is no XGBoost classifier or Booster")
    learner = json.loads(booster.save_config())["learner"]
    objective = learner["objective"]["name"]
    if objective not in ("binary:logistic", "multi:softprob"):
        hint = " (train with multi:softprob)" if objective == "multi:softmax" else ""
        raise ModelError(
            f"the XGBoost objective {objective!r} does not give class probabilities{hint}; "
            "accepted: binary:logistic, multi:softprob"
        )
    settings = learner["learner_model_param"]
    if int(settings.get("num_target", 1)) > 1:
        raise ModelError("the XGBoost model has several targets; audit one at a time")
    is_binary = objective == "binary:logistic"
    missing = model.missing if is_wrapper else np.nan
    rounds = model._get_iteration_range(None) if is_wrapper else (0, 0)
    names = booster.feature_names

    def ask(rows: np.ndarray) -> np.ndarray:
        p = booster.inplace_predict(
            rows, iteration_range=rounds, missing=missing, validate_features=False
        )
        return two_columns(p) if is_binary else p

    def ask_linear(rows: np.ndarray) -> np.ndarray:
        p = booster.predict(xgboost.DMatrix(rows, missing=missing), validate_features=False)
        return two_columns(p) if is_binary else p

    is_linear = learner["gradient_booster"]["name"] == "gblinear"
    return Engine(
        "xgboost",
        ask_linear if is_linear else ask,
        classes=tuple(range(2 if is_binary else int(settings["num_class"]))),
        has_codes_for_classes=True,
        names=None if names is None else tuple(names),
        n_features=booster.num_features(),
        dtype="float32",
        is_exact=not is_linear,
        codes=_xgboost_codes(booster),
    )


def _xgboost_codes(booster: Any) -> dict[int, list | None]:
    nominal = [i for i, kind in enumerate(booster.feature_types or ()) if kind == "c"]
    levels: dict[str, Any] = {}
    if nominal and hasattr(booster, "get_categories"):  # since 3.1 the file knows them
        levels = dict(booster.get_categories(export_to_arrow=True).to_arrow())
    names = booster.feature_names or [None] * booster.num_features()
    found = {i: levels.get(names[i]) for i in nominal}
    return {i: None if known is None else known.to_pylist() for i, known in found.items()}


# ---- LightGBM ---------------------------------------------------------------------------------


def _lightgbm(model: Any) -> Engine:
    import lightgbm

    classes = None
    booster = model
    if isinstance(model, lightgbm.LGBMModel):
        if not isinstance(model, lightgbm.LGBMClassifier):
            raise ModelError(f"{_shown(model)} is no classifier")
        if not model.__sklearn_is_fitted__():
            raise ModelError(f"{_shown(model)} is not fitted; call its fit on training rows first")
        booster, classes = model.booster_, python_labels(model.classes_)
    if not isinstance(booster, lightgbm.Booster):
        raise ModelError(f"{_shown(model)} is no LightGBM classifier or Booster")
    header = booster.model_to_string(num_iteration=1)
    objective = _field(header, "objective").split(" ")[0]
    if objective not in ("binary", "multiclass"):
        raise ModelError(
            f"the LightGBM objective {objective or 'of your own'!r} does not give probabilities "
            "that sum to 1; accepted: binary, multiclass"
        )
    is_binary = objective == "binary"
    n_classes = 2 if is_binary else int(_field(header, "num_class"))
    if classes is not None and len(classes) < 2:
        raise ModelError(f"the model knows one class only, {classes[0]!r}")
    names = tuple(booster.feature_name())
    is_named = names != tuple(f"Column_{i}" for i in range(len(names)))

    def ask(rows: np.ndarray) -> np.ndarray:
        p = booster.predict(rows)
        return two_columns(p) if is_binary else p

    # levels of a nominal column are listed with colons, the range of a number in brackets
    listed = _field(header, "feature_infos").split(" ")
    nominal = [i for i, text in enumerate(listed) if re.fullmatch(r"-?\d+(:-?\d+)*", text)]
    return Engine(
        "lightgbm",
        ask,
        classes=classes or tuple(range(n_classes)),
        has_codes_for_classes=classes is None,
        names=names if is_named else None,
        n_features=len(names),
        is_exact=True,
        codes=dict.fromkeys(nominal),
        category_lists=booster.pandas_categorical or (),
    )


def _field(header: str, name: str) -> str:
    found = re.search(rf"^{name}=(.*)$", header, flags=re.MULTILINE)
    return found.group(1) if found else ""


# ---- CatBoost ---------------------------------------------------------------------------------


def _catboost(model: Any) -> Engine:
    import catboost

    if not isinstance(model, catboost.CatBoost):
        raise ModelError(f"{_shown(model)} is no CatBoost model")
    if not model.is_fitted():
        raise ModelError(f"{_shown(model)} is not fitted; call its fit on training rows first")
    loss = str(model.get_all_params().get("loss_function", "")).partition(":")[0]
    if loss not in ("Logloss", "CrossEntropy", "MultiClass"):
        raise ModelError(
            f"the CatBoost loss {loss!r} does not give class probabilities that sum to 1; "
            "accepted: Logloss, CrossEntropy, MultiClass"
        )
    for what in ("text", "embedding"):
        if found := getattr(model, f"get_{what}_feature_indices")():
            named = ", ".join(repr(model.feature_names_[i]) for i in found)
            raise ModelError(
                f"the CatBoost model has {what} features ({named}), which cannot be removed as "
                "columns; turn them into numbers or levels before the model"
            )
    names = tuple(model.feature_names_)
    is_named = names != tuple(map(str, range(len(names))))
    nominal = model.get_cat_feature_indices()
    classes = python_labels(model.classes_)

    def ask(rows: Any) -> np.ndarray:
        # column order is what the library reads without a second copy
        rows = np.asfortranarray(rows) if isinstance(rows, np.ndarray) else rows
        return np.ascontiguousarray(model.predict(rows, prediction_type="Probability"))

    return Engine(
        "catboost",
        ask,
        takes="table" if nominal else "array",
        classes=classes if len(classes) > 1 else (0, 1),
        has_codes_for_classes=len(classes) < 2,
        names=names if is_named else None,
        n_features=len(names),
        dtype="float64" if nominal else "float32",
        is_exact=True,
        codes=dict.fromkeys(nominal),
    )


# ---- torch ------------------------------------------------------------------------------------

OUTPUTS = ("logits", "probabilities", "logit")


def _torch(module: Any, output: str | None) -> Engine:
    import torch

    if output not in OUTPUTS:
        raise ModelError(
            f"a torch module needs output= one of {', '.join(OUTPUTS)} (logit: one number a row, "
            f"the score of the second class), not {output!r}"
        )
    tensors = [*module.parameters(), *module.buffers()]
    floats = [t for t in tensors if t.is_floating_point()]
    device = tensors[0].device if tensors else torch.device("cpu")
    dtype = floats[0].dtype if floats else torch.float32
    if dtype not in (torch.float32, torch.float64):
        raise ModelError(
            f"the module's weights are {str(dtype).removeprefix('torch.')}; convert it with "
            ".float() first"
        )
    name = str(dtype).removeprefix("torch.")

    def ask(rows: np.ndarray) -> np.ndarray:
        parts = []
        block = torch.zeros((BLOCK_ROWS, rows.shape[1]), dtype=dtype)
        with _evaluating(module), torch.inference_mode():
            for start in range(0, len(rows), BLOCK_ROWS):
                part = rows[start : start + BLOCK_ROWS]
                block[: len(part)] = torch.from_numpy(part)
                block[len(part) :] = 0
                answer = module(block.to(device))
                parts.append(_probabilities(answer, output, BLOCK_ROWS)[: len(part)])
        return np.concatenate(parts)

    return Engine("torch", ask, n_features=_first_width(module), dtype=name)


def _probabilities(answer: Any, output: str, n: int) -> np.ndarray:
    import torch

    if not isinstance(answer, torch.Tensor):
        raise ModelError(f"the module answered with {_shown(answer)}, expected one tensor")
    if output == "logit":
        if answer.numel() != n:
            raise ModelError(
                f"the module answered {n} rows with shape {tuple(answer.shape)}; output='logit' "
                "means one number a row"
            )
        score = answer.reshape(n)
        return torch.stack([torch.sigmoid(-score), torch.sigmoid(score)], dim=1).cpu().numpy()
    if answer.ndim != 2 or answer.shape[0] != n or answer.shape[1] < 2:
        hint = "; for one number a row say output='logit'" if answer.numel() == n else ""
        raise ModelError(
            f"the module answered {n} rows with shape {tuple(answer.shape)}, expected "
            f"({n}, number of classes){hint}"
        )
    answer = torch.softmax(answer, dim=1) if output == "logits" else answer
    return answer.cpu().numpy() if output == "logits" else checked(answer.cpu().numpy(), n)


def _first_width(module: Any) -> int | None:
    """Return the number of inputs of a plain stack of layers; of others it cannot be told."""
    import torch

    first = module[0] if isinstance(module, torch.nn.Sequential) and len(module) else module
    return first.in_features if isinstance(first, torch.nn.Linear) else None


@contextmanager
def _evaluating(module: Any):
    """Put a module into evaluation mode on one thread, and back."""
    import torch

    training = [layer for layer in module.modules() if layer.training]
    threads = torch.get_num_threads()
    module.eval()
    if threads != 1:
        torch.set_num_threads(1)  # sums split over threads round differently
    try:
        yield
    finally:
        for layer in training:
            layer.training = True
        if threads != 1:
            torch.set_num_threads(threads)


# ---- scikit-learn -----------------------------------------------------------------------------

# models whose arithmetic on a row involves no other row and no BLAS
_EXACT = {
    "DecisionTreeClassifier",
    "ExtraTreeClassifier",
    "RandomForestClassifier",
    "ExtraTreesClassifier",
    "GradientBoostingClassifier",
    "HistGradientBoostingClassifier",
}
_CASTS_TO_FLOAT32 = _EXACT - {"HistGradientBoostingClassifier"}
_FORESTS = {"RandomForestClassifier", "ExtraTreesClassifier"}
# modules of models that take a matrix of numbers and hold no other model inside
_PLAIN_MODULES = (
    "sklearn.linear_model.",
    "sklearn.tree.",
    "sklearn.ensemble._forest",
    "sklearn.ensemble._gb",
    "sklearn.ensemble._hist_gradient_boosting.",
    "sklearn.naive_bayes",
    "sklearn.neighbors.",
    "sklearn.neural_network.",
    "sklearn.svm.",
    "sklearn.discriminant_analysis",
    "sklearn.gaussian_process.",
    "sklearn.dummy",
)


def _sklearn(model: Any) -> Engine:
    from cfc.auditing.tracing import check_fitted

    check_fitted(model)
    classes = _sklearn_classes(model)
    if not hasattr(model, "predict_proba"):
        raise ModelError(_without_probabilities(model))
    kind = type(model).__name__ if type(model).__module__.startswith("sklearn.") else ""
    is_plain = f"{type(model).__module__}.".startswith(_PLAIN_MODULES)
    names = getattr(model, "feature_names_in_", None)
    names = None if names is None else tuple(map(str, names))
    categorical = getattr(model, "is_categorical_", None)  # of HistGradientBoostingClassifier
    if kind == "CategoricalNB":
        categorical = np.ones(model.n_features_in_, dtype=bool)
    common = {
        "kind": "sklearn",
        "classes": classes,
        "names": names,
        "n_features": getattr(model, "n_features_in_", None),
        "codes": {} if categorical is None else dict.fromkeys(np.flatnonzero(categorical).tolist()),
        "n_trees": _votes(model, kind),
        "is_exact": kind in _EXACT or _votes(model, kind) is not None,
    }
    if kind in _FORESTS or kind in ("DecisionTreeClassifier", "ExtraTreeClassifier"):
        trees = [m.tree_ for m in getattr(model, "estimators_", [model])]
        return Engine(ask=partial(_ask_trees, trees), dtype="float32", **common)
    if kind in ("LogisticRegression", "LogisticRegressionCV") and (ask := _ask_logistic(model)):
        return Engine(ask=ask, **common)
    single = _with_one_job(model)
    if names is not None and (not is_plain or categorical is not None):
        # it may look columns up by name, in a Pipeline inside for example, or read categories
        return Engine(ask=single.predict_proba, takes="table", takes_sparse=True, **common)
    if is_plain and names is not None:
        single = copy.copy(single)
        del single.feature_names_in_  # a matrix has none, and there would be a warning a call
    if kind == "HistGradientBoostingClassifier":
        # one tree after another asks all rows for few columns: those should lie together
        return Engine(ask=lambda rows: single.predict_proba(np.asfortranarray(rows)), **common)
    dtype = "float32" if kind in _CASTS_TO_FLOAT32 else "float64"
    return Engine(ask=single.predict_proba, dtype=dtype, takes_sparse=True, **common)


def _sklearn_classes(model: Any) -> tuple | None:
    classes = getattr(model, "classes_", None)
    if classes is None:
        return None
    is_nested = isinstance(classes, list) and any(np.ndim(c) for c in classes)
    if is_nested or np.ndim(classes) != 1 or getattr(model, "multilabel_", False):
        raise ModelError(
            f"{_shown(model)} has several outputs; audit one at a time (one classifier an output)"
        )
    if len(classes) < 2:
        raise ModelError(
            f"{_shown(model)} knows one class only, {python_labels(classes)}; was it fitted on a "
            "part of the training rows?"
        )
    return python_labels(classes)


def _without_probabilities(model: Any) -> str:
    from sklearn.base import is_regressor

    name = type(model).__name__
    if not hasattr(model, "predict"):
        return f"{_shown(model)} is no classifier: it predicts nothing"
    if is_regressor(model):
        return f"{_shown(model)} is a regressor; certificates are about class probabilities"
    if name == "SVC" or name == "NuSVC":
        return (
            f"{_shown(model)} was fitted without probabilities; fit it with probability=True, or "
            "calibrate it: CalibratedClassifierCV(FrozenEstimator(model)).fit(X_valid, y_valid)"
        )
    return (
        f"{_shown(model)} has no predict_proba; calibrate it first: "
        "CalibratedClassifierCV(FrozenEstimator(model)).fit(X_valid, y_valid) of sklearn"
    )


def _votes(model: Any, kind: str) -> int | None:
    """Return the number of trees of a forest whose probabilities are their mean, else None."""
    members = getattr(model, "estimators_", None)
    if kind in _FORESTS:
        return len(members)
    if kind == "BaggingClassifier":
        trees = {"DecisionTreeClassifier", "ExtraTreeClassifier"}
        return len(members) if {type(m).__name__ for m in members} <= trees else None
    return None


def _with_one_job(model: Any) -> Any:
    """Return the model, or a shallow copy of it that uses one thread."""
    if getattr(model, "n_jobs", 1) in (None, 1) or "n_jobs" not in vars(model):
        return model
    single = copy.copy(model)
    single.n_jobs = 1  # more would add votes in the order in which they are ready
    return single


def _ask_trees(trees: Sequence[Any], rows: np.ndarray) -> np.ndarray:
    """Return the mean of the trees' class shares: the sum scikit-learn takes, in its order."""
    out = None
    for start in range(0, len(rows), _CHUNK_ROWS):
        part = rows[start : start + _CHUNK_ROWS]
        for tree in trees:
            share = tree.predict(part)
            if out is None:
                out = np.zeros((len(rows), share.shape[1]))
            out[start : start + _CHUNK_ROWS] += share
    out /= len(trees)
    return out


def _ask_logistic(model: Any) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return the linear model by hand, in blocks: a row's answer does not follow its batch.

    It differs from ``predict_proba`` by rounding, whose own rounding follows the batch. None for
    settings that combine the scores in another way.
    """
    from scipy import sparse
    from scipy.special import expit, softmax

    if sparse.issparse(model.coef_):
        return None
    weights = np.ascontiguousarray(model.coef_.T, dtype=np.float64)
    intercept = np.asarray(model.intercept_, dtype=np.float64)

    def ask(rows: np.ndarray) -> np.ndarray:
        scores = np.empty((len(rows), weights.shape[1]))
        block = np.zeros((BLOCK_ROWS, weights.shape[0]))
        for start in range(0, len(rows), BLOCK_ROWS):
            part = rows[start : start + BLOCK_ROWS]
            block[: len(part)] = part
            scores[start : start + len(part)] = (block @ weights)[: len(part)]
        scores += intercept
        return softmax(scores, axis=1) if scores.shape[1] > 1 else two_columns(expit(scores[:, 0]))

    spread = np.concatenate([np.zeros((1, len(weights))), np.eye(len(weights))[:64]])
    single = copy.copy(model)
    vars(single).pop("feature_names_in_", None)
    is_same = np.allclose(ask(spread), single.predict_proba(spread), rtol=1e-9, atol=1e-12)
    return ask if is_same else None
