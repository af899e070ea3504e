"""Every public name explains itself with an example, and the example works as printed."""

import ast
import doctest
import inspect
from importlib import import_module
from itertools import pairwise

import pytest

import cfc
from cfc.operators import DEGRADATIONS, STRESSES

FLAGS = doctest.ELLIPSIS


def documentation(name: str) -> str:
    """Return the docstring of a public name: a string after the assignment, for a value."""
    module = import_module(cfc.LOADED_ON_USE[name])
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__doc__ or ""
    body = ast.parse(inspect.getsource(module)).body
    for node, after in pairwise(body):
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        is_it = any(isinstance(t, ast.Name) and t.id == name for t in targets)
        if is_it and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return str(after.value.value)
    return ""


@pytest.fixture
def registries(monkeypatch):
    """Examples may register operators; the other tests do not see them."""
    for registry in (DEGRADATIONS, STRESSES):
        for name in list(registry):
            monkeypatch.delitem(registry, name)
    yield
    for registry in (DEGRADATIONS, STRESSES):
        registry.clear()


@pytest.mark.parametrize("name", cfc.LOADED_ON_USE)
def test_the_example_of_a_public_name_works(name, registries, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example may write files
    module = import_module(cfc.LOADED_ON_USE[name])
    test = doctest.DocTestParser().get_doctest(
        documentation(name), dict(vars(module)), f"cfc.{name}", inspect.getsourcefile(module), None
    )
    assert test.examples, f"cfc.{name} has no example"
    said = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
    assert not said, "".join(said)
