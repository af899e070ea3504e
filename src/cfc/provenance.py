"""What a result depends on: code, configuration, inputs, library versions."""

import ast
import hashlib
import importlib.metadata
import platform
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from cfc import LOADED_ON_USE
from cfc.artifacts import canonical_json, sha256_text

# what a job says, and the version's number, cannot change what a job writes
NOT_HASHED = ("cfc", "cfc.terminal")
PACKAGE_ROOT = Path(__file__).resolve().parent


def config_hash(config: Any) -> str:
    """Return a 16-digit hash of a configuration value, blind to key order and number spelling."""
    return sha256_text(canonical_json(config))[:16]


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """Return installed versions of the named distributions (absent ones are left out), sorted."""
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return dict(sorted(versions.items()))


def loaded_versions() -> dict[str, str]:
    """Return the versions of the scientific libraries this process has loaded."""
    distributions = {
        "sklearn": "scikit-learn",
        "numpy": "numpy",
        "pandas": "pandas",
        "pyarrow": "pyarrow",
        "scipy": "scipy",
        "xgboost": "xgboost-cpu",
        "lightgbm": "lightgbm",
        "catboost": "catboost",
        "torch": "torch",
        "skops": "skops",
        "openml": "openml",
        "matplotlib": "matplotlib",
    }
    return library_versions(d for module, d in distributions.items() if module in sys.modules)


@cache
def _module_file(name: str) -> Path | None:
    """Return the file of a module of this package, None for anything else."""
    parts = name.split(".")
    if parts[0] != PACKAGE_ROOT.name:
        return None
    base = PACKAGE_ROOT.joinpath(*parts[1:])
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if len(parts) > 1 and candidate.is_file():
            return candidate
    if len(parts) == 2 and parts[1] in LOADED_ON_USE:
        return _module_file(LOADED_ON_USE[parts[1]])
    return PACKAGE_ROOT / "__init__.py" if len(parts) == 1 else None


@cache
def _read(file: Path) -> tuple[frozenset[str], str]:
    """Return the package modules a file imports anywhere, and a hash blind to comments."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imports: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            imports.add(node.module)
            imports.update(f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            # docstrings, those of values in the middle of a body included
            node.body = [child for child in node.body if not _is_text(child)] or [ast.Pass()]
    imports |= {parent for name in imports for parent in _parents(name)}
    return frozenset(imports), hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _is_text(node: ast.stmt) -> bool:
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant and isinstance(node.value.value, str)


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts))]


def code_files(entry: Path, *, also: Iterable[str] = ()) -> list[Path]:
    """Return the entry file and every file of this package it can import, followed in full.

    Imports inside functions count; ``also`` adds modules that are named only at run time, such as
    the module of one model family. `NOT_HASHED` is left out.

    Raises:
        FileNotFoundError: the entry file does not exist.
    """
    left_out = {_module_file(name) for name in NOT_HASHED}
    todo = [Path(entry).resolve(), *(f for m in also if (f := _module_file(m)))]
    seen: dict[Path, None] = {}
    while todo:
        file = todo.pop()
        if file in seen or file in left_out:
            continue
        seen[file] = None
        imports, _ = _read(file)
        todo += [f for name in sorted(imports) if (f := _module_file(name))]
    return list(seen)


def code_hash(entry: Path, *, also: Iterable[str] = ()) -> str:
    """Return a hash of the code an entry runs; comments, docstrings and layout do not count."""
    parts = sorted(
        f"{file.name}:{_read(file)[1]}" for file in code_files(Path(entry), also=tuple(also))
    )
    return sha256_text("\n".join(parts))[:16]
