"""Models from files: what a library wrote itself, never a pickle."""

import importlib
import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cfc.errors import ConfigError, ModelError, nearest
from cfc.models.base import DESCRIPTION_FILE
from cfc.models.registry import load_python_file
from cfc.models.sklearn_files import check_tree, skops_io

_PICKLES = {".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle", ".pth"}
_KIND_OF = {
    ".ubj": "xgboost",
    ".txt": "lightgbm",
    ".cbm": "catboost",
    ".skops": "skops",
    ".pt": "torchscript",
}
# packages whose classes a .skops file may hold: they keep arrays and settings, and run no code a
# file brings. Functions are not among them, as a file could choose what they are called with.
_CLASSES_FROM = ("sklearn.", "scipy.sparse.", "scipy.interpolate.", "numpy.random.")
_NO_CLASSES_FROM = ("sklearn.externals.", "sklearn.utils._testing.")


def load_model_file(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    kind: str | None = None,
    trusted: Sequence[str] = (),
) -> Any:
    """Read a fitted model.

    ======================  =========================================================
    file                    model
    ======================  =========================================================
    ``.json``, ``.ubj``     XGBoost (``XGBClassifier`` if it was saved from one)
    ``.txt``                LightGBM ``Booster``
    ``.cbm``, ``.json``     CatBoost (a .json is read back with rounding in the last digit)
    ``.skops``              scikit-learn estimator or Pipeline
    ``.pt``                 TorchScript module; the audit needs ``output=`` with it
    folder, ``model.json``  a model of this package
    ``package.module:name`` or ``file.py:name``  a Python object, or a function without arguments
                            that makes it
    ======================  =========================================================

    Args:
        path: the file, folder or Python name.
        columns: names of the columns, for a booster whose file has none.
        kind: what the file is, where its name does not tell: ``xgboost``, ``lightgbm``,
            ``catboost``, ``skops``, ``torchscript``, ``cfc`` or ``python``.
        trusted: full names of types and functions a .skops file may hold beyond the classes of
            scikit-learn, those it needs of NumPy and SciPy, and their ufuncs.

    Raises:
        ModelError: there is no such file, it cannot be read, or it is a pickle.
    """
    text = str(path)
    kind = kind or _kind(text)
    if kind not in _READERS:
        raise ModelError(f"{text}: model kind {kind!r} is unknown; {nearest(kind, _READERS)}")
    if kind != "python" and not Path(text).exists():
        raise ModelError(f"{text} does not exist")
    try:
        if kind == "skops":
            return _skops(Path(text), trusted)
        model = _READERS[kind](text)
    except ModelError:
        raise
    except ModuleNotFoundError as error:
        if kind == "python":
            raise
        raise ModelError(f"{text} needs the package {error.name!r}; install it") from error
    except Exception as error:
        # each library raises types of its own; the user needs the file and what it was taken for
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(f"{text} cannot be read as a {kind} model: {first[0]}") from error
    if columns is not None:
        _name_columns(model, list(map(str, columns)), text)
    return model


def _kind(text: str) -> str:
    path = Path(text)
    suffix = path.suffix.lower()
    if path.is_dir():
        return "cfc"
    if ":" in text and not path.exists():
        return "python"
    if suffix in _PICKLES:
        raise ModelError(
            f"{text} is a pickle by its name: opening it runs whatever code is inside, so it is "
            "never opened. Save the model in its library's own format (XGBoost .ubj, LightGBM "
            ".txt, CatBoost .cbm, scikit-learn .skops with skops.io.dump, torch .pt with "
            "torch.jit.save), or name a Python object that loads it yourself: file.py:function"
        )
    if suffix == ".json" and path.is_file():
        return _json_kind(path)
    if suffix not in _KIND_OF:
        if not path.exists():
            raise ModelError(f"{text} does not exist")
        raise ModelError(
            f"{text}: what kind of model this is cannot be told from its name; give kind= "
            f"({', '.join(_READERS)})"
        )
    return _KIND_OF[suffix]


def _json_kind(path: Path) -> str:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
    keys = set(content) if isinstance(content, dict) else set()
    if "learner" in keys:
        return "xgboost"
    if keys & {"oblivious_trees", "trees"} and "features_info" in keys:
        return "catboost"
    if path.name == DESCRIPTION_FILE and "family" in keys:
        return "cfc"
    raise ModelError(
        f"{path} is JSON, but no model of XGBoost or CatBoost and no {DESCRIPTION_FILE} of a model "
        "folder"
    )


def _xgboost(path: str) -> Any:
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(path)
    wrapper = json.loads(booster.attr("scikit_learn") or "{}")
    if wrapper.get("_estimator_type") == "classifier":
        # the wrapper stops at the best iteration, the bare booster does not
        model = xgboost.XGBClassifier()
        model.load_model(path)
        return model
    return booster


def _lightgbm(path: str) -> Any:
    import lightgbm

    text = Path(path).read_text(encoding="utf-8")
    # the library reads a file cut short without complaint
    if not text.startswith("tree\n") or "\nend of trees\n" not in text:
        raise ModelError(f"{path} is no whole LightGBM model file")
    return lightgbm.Booster(model_str=text)


def _catboost(path: str) -> Any:
    import catboost

    return catboost.CatBoost().load_model(path, format="json" if path.endswith("json") else "cbm")


def _skops(path: Path, trusted: Sequence[str]) -> Any:
    reader = skops_io()
    content = path.read_bytes()
    try:
        found = reader.get_untrusted_types(data=content)
        known = [name for name in found if name in trusted or _is_harmless(name)]
        if foreign := sorted(set(found) - set(known)):
            raise ModelError(
                f"{path} holds {', '.join(foreign)}, which could run code of the file's author. "
                "If you trust where the file comes from, name them in trusted="
            )
        model = reader.loads(content, trusted=known)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{path} cannot be read as a skops file: {error}") from error
    for tree in _trees(model, set()):
        check_tree(tree, n_features=tree.n_features, n_classes=tree.value.shape[2])
    return model


def _is_harmless(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    if name == "numpy.dtype":
        return True
    if module.partition(".")[0] not in ("numpy", "scipy", "sklearn"):
        return False
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        return False
    is_class = isinstance(found, type) and name.startswith(_CLASSES_FROM)
    return isinstance(found, np.ufunc) or (is_class and not name.startswith(_NO_CLASSES_FROM))


def _trees(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield every scikit-learn tree inside a model."""
    if hasattr(value, "children_left"):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _trees(item, seen)
    elif isinstance(value, np.ndarray) and value.dtype == object:
        yield from _trees(value.ravel().tolist(), seen)
    elif isinstance(value, dict):
        yield from _trees(list(value.values()), seen)
    elif hasattr(value, "get_params") and id(value) not in seen:
        seen.add(id(value))
        yield from _trees(vars(value), seen)


def _torchscript(path: str) -> Any:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch favours another format
        return torch.jit.load(path, map_location="cpu").eval()


def _own(path: str) -> Any:
    from cfc.models import load_model

    return load_model(path if Path(path).is_dir() else Path(path).parent)


def _python(text: str) -> Any:
    source, colon, name = text.rpartition(":")
    if not colon or not source or not name.isidentifier():
        raise ModelError(f"{text!r}: expected 'package.module:name' or 'path/to/file.py:name'")
    try:
        module = (
            load_python_file(source) if source.endswith(".py") else importlib.import_module(source)
        )
    except (ImportError, OSError, SyntaxError, ConfigError) as error:
        raise ModelError(f"{text!r} cannot be imported: {error}") from error
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise ModelError(f"{text!r}: no {name!r} there; {nearest(name, public)}")
    found = getattr(module, name)
    # a function is taken for a factory if it takes nothing, else for the predictor itself
    return found() if _is_factory(found) else found


def _is_factory(found: Any) -> bool:
    return inspect.isfunction(found) and not inspect.signature(found).parameters


def _name_columns(model: Any, columns: list[str], text: str) -> None:
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    if not hasattr(booster, "num_features"):
        raise ModelError(f"{text}: columns= is for XGBoost files without column names only")
    if booster.feature_names is not None and booster.feature_names != columns:
        raise ModelError(
            f"{text} names its columns {', '.join(booster.feature_names)}; columns= differs"
        )
    if booster.num_features() != len(columns):
        raise ModelError(
            f"{text} takes {booster.num_features()} columns, columns= has {len(columns)}"
        )
    booster.feature_names = columns


_READERS: dict[str, Callable] = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "skops": _skops,
    "torchscript": _torchscript,
    "cfc": _own,
    "python": _python,
}
