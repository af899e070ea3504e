import copy
import json

import pytest
import yaml

from cfc.artifacts import canonical_json
from cfc.data.registry import (
    _ENTRY_KEYS,
    _FIELD_KEYS,
    _SOURCE_KEYS,
    DatasetSpec,
    load_registry,
    portable_entry,
)
from cfc.errors import ConfigError

ENTRY = {
    "title": "Small",
    "source": {"kind": "openml", "id": 5, "version": None},
    "target": "class",
    "classes": ["a", "b"],
    "fields": {
        "x": "numeric",
        "score": {"kind": "numeric", "markers": [-9, -8]},
        "job": {"kind": "nominal", "unavailable": ["unknown"]},
        "soil": "nominal",
    },
    "indicator_families": {"soil": {"prefix": "soil_", "count": 3}},
    "domain_groups": {"one": ["x", "score"], "two": ["job", "soil"]},
}


@pytest.fixture
def entry():
    return copy.deepcopy(ENTRY)


@pytest.fixture(scope="module")
def shipped(repository):
    return yaml.safe_load((repository / "config" / "datasets.yaml").read_text(encoding="utf-8"))


def problems(entry, key="small"):
    with pytest.raises(ConfigError) as caught:
        DatasetSpec.from_mapping(key, entry)
    return str(caught.value)


def test_entry_becomes_a_spec(entry):
    spec = DatasetSpec.from_mapping("small", entry)
    assert spec.field_names == ("x", "score", "job", "soil")
    assert spec.numeric == ("x", "score")
    assert spec.nominal == ("job", "soil")
    assert spec.field_named("score").markers == (-9.0, -8.0)
    assert spec.field_named("job").unavailable == ("unknown",)
    assert spec.indicator_families[0].columns == ("soil_1", "soil_2", "soil_3")
    assert spec.indicator_families[0].levels == ("1", "2", "3")
    assert spec.stems == ("small",)
    assert spec.grouping == "raw_origin"
    assert spec.source.label == "OpenML id 5"
    with pytest.raises(ConfigError, match="nearest known: score"):
        spec.field_named("scor")
    with pytest.raises(AttributeError):
        spec.rows = 3


def test_listed_indicator_columns_take_levels_from_what_differs(entry):
    entry["indicator_families"]["soil"] = {"columns": ["soil=clay", "soil=sand"]}
    family = DatasetSpec.from_mapping("small", entry).indicator_families[0]
    assert family.levels == ("clay", "sand")


def test_all_problems_are_listed_at_once(entry):
    entry["titel"] = "x"
    entry["grouping"] = "domian"
    entry["fields"]["y"] = "numerc"
    entry["classes"] = ["a"]
    entry["source"] = {"kind": "openmll"}
    message = problems(entry)
    for part in (
        "dataset_registry.small: 6 problems",
        "titel: unknown key; nearest known: title",
        "nearest known: domain",
        "'numerc' is unknown; nearest known: numeric",
        "at least two class labels",
        "'openmll' is not one of openml, sklearn, file",
        "in no group: y",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"target": "x"}, "target: 'x' is also listed in fields"),
        ({"classes": ["a", "a"]}, "classes: 'a' is listed twice"),
        ({"classes": ["no", False]}, r"classes.1: expected a text, got False (put it in quotes)"),
        ({"rows": 0}, "rows: expected at least 1"),
        ({"rows": "9"}, "rows: expected a whole number or null"),
        ({"class_counts": {"a": 1, "c": 2}}, "class_counts.c: not one of the classes"),
        ({"class_counts": {"a": 1}}, "class_counts: no count for b"),
        ({"rows": 4, "class_counts": {"a": 1, "b": 2}}, "add up to 3, but rows is 4"),
        ({"source": {"kind": "openml"}}, "source.id: a source of kind openml needs"),
        ({"source": {"kind": "sklearn"}}, "source.name: a source of kind sklearn needs a text"),
        ({"source": {"kind": "file"}}, "source.path: a source of kind file needs a text"),
        ({"source": {"kind": "file", "path": "a.csv", "url": "x"}}, "source.url: unknown key"),
        ({"rename": {"V1": "xx"}}, "rename.V1: 'xx' is no field; nearest known: x"),
        ({"rename": {"V1": "x", "V2": "x"}}, "rename: two columns become 'x'"),
        ({"recode": {"x": {"1": "a"}}}, "recode.x: neither the target nor a nominal field"),
        ({"recode": {"job": {"1": 2}}}, "recode.job: expected texts to texts"),
        ({"drop": ["job"]}, "drop: 'job' is a field or the target"),
        ({"domain_groups": {"a": ["x", "x"]}}, "domain_groups.a: 'x' is listed twice"),
        ({"domain_groups": {"a": ["x", "soul"]}}, "no field 'soul'; nearest known: soil"),
        (
            {"domain_groups": {"a": ["x", "job"], "b": ["job", "score", "soil"]}},
            "domain_groups.b: 'job' is already in a",
        ),
        ({"domain_groups": {"a": []}}, "domain_groups.a: an empty group"),
        ({"domain_groups": {}, "grouping": "domain"}, "grouping: domain needs domain_groups"),
        ({"unavailable_codes": {"job": [1]}}, "unavailable_codes.job: not a numeric field"),
        ({"indicator_families": {"x": {"prefix": "x", "count": 2}}}, "must be nominal"),
        ({"indicator_families": {"soil": {"prefix": "s"}}}, "prefix (text) and count"),
        ({"indicator_families": {"soil": {"columns": ["x", "s2"]}}}, "column 'x' is used twice"),
        ({"fields": {}}, "fields: at least one field"),
        ({"fields": {"x": {"kind": "nominal", "markers": [1]}}}, "markers belong to numeric"),
        ({"fields": {"x": {"kind": "numeric", "unavailable": ["u"]}}}, "belongs to nominal"),
        ({"fields": {"x": {"kind": "numeric", "markers": ["a"]}}}, "expected a number, got 'a'"),
        ({"fields": {"x": {"kind": "numeric", "markers": [1, 1.0]}}}, "1 is listed twice"),
        ({"fields": {1: "numeric"}}, "a field name must be a text"),
        ({"fields": ["x"]}, "fields: expected a mapping, got list"),
        ({"title": ""}, "title: expected a text"),
        ({"classes": "ab"}, "classes: expected a list, got 'ab'"),
    ],
)
def test_bad_entry_is_named(entry, change, part):
    assert part in problems({**entry, **change})


def test_missing_keys_and_other_types_than_a_mapping():
    message = problems({})
    for key in ("source", "target", "classes", "fields"):
        assert f"{key}: missing" in message
    assert "expected a mapping" in problems(["title"])
    assert "lower-case letters" in problems(ENTRY, key="Small-1")


def test_shipped_registry_is_valid(shipped):
    registry = load_registry(shipped["dataset_registry"])
    ids = {k: s.source.id for k, s in registry.items() if s.source.kind == "openml"}
    assert ids == {
        "adult": 1590,
        "bank": 1461,
        "credit_g": 31,
        "default": 42477,
        "electricity": 151,
        "heloc": 46932,
        "covertype": 1596,
        "diabetes": 37,
        "wine_quality": 287,
    }
    widths = {k: len(s.fields) for k, s in registry.items()}
    assert widths == {
        "adult": 14,
        "bank": 16,
        "credit_g": 20,
        "default": 23,
        "electricity": 8,
        "heloc": 23,
        "covertype": 12,
        "breast_cancer": 30,
        "digits": 64,
        "diabetes": 8,
        "wine_quality": 11,
    }
    for spec in registry.values():
        members = [name for group in spec.domain_groups.values() for name in group]
        assert sorted(members) == sorted(spec.field_names)
        assert sum(spec.class_counts.values()) == spec.rows
        assert spec.note
    assert len(registry["digits"].domain_groups) == 16
    assert registry["digits"].domain_groups["block_r1_c3"] == (
        "pixel_2_6",
        "pixel_2_7",
        "pixel_3_6",
        "pixel_3_7",
    )
    assert registry["breast_cancer"].domain_groups["radius"] == (
        "mean radius",
        "radius error",
        "worst radius",
    )
    assert all(f.markers == (-7.0, -8.0, -9.0) for f in registry["heloc"].fields)
    assert registry["bank"].field_named("pdays").markers == (-1.0,)


def test_column_order_survives_canonical_json(shipped):
    for key, entry in shipped["dataset_registry"].items():
        spec = DatasetSpec.from_mapping(key, entry)
        again = DatasetSpec.from_mapping(key, json.loads(canonical_json(portable_entry(entry))))
        assert again == spec
        assert list(again.domain_groups) == list(spec.domain_groups)
        assert again.field_names == tuple(entry["fields"])


def test_schema_accepts_the_shipped_registry_and_refuses_typos(shipped, repository):
    jsonschema = pytest.importorskip("jsonschema")
    path = repository / "workflow" / "schemas" / "datasets.schema.yaml"
    schema = yaml.safe_load(path.read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    assert list(validator.iter_errors(shipped)) == []
    for change in (
        {"titel": "x"},
        {"source": {"kind": "openml", "identifier": 4}},
        {"fields": {"x": {"kind": "numeric", "marker": [1]}}},
        {"fields": {"x": {"kind": "nominal", "markers": [1]}}},
        {"grouping": "domian"},
        {"classes": ["no", False]},
    ):
        entry = {**ENTRY, **change}
        assert list(validator.iter_errors({"dataset_registry": {"small": entry}}))
    assert list(validator.iter_errors({"dataset_registry": {"Small": ENTRY}}))
    # The form and the reader know the same keys.
    forms = schema["$defs"]
    assert set(forms["entry"]["properties"]) == set(_ENTRY_KEYS)
    assert set(forms["source"]["properties"]) == set(_SOURCE_KEYS)
    options = [form.get("properties", {}) for form in forms["field"]["anyOf"]]
    assert {key for form in options for key in form} == set(_FIELD_KEYS)


def test_every_key_is_explained_at_the_head(repository):
    text = (repository / "config" / "datasets.yaml").read_text(encoding="utf-8")
    head = text[: text.index("dataset_registry:")]
    for key in (*_ENTRY_KEYS, *_FIELD_KEYS):
        assert key in head, key
