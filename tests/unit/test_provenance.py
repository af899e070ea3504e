"""What a result depends on: code followed through imports, configuration, versions."""

import platform
import re
from importlib.metadata import version

import numpy as np
import pytest

from cfc import provenance


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package of modules in the place of the library, and a way to write into it."""
    root = tmp_path / "cfc"

    def write(**files):
        for name, text in files.items():
            file = root / (name.replace("__", "/") + ".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        provenance._read.cache_clear()
        provenance._module_file.cache_clear()

    monkeypatch.setattr(provenance, "PACKAGE_ROOT", root)
    write(
        _init="",
        a='"""A."""\nfrom cfc.b import f\n\n\ndef g(x):\n    """G."""\n    return f(x)  # call\n',
        b="def f(x):\n    from cfc import c\n    return c.h(x)\n",
        c="import cfc.sub.d as d\n\n\ndef h(x):\n    return d.VALUE\n",
        sub__d="VALUE = 1\n",
        alone="VALUE = 2\n",
        named="VALUE = 3\n",
    )
    (root / "_init.py").rename(root / "__init__.py")
    (root / "sub" / "__init__.py").write_text("")
    entry = tmp_path / "entry.py"
    entry.write_text("def main():\n    import cfc.a\n    return cfc.a.g(1)\n")
    yield entry, write
    provenance._read.cache_clear()
    provenance._module_file.cache_clear()


def names(files):
    return sorted(f.name for f in files if f.name != "__init__.py")


def test_imports_inside_functions_are_followed(package):
    entry, _ = package
    assert names(provenance.code_files(entry)) == ["a.py", "b.py", "c.py", "d.py", "entry.py"]


def test_packages_on_the_way_count_but_for_the_one_that_holds_the_version(package):
    entry, _ = package
    found = [f.parent.name for f in provenance.code_files(entry) if f.name == "__init__.py"]
    assert found == ["sub"]


def test_modules_named_at_run_time_can_be_added(package):
    entry, _ = package
    assert "named.py" in names(provenance.code_files(entry, also=["cfc.named"]))
    assert provenance.code_hash(entry, also=["cfc.named"]) != provenance.code_hash(entry)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("sub__d", "VALUE = 10\n"),
        ("b", "def f(x):\n    from cfc import c\n    return -c.h(x)\n"),
        ("a", "from cfc.b import f\n\n\ndef g(x, y=0):\n    return f(x)\n"),
    ],
)
def test_a_change_of_code_changes_the_hash(package, module, text):
    entry, write = package
    before = provenance.code_hash(entry)
    assert re.fullmatch("[0-9a-f]{16}", before)
    write(**{module: text})
    assert provenance.code_hash(entry) != before


def test_a_change_of_the_entry_changes_the_hash(package):
    entry, write = package
    before = provenance.code_hash(entry)
    entry.write_text(entry.read_text().replace("g(1)", "g(2)"))
    write()
    assert provenance.code_hash(entry) != before


@pytest.mark.parametrize(
    "text",
    [
        "from cfc.b import f\ndef g(x): return f(x)\n",
        '"""B."""\n# a remark\nfrom cfc.b import f\n\n\ndef g(x):\n    return f(\n        x\n    )',
        'from cfc.b import f\n"""About f."""\n\n\ndef g(x):\n    return f(x)\n',
    ],
)
def test_comments_docstrings_and_layout_do_not(package, text):
    entry, write = package
    before = provenance.code_hash(entry)
    write(a=text)
    assert provenance.code_hash(entry) == before


def test_code_that_is_not_used_does_not_count(package):
    entry, write = package
    before = provenance.code_hash(entry)
    write(alone="VALUE = 20\n")
    assert provenance.code_hash(entry) == before


def test_the_folder_does_not_count(package, tmp_path):
    entry, _ = package
    other = tmp_path / "elsewhere" / "entry.py"
    other.parent.mkdir()
    other.write_text(entry.read_text())
    assert provenance.code_hash(other) == provenance.code_hash(entry)


def test_circular_imports_end(package):
    entry, write = package
    write(c="import cfc.a\n\n\ndef h(x):\n    return cfc.a\n")
    assert names(provenance.code_files(entry)) == ["a.py", "b.py", "c.py", "entry.py"]


def test_an_entry_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        provenance.code_hash(tmp_path / "gone.py")


def test_names_the_package_loads_on_first_use_are_followed(tmp_path):
    entry = tmp_path / "entry.py"
    entry.write_text("from cfc import certify, stress_cases\n")
    assert {"certificate.py", "stress.py", "scores.py"} <= set(names(provenance.code_files(entry)))


@pytest.mark.parametrize(
    ("script", "modules"),
    [
        ("certify_cases.py", {"certificate.py", "scores.py", "seeding.py", "groups.py"}),
        ("stress_cases.py", {"stress.py", "scores.py", "seeding.py", "groups.py"}),
        ("label_cases.py", {"labels.py"}),
        ("rank_cases.py", {"ranking.py", "scores.py"}),
        ("split_rows.py", {"splits.py", "seeding.py"}),
        ("prepare_data.py", {"preprocess.py", "baselines.py", "groups.py"}),
    ],
)
def test_scripts_depend_on_what_they_run(repository, script, modules):
    assert modules <= set(names(provenance.code_files(repository / "scripts" / script)))


@pytest.mark.parametrize("script", ["label_cases.py", "rank_cases.py"])
def test_labels_and_ranks_do_not_depend_on_how_stress_is_made(repository, script):
    found = names(provenance.code_files(repository / "scripts" / script))
    assert not {"preprocess.py", "certificate.py"} & set(found)


def test_configuration_hash_is_blind_to_order_and_spelling():
    a = provenance.config_hash({"a": 1, "b": [1.0, 0.5]})
    assert re.fullmatch("[0-9a-f]{16}", a)
    assert provenance.config_hash({"b": [1, 5e-1], "a": 1.0}) == a
    assert provenance.config_hash({"b": [0.5, 1], "a": 1}) != a
    assert provenance.config_hash({"a": "1", "b": [1, 0.5]}) != a


def test_versions():
    found = provenance.library_versions(["numpy", "no-such-distribution", "pyarrow"])
    assert found == {
        "numpy": version("numpy"), "pyarrow": version("pyarrow"),
        "python": platform.python_version(),
    }  # fmt: skip
    assert list(found) == sorted(found)
    assert provenance.loaded_versions()["numpy"] == np.__version__
