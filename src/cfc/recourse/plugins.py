"""Classes of one's own, named by ``module:Class`` or ``file.py:Class``."""

from cfc.errors import ConfigError
from cfc.models.registry import own_class


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
    parent_name = f"{parent.__module__}.{parent.__name__}"
    cls = own_class(where, class_path, parent, parent_name, ("name", "title"))
    if cls.name != name:
        raise ConfigError(f"{where}: the class calls itself {cls.name!r}; use that name as the key")
    return cls
