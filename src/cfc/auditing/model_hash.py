"""A hash of what a fitted model has learned, without pickle.

Boosters are hashed through their own dumps, torch modules through their arrays, everything else by
a walk over parameters and fitted attributes: types by name, arrays by type, shape and bytes,
mappings in sorted order. What does not change an answer (threads, verbosity, caches, clocks, the
state of random generators) is left out; memory addresses and library versions never enter.
"""

import ast
import functools
import hashlib
import inspect
import json
import re
import tempfile
import textwrap
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cfc.artifacts import canonical_json

_SILENT = {"n_jobs", "n_threads", "verbose", "memory", "_sklearn_version"}
_LIBRARIES = ("builtins", "numpy", "scipy", "sklearn", "pandas", "math", "operator")
# search trees over rows that are attributes of their own; they count their calls
_DERIVED = {"KDTree", "KDTree64", "KDTree32", "BallTree", "BallTree64", "BallTree32"}


def model_hash(model: Any) -> str | None:
    """Return 64 hexadecimal digits naming a fitted model, None if it cannot be walked.

    Equal models give equal digits in any process, and after their library's own file. Functions
    are named by module, name and, outside well-known libraries, source text without comments.
    """
    walk = _Walk()
    try:
        walk.visit(model)
    except _Opaque:
        return None
    return walk.digest.hexdigest()


class _Opaque(Exception):
    """Something whose content cannot be told."""


class _Walk:
    def __init__(self):
        self.digest = hashlib.sha256(b"cfc model 1\n")
        self.open: list[int] = []  # what is being visited, for structures that hold themselves

    def write(self, tag: str, content: bytes | str = b"") -> None:
        content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        self.digest.update(f"{tag} {len(content)}\n".encode())
        self.digest.update(content)

    def visit(self, value: Any) -> None:
        """Write one value, whatever it is."""
        if value is None or isinstance(value, (bool, int, str, bytes, complex)):
            return self.write(
                type(value).__name__, value if isinstance(value, bytes) else str(value)
            )
        if isinstance(value, float):
            return self.write("float", "nan" if value != value else float(value).hex())
        if isinstance(value, np.generic):
            return self.visit(value.item()) if value.dtype.names is None else self.array(value[()])
        if isinstance(value, (type, np.dtype, types.BuiltinFunctionType, np.ufunc)):
            return self.write("name", _name(value))
        if id(value) in self.open:
            return self.write("within", str(len(self.open) - self.open.index(id(value))))
        self.open.append(id(value))
        self.inner(value)
        self.open.pop()

    def inner(self, value: Any) -> None:
        if isinstance(value, np.ndarray):
            self.array(value)
        elif isinstance(value, (pd.Series, pd.Index)):
            self.array(value.to_numpy())
        elif isinstance(value, pd.DataFrame):
            self.items("table", [(str(c), value[c].to_numpy()) for c in value.columns])
        elif isinstance(value, Mapping):
            self.items("mapping", value.items())
        elif isinstance(value, (list, tuple)):
            self.sequence(type(value).__name__, value)
        elif isinstance(value, (set, frozenset)):
            self.write("set", ",".join(sorted(_digest(item) for item in value)))
        elif isinstance(value, (np.random.RandomState, np.random.Generator)):
            self.write("random")
        elif isinstance(value, functools.partial):
            self.sequence("partial", [value.func, value.args, value.keywords])
        elif isinstance(value, types.MethodType):
            self.sequence("method", [value.__func__.__name__, value.__self__])
        elif isinstance(value, types.FunctionType):
            self.function(value)
        elif content := _library_dump(value):
            self.write("dump", content)
        else:
            self.object(value)

    def items(self, tag: str, items: Iterable[tuple[Any, Any]]) -> None:
        ordered = sorted(((_digest(key), key, item) for key, item in items), key=lambda x: x[0])
        self.write(tag, str(len(ordered)))
        for _, key, item in ordered:
            self.visit(key)
            self.visit(item)

    def sequence(self, tag: str, items: Iterable[Any]) -> None:
        items = list(items)
        self.write(tag, str(len(items)))
        for item in items:
            self.visit(item)

    def array(self, array: np.ndarray) -> None:
        if array.dtype.names is not None:
            # field by field: the bytes between fields hold chance values
            return self.items("records", [(name, array[name]) for name in array.dtype.names])
        if array.dtype.kind in "OUT":
            # text is text, be it of fixed width, objects or strings
            return self.sequence(f"objects {array.shape}", array.ravel().tolist())
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        self.write(f"array {array.dtype.str} {array.shape}", np.ascontiguousarray(array).tobytes())

    def function(self, function: types.FunctionType) -> None:
        self.write("function", _name(function))
        if function.__module__.partition(".")[0] in _LIBRARIES:
            return
        self.write("source", _source(function))
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        self.sequence("closure", [*cells, function.__defaults__])

    def object(self, value: Any) -> None:
        """Write an object through what it would hand to a copy of itself."""
        best = getattr(value, "best_estimator_", None)
        if best is not None:  # a search answers as the best model it found; the rest is its log
            return self.visit(best)
        self.write("object", _name(type(value)))
        if type(value).__name__ in _DERIVED:
            return
        if hasattr(value, "get_params") and hasattr(value, "__dict__"):
            state = {**value.get_params(deep=False), **vars(value)}
            return self.items("state", _audible(state))
        try:
            parts = value.__reduce_ex__(2)
        except Exception as error:
            raise _Opaque(type(value).__name__) from error
        if isinstance(parts, str):
            return self.write("global", parts)
        make, arguments, *rest = parts
        self.write("made by", _name(make))
        self.visit(arguments)
        state, listed, mapped = [*rest, None, None, None][:3]
        self.items("state", _audible(state)) if isinstance(state, dict) else self.visit(state)
        self.sequence("listed", listed or ())
        self.items("mapped", mapped or ())


def _audible(state: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, item) for name, item in state.items() if name not in _SILENT]


def _digest(value: Any) -> str:
    walk = _Walk()
    walk.visit(value)
    return walk.digest.hexdigest()


def _name(value: Any) -> str:
    if isinstance(value, np.dtype):
        return f"dtype {value.str}"
    module = getattr(value, "__module__", None) or ""
    return f"{module}.{getattr(value, '__qualname__', None) or value.__name__}"


def _source(function: types.FunctionType) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise _Opaque(function.__qualname__) from error
    try:
        return ast.unparse(ast.parse(text))
    except SyntaxError:  # a lambda in the middle of a statement
        return text.strip()


# ---- libraries with dumps of their own --------------------------------------------------------


def _library_dump(value: Any) -> str | None:
    libraries = {cls.__module__.partition(".")[0] for cls in type(value).__mro__}
    if "xgboost" in libraries and (hasattr(value, "get_booster") or hasattr(value, "save_raw")):
        return _xgboost_dump(value.get_booster() if hasattr(value, "get_booster") else value)
    if "lightgbm" in libraries and (
        hasattr(value, "booster_") or hasattr(value, "model_to_string")
    ):
        return _lightgbm_dump(getattr(value, "booster_", value))
    if "catboost" in libraries and hasattr(value, "save_model"):
        return _catboost_dump(value)
    if "torch" in libraries and hasattr(value, "state_dict"):
        return _torch_dump(value)
    if any(_name(cls) == "cfc.models.base.Model" for cls in type(value).__mro__):
        return f"{value.family} {value.model_hash()}"
    return None


def _xgboost_dump(booster: Any) -> str:
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    # of the attributes only this one changes an answer
    attributes = learner.pop("attributes", {})
    # a large booster has half a million numbers: the parser's own writer, which is in C
    return json.dumps([learner, attributes.get("best_iteration")], sort_keys=True)


def _lightgbm_dump(booster: Any) -> str:
    text = booster.model_to_string()
    trees, _, rest = text.partition("\nend of trees\n")
    categories = re.search(r"^pandas_categorical:.*$", rest, flags=re.MULTILINE)
    return trees + (categories.group() if categories else "")


def _catboost_dump(model: Any) -> str:
    with tempfile.TemporaryDirectory(prefix="cfc-catboost-") as folder:
        path = Path(folder, "model.json")
        model.save_model(str(path), format="json")
        content = json.loads(path.read_text(encoding="utf-8"))
    content["model_info"] = content.get("model_info", {}).get("class_params")
    for table in (content.get("ctr_data") or {}).values():
        # a hash table: slots in an order of its own, unused ones hold the largest number
        stride, slots = table["hash_stride"], table["hash_map"]
        rows = [slots[i : i + stride] for i in range(0, len(slots), stride)]
        table["hash_map"] = sorted(row for row in rows if int(row[0]) != 2**64 - 1)
    return canonical_json(content)


def _torch_dump(module: Any) -> str:
    is_script = hasattr(module, "original_name")
    layers = []
    for name, layer in module.named_modules():
        kind = layer.original_name if is_script else _name(type(layer))
        layers.append([name, kind, "" if is_script else layer.extra_repr()])
    walk = _Walk()
    walk.visit(layers)
    if is_script:
        walk.visit(module.code)
    for name, tensor in sorted(module.state_dict().items()):
        walk.visit(name)
        walk.visit(tensor.detach().cpu().numpy())
    return walk.digest.hexdigest()
