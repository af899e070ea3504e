"""Scikit-learn models as skops files that are equal for equal models.

skops names parts of a file after memory addresses and stamps them with the time of day, and a
tree's node records have unused bytes that hold chance values. Here the parts are renumbered in the
order in which the schema mentions them and stamped with a fixed date, and the unused bytes are
zeroed, so equal models give equal bytes. On the way in, every type in the file is checked against
an explicit list.
"""

import io
import json
import re
import sys
import zipfile
from typing import Any

import numpy as np

from cfc.errors import ModelError

_HEAVY = ("torch", "cupy", "dask", "jax")  # array libraries scikit-learn has adapters for
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date a zip archive can hold
_NUMBER = re.compile(r"\d+")


def skops_io():
    """Return ``skops.io``, imported without the array libraries it would pull in.

    On import it lists every estimator by importing all of scikit-learn, adapters for torch
    included: seconds of start-up that no scikit-learn model needs.
    """
    import scipy.stats  # noqa: F401  on import it looks whether torch is there, and trips over None

    hidden = [name for name in _HEAVY if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        import skops.io
    finally:
        for name in hidden:
            del sys.modules[name]
    return skops.io


def dumps(estimator: Any, *, compress_level: int = 1) -> bytes:
    """Return the bytes of a skops file.

    Args:
        estimator: fitted scikit-learn estimator.
        compress_level: zip level 1..9. Level 1 shrinks a forest about fourfold; higher levels
            cost several times the time for a few per cent.
    """
    stored = skops_io().dumps(estimator)
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(stored)) as source,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=compress_level) as target,
    ):
        schema = json.loads(source.read("schema.json"))
        names = _renumber(schema)
        for old, new in names.items():
            target.writestr(_entry(new), _without_padding(source.read(old)))
        text = json.dumps(schema, sort_keys=True, separators=(",", ":"))
        target.writestr(_entry("schema.json"), text)
    return out.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3  # the default differs between operating systems
    info.external_attr = 0o600 << 16
    return info


def _without_padding(content: bytes) -> bytes:
    """Zero the unused bytes between the fields of a record array: they hold chance values."""
    if content[:6] != b"\x93NUMPY":
        return content
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.names is None:
        return content
    clean = np.zeros(array.shape, dtype=array.dtype)
    for name in array.dtype.names:
        clean[name] = array[name]
    buffer = io.BytesIO()
    np.save(buffer, clean, allow_pickle=False)
    return buffer.getvalue()


def _renumber(node: Any) -> dict[str, str]:
    """Renumber object ids and part names in place; return old part name to new part name."""
    ids: dict[int, int] = {}
    names: dict[str, str] = {}

    def visit(node: Any) -> None:
        if isinstance(node, list):
            for item in node:
                visit(item)
        elif isinstance(node, dict):
            if "__id__" in node:
                node["__id__"] = ids.setdefault(node["__id__"], len(ids) + 1)
            if isinstance(node.get("file"), str):
                suffix = _NUMBER.sub("", node["file"])
                node["file"] = names.setdefault(node["file"], f"{len(names) + 1}{suffix}")
            for key in sorted(node):
                visit(node[key])

    visit(node)
    return names


def loads(content: bytes, *, expected: type, trusted: list[str]) -> Any:
    """Read an estimator from the bytes of a skops file.

    Args:
        content: the file.
        expected: class the estimator must have exactly.
        trusted: full names of the types accepted beyond those skops trusts by itself.

    Raises:
        ModelError: other types inside, or another estimator.
    """
    reader = skops_io()
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        # The types are audited from the schema before any object is built.
        estimator = reader.loads(content, trusted=trusted)
    except UntrustedTypesFoundException as error:
        found = str(error).splitlines()[0]
        raise ModelError(f"unexpected types in the file: {found}") from error
    if type(estimator) is not expected:
        raise ModelError(f"holds a {type(estimator).__name__}, not a {expected.__name__}")
    return estimator


def check_tree(tree: Any, *, n_features: int, n_classes: int) -> None:
    """Check that a tree read from a file can be walked safely.

    Scikit-learn follows the child and feature numbers without looking at their range, so a
    forged file could read outside the arrays or never end.

    Raises:
        ModelError: a number out of range, or a child that does not come after its parent.
    """
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    node = np.arange(tree.node_count)
    inner = left != -1
    ok = (
        tree.node_count > 0
        and tree.n_features == n_features
        and tree.value.shape == (tree.node_count, 1, n_classes)
        and np.isfinite(tree.value).all()
        and np.array_equal(inner, right != -1)
        and (left[inner] > node[inner]).all()
        and (right[inner] > node[inner]).all()
        and (left[inner] < tree.node_count).all()
        and (right[inner] < tree.node_count).all()
        and (feature[inner] >= 0).all()
        and (feature[inner] < n_features).all()
    )
    if not ok:
        raise ModelError("a tree's nodes point outside the tree or its coordinates")
