"""Classes of one's own, named by ``module:Class`` or ``file.py:Class``."""

import importlib

from cfc.errors import ConfigError, nearest
from cfc.models.registry import load_python_file


def load_class(kind: str, name: str, class_path: str, parent: type) -> type:
    """Return a class of one's own, checked.

    Args:
        kind: what it is, for messages.
        name: its key in the configuration.
        class_path: ``package.module:ClassName`` or ``path/to/file.py:ClassName``.
        parent: class it must derive from.

    Raises:
        ConfigError: it cannot be imported, does not derive from ``parent``, lacks a method, or
            declares another name.
    """
    where = f"{kind} {name!r}, class {class_path!r}"
    source, colon, attribute = class_path.rpartition(":")
    if not colon or not source or not attribute.isidentifier():
        raise ConfigError(
            f"{where}: expected 'package.module:ClassName' or 'path/to/file.py:ClassName'"
        )
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
        raise ConfigError(
            f"{where}: {attribute} must derive from {parent.__module__}.{parent.__name__}"
        )
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    missing += [key for key in ("name", "title") if not hasattr(cls, key)]
    if missing:
        raise ConfigError(f"{where}: {attribute} does not define {', '.join(missing)}")
    if cls.name != name:
        raise ConfigError(f"{where}: the class calls itself {cls.name!r}; use that name as the key")
    return cls
