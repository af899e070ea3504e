"""Checking a run's configuration, and the protocol behind its presets."""

import copy
import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from cfc.config import check_config, load_schema, schema_problems
from cfc.data.registry import load_registry
from cfc.errors import ConfigError
from cfc.labels import LabelRule
from cfc.protocol import PRESETS, Protocol, get_preset
from cfc.stress import StressSettings

ROOT = Path(__file__).resolve().parents[2]
DEFINITIONS = ("config.yaml", "datasets.yaml", "models.yaml", "recourse.yaml")
OVERLAYS = sorted(p.name for p in (ROOT / "config").glob("*.yaml") if p.name not in DEFINITIONS)


def load(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def merged(base, overlay):
    """Merge as Snakemake does: maps deeply, everything else replaced."""
    result = dict(base)
    for key, value in overlay.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


@pytest.fixture(scope="module")
def schema():
    return load_schema(ROOT / "workflow/schemas")


@pytest.fixture(scope="module")
def shipped():
    config = {}
    for name in DEFINITIONS:
        config = merged(config, load(f"config/{name}"))
    return config


@pytest.fixture
def config(shipped):
    return copy.deepcopy(shipped)


def problems_of(config, schema):
    """Return the lines of the error, one a problem."""
    with pytest.raises(ConfigError) as caught:
        check_config(config, schema)
    head, *lines = str(caught.value).splitlines()
    assert f": {len([line for line in lines if line.startswith('  - ')])} problem" in head
    return lines


# ---- what is shipped


def test_the_shipped_configuration_is_valid(config, schema):
    check_config(config, schema)


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_shipped_overlay_is_valid(config, schema, name):
    check_config(merged(config, load(f"config/{name}")), schema)


def test_the_overlays_are_there():
    assert {"demo.yaml", "quick.yaml", "tiny.yaml"} <= set(OVERLAYS)


def test_every_shipped_data_set_is_well_declared(config):
    specs = load_registry(config["dataset_registry"])
    assert set(config["datasets"]) <= set(specs)


def test_a_check_changes_nothing(config, shipped, schema):
    check_config(config, schema)
    assert config == shipped


def test_the_schema_is_closed(schema):
    # an object that lists its keys refuses others, so that a typo cannot pass in silence
    def walk(node, place):
        if isinstance(node, dict):
            if "properties" in node and node.get("type") == "object":
                assert node.get("additionalProperties") is False, place
            for key, value in node.items():
                walk(value, f"{place}.{key}")

    walk(schema, "schema")


def test_presets_are_those_of_the_library(config):
    for name, values in config["presets"].items():
        assert Protocol.from_mapping(values, name) == get_preset(name), name
    assert set(config["presets"]) == set(PRESETS)


# ---- mistakes


def test_all_mistakes_are_listed_at_once_with_the_nearest_name(config, schema):
    config["datasets"] = ["adlt", "bank"]
    config["models"] = ["lr", "xgbost"]
    config["seeds"] = ["0", -1, 1.5]
    config["sedes"] = [0]
    config["audit"]["unifrom"] = 5
    config["stress"]["mask"]["drwas"] = 3
    del config["evaluate"]["budgets"]
    config["preset"] = "papr"
    config["split"]["train"] = 0.7
    text = "\n".join(problems_of(config, schema))
    for part in (
        "datasets: 'adlt' is not defined; nearest known: adult",
        "models: 'xgbost' is not defined; nearest known: xgboost",
        "seeds.0: '0' is not of type 'integer'",
        "seeds.1: -1 is less than the minimum of 0",
        "seeds.2: 1.5 is not of type 'integer'",
        "unknown key 'sedes'; nearest known: seeds",
        "audit: unknown key 'unifrom'; nearest known: uniform",
        "stress.mask: unknown key 'drwas'; nearest known: draws",
        "evaluate: 'budgets' is missing",
        "preset: 'papr' is not defined; nearest known: paper",
        "split: the shares add up to 1.1, not 1",
    ):
        assert part in text
    assert "additionalProperties" not in text


def test_several_unknown_and_missing_keys_of_one_place(config, schema):
    config["audit"] = {"unifrom": 1, "confidant": 2}
    text = "\n".join(problems_of(config, schema))
    for part in ("'unifrom'", "'confidant'", "'uniform' is missing", "'confident' is missing",
                 "'threshold' is missing"):  # fmt: skip
        assert text.count(part) == 1


@pytest.mark.parametrize("key", ["datasets", "models", "seeds"])
@pytest.mark.parametrize("value", [[], None, "adult", ["lr", "lr"], [None]])
def test_selections_must_be_lists_of_names(config, schema, key, value):
    config[key] = value
    assert any(key in line for line in problems_of(config, schema))


def test_a_seed_twice_is_refused(config, schema):
    config["seeds"] = [1, 1]
    assert any("seeds" in line for line in problems_of(config, schema))


def test_recourse_names_are_checked_with_the_nearest(config, schema):
    own = config["recourse"]
    own["methods"] = ["kdtre", "mine"]
    own["own_methods"] = {"mine": "a.py:A", "rbr": "b.py:B"}
    own["families"] = ["bootstrap", "prunde"]
    own["own_families"] = {"pruned": "c.py:C"}
    own["grids"] = {"wachtr": {}}
    assert problems_of(config, schema) == [
        "  - recourse.methods: 'kdtre' is not defined; nearest known: kdtree",
        "  - recourse.families: 'prunde' is not defined; nearest known: pruned",
        "  - recourse.grids: 'wachtr' is no method; nearest known: wachter",
        "  - recourse.own_methods: 'rbr' is the name of one that comes with the package",
    ]


def test_a_name_may_not_be_a_data_set_and_a_model(config, schema):
    config["dataset_registry"]["lr"] = config["dataset_registry"]["adult"]
    assert any("both a data set and a model" in line for line in problems_of(config, schema))


OWN_DATA = {
    "source": {"kind": "file", "path": "rows.csv"},
    "target": "y",
    "classes": ["no", "yes"],
    "fields": {"a": "numeric", "b": {"kind": "nominal", "unavailable": ["unknown"]}},
}


def test_entries_of_ones_own_need_no_title_and_no_gpu(config, schema, tmp_path):
    (tmp_path / "own.py").write_text("class Mine: pass")
    config["dataset_registry"]["mine"] = OWN_DATA
    config["model_registry"]["own"] = {"class": f"{tmp_path / 'own.py'}:Mine"}
    check_config(config, schema)


def test_mistakes_in_entries_are_said_before_any_job(config, schema, tmp_path):
    (tmp_path / "own.py").write_text("class Mine:\n    x =\n")
    config["dataset_registry"]["mine"] = {**OWN_DATA, "clases": ["no"], "fields": {"a": "numbr"}}
    config["dataset_registry"]["adult"]["domain_groups"]["work"].remove("occupation")
    config["model_registry"]["lr"]["parms"] = {}
    config["model_registry"] |= {
        "My-model": {"class": "json:Mine"},
        "broken": {"class": f"{tmp_path / 'own.py'}:Mine"},
        "absent": {"class": f"{tmp_path / 'wn.py'}:Mine"},
        "xgbost": {"params": {}},
    }
    text = "\n".join(problems_of(config, schema))
    for part in (
        "dataset_registry.mine: clases: unknown key; nearest known: classes",
        "dataset_registry.mine: fields.a: kind 'numbr' is unknown; nearest known: numeric",
        "dataset_registry.adult: domain_groups: in no group: occupation",
        "model_registry.lr: unknown key 'parms'; nearest known: params",
        "model_registry: the name 'My-model' does not match ^[a-z0-9_]+$",
        f"model_registry.broken.class: {tmp_path / 'own.py'}, line 2: invalid syntax",
        f"model_registry.absent.class: no file {tmp_path / 'wn.py'}; nearest known: own.py",
        "model_registry.xgbost: no family of that name; nearest known: xgboost",
    ):
        assert part in text, part


def test_protocol_mistakes_name_their_preset(config, schema):
    config["presets"]["mine"] = {"baseline": "avarage", "depth": 0, "severities": [0, 2]}
    config["presets"]["other"] = {"dpeth": 3}
    text = "\n".join(problems_of(config, schema))
    for part in ("presets.mine", "'avarage'", "depth: 0", "severities", "presets.other",
                 "'dpeth' is not a protocol setting; nearest known: depth"):  # fmt: skip
        assert part in text


def test_label_rules_must_look_at_what_is_run(config, schema):
    config["labels"]["rules"]["mine"] = {
        "kind": "any_draw",
        "draws": 60,
        "cells": {"mask": [0.15], "maks": [0.1], "swap": [0.2]},
    }
    config["stress"]["noise"]["draws"] = 2
    text = "\n".join(problems_of(config, schema))
    for part in (
        "labels.rules.mine: mask does not run at severity 0.15; it runs at 0.1, 0.2, 0.3",
        "labels.rules.mine: stress operator 'maks' is not run; nearest known: mask",
        "labels.rules.mine: looks at 60 draws of mask, but only 50 are made",
        "labels.rules.literal: looks at 3 draws of noise, but only 2 are made",
        "labels.rules.flip: looks at 5 draws of noise, but only 2 are made",
    ):
        assert part in text


def test_natural_labels_must_look_at_draws_that_are_made(config, schema):
    config["natural"] = {"draws": 2, "literal_draws": 3}
    with pytest.raises(ConfigError, match="looks at 3 draws, but only 2 are made"):
        check_config(config, schema)


def test_no_rule_may_look_below_the_audited_confidence(config, schema):
    # such cases are not stressed, so they would be labelled 0 without having been looked at
    config["labels"]["tau_p"] = 0.8
    assert problems_of(config, schema) == [
        "  - labels.tau_p: 0.8 is below audit.threshold 0.85; cases between the two would not be "
        "stressed and never be called brittle"
    ]
    config["audit"]["threshold"] = 0.8
    check_config(config, schema)


@pytest.mark.parametrize("wrong", [None, 0, 0.5, "text", True, [], ["x"], {}, {"x": "y"}, [[1]]])
def test_a_wrong_type_anywhere_is_a_message_not_a_crash(config, schema, wrong):
    # every place of the configuration takes its turn, the registries' insides excepted
    def places(node, path=()):
        yield path
        if isinstance(node, dict) and not {"dataset_registry", "model_registry"} & set(path):
            for key, value in node.items():
                yield from places(value, (*path, key))

    for path in places(config):
        spoilt = copy.deepcopy(config)
        node = spoilt
        for key in path[:-1]:
            node = node[key]
        if path:
            node[path[-1]] = wrong
        else:
            spoilt = wrong if isinstance(wrong, dict) else {}
        # any other exception fails the test
        with suppress(ConfigError):
            check_config(spoilt, schema)


def test_schema_problems_name_the_place():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
    }
    assert schema_problems({"a": [1, "x"]}, schema) == ["a.1: 'x' is not of type 'integer'"]
    assert schema_problems({"a": [1]}, schema) == []
    assert schema_problems(3, schema, "here") == ["here: 3 is not of type 'object'"]


# ---- protocols


def test_presets_are_those_of_the_specification():
    paper, audit, reference = (get_preset(n) for n in ("paper", "audit", "reference"))
    assert (paper.baseline, paper.depth, paper.order, paper.margin) == (
        "mean", 10, "static", "original",
    )  # fmt: skip
    assert paper.operators == ("top1", "top3", "all")
    assert paper.severities == (0.25, 0.5, 0.75, 1.0)
    assert paper.weights == pytest.approx((1 / 3,) * 3)
    assert (paper.clip, paper.clip_forest_votes) == (1e-12, False)
    assert (audit.baseline, audit.clip_forest_votes) == ("mean_off", True)
    assert (reference.operators, reference.margin, reference.depth) == (("top1",), "unsigned", 10)
    with pytest.raises(ConfigError, match="'adit' is unknown; nearest known: audit"):
        get_preset("adit")


def test_a_protocol_reports_every_mistake():
    with pytest.raises(ConfigError) as caught:
        Protocol(
            baseline="avg",
            depth=2.5,
            order="random",
            operators=("top1", "top1", "top9"),
            severities=(0.5, 0.25, 0.0),
            weights=(0.5, 0.6, 0.1),
            clip=0.5,
            margin="both",
        )
    text = str(caught.value)
    for part in ("baseline", "depth", "order", "'top9'", "each once", "severities", "weights",
                 "clip", "margin"):  # fmt: skip
        assert part in text


@pytest.mark.parametrize("severities", [(0.0, 1.0), (), (0.5, 0.5), (1.5,), (-0.5,), (1.0, 0.5)])
def test_severity_zero_repeats_and_disorder_are_illegal(severities):
    with pytest.raises(ConfigError, match="severities"):
        Protocol(severities=severities)


@pytest.mark.parametrize("weights", [(0, 0, 0), (1.5, -0.5, 0), (1, 0), (0.5, 0.5, 0.5)])
def test_weights_that_are_no_mixture_are_illegal(weights):
    with pytest.raises(ConfigError, match=r"weights: .* must be three non-negative numbers with"):
        Protocol(weights=weights)


@pytest.mark.parametrize("baseline", ["missing", "given"])
def test_a_preset_of_the_workflow_takes_no_baseline_of_ones_own_data(config, schema, baseline):
    config["presets"]["paper"]["baseline"] = baseline
    with pytest.raises(ConfigError, match=rf"presets.paper.baseline: '{baseline}' is for one's"):
        check_config(config, schema)


def test_hash_names_every_setting_but_the_preset():
    base = Protocol()
    assert re.fullmatch("[0-9a-f]{16}", base.hash)
    assert Protocol(preset="mine").hash == base.hash
    others = [
        {"baseline": "zero"}, {"depth": 5}, {"order": "greedy"}, {"operators": ("top1",)},
        {"severities": (1.0,)}, {"weights": (1, 0, 0)}, {"clip": 1e-6},
        {"clip_forest_votes": True}, {"margin": "unsigned"}, {"seed": 1},
    ]  # fmt: skip
    hashes = {Protocol(**other).hash for other in others}
    assert len(hashes | {base.hash}) == len(others) + 1


def test_equal_protocols_have_equal_hashes():
    a = Protocol(severities=(0.5, 1), weights=(1, 0, 0))
    b = Protocol.from_mapping({"weights": [1.0, 0.0, 0.0], "severities": [0.5, 1.0]})
    assert a.severities == b.severities
    assert a.hash == b.hash


def test_a_protocol_survives_json():
    protocol = Protocol(operators=("prefix",), clip=1e-9, preset="mine")
    assert Protocol.from_mapping(json.loads(json.dumps(protocol.to_dict()))) == protocol


def test_clip_of_a_forest():
    assert get_preset("audit").clip_for(250) == 1 / 500
    assert get_preset("audit").clip_for(None) == 1e-12
    assert get_preset("paper").clip_for(250) == 1e-12


def test_sections_build_what_the_stages_use(config):
    settings = StressSettings.from_mapping(config["stress"])
    # 9 cells of 50 draws and 3 of 100
    assert settings.rows_per_case == 9 * 50 + 3 * 100
    for name, values in config["labels"]["rules"].items():
        assert LabelRule.from_mapping(name, values).kind in ("any_draw", "mean")
