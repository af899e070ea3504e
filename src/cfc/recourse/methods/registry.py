"""Recourse methods by name; a module is imported when its method is asked for."""

import importlib

from cfc.errors import ConfigError, nearest
from cfc.recourse.methods.base import Method

_CLASS_OF = {
    "wachter": ("cfc.recourse.methods.wachter", "Wachter"),
    "apas": ("cfc.recourse.methods.apas", "APAS"),
    "rbr": ("cfc.recourse.methods.rbr", "RBR"),
    "kdtree": ("cfc.recourse.methods.kdtree", "NearestFavourable"),
    "rnce": ("cfc.recourse.methods.rnce", "RNCE"),
    "betarce": ("cfc.recourse.methods.betarce", "BetaRCE"),
    "roar_lime": ("cfc.recourse.methods.roar_lime", "RoarLime"),
    "robx_balanced": ("cfc.recourse.methods.robx", "RobXBalanced"),
    "robx_robust_first": ("cfc.recourse.methods.robx", "RobXRobustFirst"),
}
METHODS: tuple[str, ...] = tuple(_CLASS_OF)  # the order of the published figures
MODULE_OF: dict[str, str] = {name: module for name, (module, _) in _CLASS_OF.items()}


def get_method(name: str, class_path: str | None = None) -> type[Method]:
    """Return the class of a recourse method.

    Args:
        name: one of `METHODS`, or any name when ``class_path`` is given.
        class_path: ``package.module:ClassName`` or ``path/to/file.py:ClassName`` of one's own.

    Raises:
        ConfigError: unknown name (with the nearest known), or a class that cannot be used.
    """
    if class_path is not None:
        from cfc.recourse.plugins import load_class

        return load_class("recourse method", name, class_path, Method)
    if name not in _CLASS_OF:
        raise ConfigError(
            f"unknown recourse method {name!r}; {nearest(name, METHODS)}. A method of your own "
            "needs an entry in recourse.own_methods: {name: path/to/file.py:ClassName}"
        )
    module, attribute = _CLASS_OF[name]
    return getattr(importlib.import_module(module), attribute)
