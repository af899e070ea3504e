"""Model families by name.

The module of a family is imported when it is asked for, so a linear model loads no torch.
A family of one's own is a subclass of `cfc.models.Model`, named in the configuration by
``class: package.module:ClassName`` or ``class: path/to/file.py:ClassName``; the path is relative to
the working folder.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from cfc.errors import ConfigError, ModelError, nearest
from cfc.models.base import Model, read_description

_CLASS_OF = {
    "lr": ("cfc.models.linear", "LogisticRegressionModel"),
    "rf": ("cfc.models.forests", "RandomForestModel"),
    "extratrees": ("cfc.models.forests", "ExtraTreesModel"),
    "xgboost": ("cfc.models.xgboost_family", "XGBoostModel"),
    "lightgbm": ("cfc.models.lightgbm_family", "LightGBMModel"),
    "catboost": ("cfc.models.catboost_family", "CatBoostModel"),
    "mlp": ("cfc.models.neural", "MLPModel"),
    "resmlp": ("cfc.models.neural", "ResMLPModel"),
    "fr_resmlp": ("cfc.models.neural", "FragilityRegularisedResMLPModel"),
}
FAMILIES: tuple[str, ...] = tuple(_CLASS_OF)  # the order of the paper's tables
MODULE_OF: dict[str, str] = {name: module for name, (module, _) in _CLASS_OF.items()}


def get_family(name: str, class_path: str | None = None) -> type[Model]:
    """Return the class of a model family, importing only its module.

    Args:
        name: registered name, or any name when ``class_path`` is given.
        class_path: ``package.module:ClassName`` or ``path/to/file.py:ClassName`` of a family of
            one's own; None for the families that come with the package.

    Raises:
        ConfigError: unknown name (with the nearest known), or a class that cannot be used.
    """
    if class_path is not None:
        return _own_family(name, class_path)
    if name not in _CLASS_OF:
        raise ConfigError(
            f"unknown model {name!r}; {nearest(name, FAMILIES)}. A model of your own needs "
            "'class: package.module:ClassName' in its registry entry"
        )
    module, attribute = _CLASS_OF[name]
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"model {name!r} needs the package {error.name!r}, which is not installed"
        ) from error


def load_model(directory: str | Path, class_path: str | None = None) -> Model:
    """Load a saved model of any family.

    Args:
        directory: folder written by `Model.save`.
        class_path: as for `get_family`, for a family of one's own.

    Raises:
        ModelError: unknown family, changed file, foreign file.
    """
    family = read_description(directory)["family"]
    if class_path is None and family not in _CLASS_OF:
        raise ModelError(
            f"{directory} holds a model of unknown family {family!r}; {nearest(family, FAMILIES)}"
        )
    return get_family(family, class_path).load(directory)


def own_file(class_path: str) -> Path:
    """Return the Python file of a family of one's own, without running it.

    Args:
        class_path: ``package.module:ClassName``, found on Python's path, or
            ``path/to/file.py:ClassName``, relative to the working folder.

    Raises:
        ConfigError: another form, or no such file or module; the message says where it was looked
            for.
    """
    source, _ = _parts(class_path)
    if source.endswith(".py"):
        file = Path(source).resolve()
        if not file.is_file():
            folder = file.parent
            near = [p.name for p in folder.glob("*.py")] if folder.is_dir() else []
            raise ConfigError(f"no file {file}; {nearest(file.name, near)}")
        return file
    try:
        spec = importlib.util.find_spec(source)
    except ImportError:  # the package before the last dot
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ConfigError(
            f"no module {source!r} on Python's path (a file is named by its path, as in "
            f"{source.replace('.', '/')}.py:{class_path.rpartition(':')[2]})"
        )
    return Path(spec.origin)


def _parts(class_path: str) -> tuple[str, str]:
    source, _, attribute = class_path.rpartition(":")
    if not source or not attribute.isidentifier():
        raise ConfigError("expected 'package.module:ClassName' or 'path/to/file.py:ClassName'")
    return source, attribute


def _own_family(name: str, class_path: str) -> type[Model]:
    where = f"model {name!r}, class {class_path!r}"
    needed = ("family", "model_file", "library")
    return own_class(where, class_path, Model, "cfc.models.Model", needed)


def own_class(
    where: str, class_path: str, parent: type, parent_name: str, needed: Iterable[str]
) -> type:
    """Return a class of one's own, imported and checked.

    Args:
        where: what it is for, in messages.
        class_path: ``package.module:ClassName`` or ``path/to/file.py:ClassName``.
        parent: class it must derive from.
        parent_name: public name of that class.
        needed: attributes it must have.

    Raises:
        ConfigError: it cannot be imported, does not derive from ``parent``, or lacks something.
    """
    try:
        source, attribute = _parts(class_path)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    try:
        module = (
            load_python_file(source) if source.endswith(".py") else importlib.import_module(source)
        )
    except (ImportError, OSError, SyntaxError) as error:
        raise ConfigError(f"{where}: cannot be imported: {error}") from error
    cls = getattr(module, attribute, None)
    if not isinstance(cls, type):
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise ConfigError(f"{where}: no class {attribute!r} there; {nearest(attribute, classes)}")
    if not issubclass(cls, parent):
        raise ConfigError(f"{where}: {attribute} must derive from {parent_name}")
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    missing += [key for key in needed if not hasattr(cls, key)]
    if missing:
        raise ConfigError(f"{where}: {attribute} does not define {', '.join(missing)}")
    return cls


def load_python_file(path: str) -> ModuleType:
    """Return the module in a Python file, loaded once however often it is asked for.

    Raises:
        FileNotFoundError: there is no such file.
    """
    file = Path(path).resolve()
    # One module object a file, so that two look-ups give one class.
    key = f"cfc_own_model_{hashlib.sha256(str(file).encode()).hexdigest()[:16]}"
    if key in sys.modules:
        return sys.modules[key]
    if not file.is_file():
        raise FileNotFoundError(f"no file {file}")
    spec = importlib.util.spec_from_file_location(key, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[key]
        raise
    return module
