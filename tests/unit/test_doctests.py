"""Every public name has an example that works as printed, and a place in the reference."""

import ast
import doctest
import html
import inspect
import re
import subprocess
import sys
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


# ---- the reference


@pytest.fixture(scope="module")
def page(repository, tmp_path_factory) -> str:
    """The page of the package, as HTML."""
    site = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, repository / "tools/build_reference.py", site],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    for other in ("index.html", "cfc/models.html", "cfc/errors.html"):
        assert (site / other).is_file()
    return (site / "cfc.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", cfc.LOADED_ON_USE)
def test_every_public_name_is_there_with_its_example(page, name):
    section = page.partition(f'<section id="{name}">')[2].partition("</section>")[0]
    said = section.partition('<div class="docstring">')[2]  # after the source, which holds it too
    text = html.unescape(re.sub(r"<[^>]+>", "", said))
    assert documentation(name).split("\n")[0].split("``")[0].strip() in text
    for example in doctest.DocTestParser().get_examples(documentation(name)):
        for line in example.source.splitlines():
            assert line in text
