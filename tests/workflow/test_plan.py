"""What the workflow plans: shipped configurations, targets, re-runs, answers to mistakes."""

import subprocess
import sys

import pytest
import yaml

pytestmark = pytest.mark.workflow


def overlay(folder, values) -> str:
    path = folder / "overlay.yaml"
    path.write_text(yaml.safe_dump(values))
    return str(path)


def test_lint_is_clean(repository):
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--lint"],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("overlays", "units"),
    [((), 7 * 9 * 3), (("config/quick.yaml",), 9), (("config/demo.yaml",), 18)],
    ids=["paper", "quick", "demo"],
)
def test_every_shipped_configuration_plans_its_units(workflow, overlays, units):
    jobs = workflow.plan(overlays=overlays)
    assert jobs["evaluate_unit"] == units
    assert jobs["train_model"] + jobs.get("train_model_gpu", 0) == units
    assert jobs["certify_cases"] == jobs["stress_cases"] == jobs["label_cases"] == units


def test_gpu_families_have_their_own_rule(workflow):
    assert workflow.plan(overlays=())["train_model_gpu"] == 7 * 3 * 3
    outcome = workflow("-n", "breast_cancer_mlp")
    assert "gpu=1" in outcome.text


@pytest.mark.parametrize("profile", ["default", "slurm"])
def test_profiles_parse_and_plan(workflow, repository, profile):
    values = yaml.safe_load((repository / f"profiles/{profile}/profile.yaml").read_text())
    assert values["rerun-triggers"] == ["mtime", "params", "input", "software-env"]
    cores = 2 if profile == "default" else None
    outcome = workflow("-n", profile=profile, cores=cores)
    assert outcome.code == 0, outcome.text
    if profile == "slurm":
        assert "gpu=1" in outcome.text
        assert "slurm_partition=gpu" in outcome.text
        assert "slurm_partition=main" in outcome.text


@pytest.mark.parametrize(
    ("target", "rule", "count"),
    [
        ("breast_cancer_lr", "evaluate_unit", 1),
        ("breast_cancer", "evaluate_unit", 2),
        ("lr", "evaluate_unit", 1),
        ("credit_g_xgboost", "train_model", 1),  # registered, though not selected in this run
        ("preprocess", "prepare_data", 1),
        ("stress", "stress_cases", 2),
        ("results/tiny/rank/breast_cancer/lr/seed0.parquet", "rank_cases", 1),
        ("results/tiny/rank/breast_cancer/lr/seed7.parquet", "split_rows", 1),
    ],
)
def test_names_and_files_are_targets(workflow, target, rule, count):
    assert workflow.plan(target)[rule] == count


@pytest.mark.parametrize(
    ("target", "nearest"),
    [("adlt", "adult"), ("xgbost", "xgboost"), ("adult/xgboost", "adult_xgboost")],
)
def test_an_unknown_target_is_answered_with_the_nearest(workflow, target, nearest):
    outcome = workflow("-n", target)
    assert outcome.code != 0
    assert f"unknown target '{target}'; nearest known: {nearest}" in outcome.text


def test_every_configuration_problem_is_said_at_once(workflow, tmp_path):
    wrong = overlay(
        tmp_path,
        {
            "datasets": ["adlt"],
            "models": ["xgbost"],
            "seeds": [-1],
            "seads": [0],
            "preset": "papr",
            "presets": {"paper": {"baseline": "mena"}},
            "labels": {"rules": {"flip": {"draws": 500}}},
        },
    )
    outcome = workflow("-n", overlays=("config/tiny.yaml", wrong))
    assert outcome.code != 0
    for words in (
        "'adlt' is not defined; nearest known: adult",
        "'xgbost' is not defined; nearest known: xgboost",
        "unknown key 'seads'; nearest known: seeds",
        "'papr' is not defined; nearest known: paper",
        "baseline: 'mena' is unknown",
        "looks at 500 draws of mask",
        "seeds.0: -1 is less than the minimum of 0",
    ):
        assert words in outcome.text, words


def test_a_missing_local_file_is_named(workflow, tmp_path):
    (tmp_path / "here").mkdir()
    outcome = workflow("acquire", "--config", f"data_dir={tmp_path / 'here'}", overlays=())
    assert outcome.code != 0
    assert "credit-g" in outcome.text


def each(*names, count=1, prefix=""):
    return {prefix + name: count for name in names}


# rules that ask the model about audited cases, and those that only read what these wrote
ASK = ("certify_cases", "certify_valid", "stress_cases", "attribute_cases", "expose_cases")
ASK += ("natural_cases", "search_cases", "transfer_cases", "vary_certificates")
READ = ("label_cases", "rank_cases", "calibrate_unit")
MEASURE = ("evaluate_unit", "evaluate_attribution", "measure_dependence", "study_unit")
OUTSIDE = ("evaluate_natural", "evaluate_transfer")  # labels of their own, not of the main stress
# tables that hold no brittle label of the main stress
UNLABELLED = each("search_gap", "calibration", prefix="table_")
UNLABELLED |= each("calibration_curve", prefix="figure_")
OWN_LABELS = each("natural", "transfer", prefix="table_")
LABELLED = each(
    *("predictive", "brittle_auroc", "brittle_aggregate", "cost", "nominal_vs_stable"),
    *("seed_variance", "budget", "capture_curve", "case_degradation", "dependence", "runtime"),
    *("paper_vs_ours", "ablation", "stability", "baseline_sensitivity", "grouping_sensitivity"),
    *("thresholds", "label_reliability", "attribution", "exposure"),
    prefix="table_",
) | each(
    *("brittle_ranking", "capture_curve", "case_degradation", "mitigation", "paper_vs_ours"),
    *("threshold_sensitivity", "natural_and_structure"),
    prefix="figure_",
)
LABELLED |= each("build_page", "write_verdict", "all")
TABLES = {**LABELLED, **OWN_LABELS, **UNLABELLED}


def audit(count):
    return {**each(*ASK, *READ, *MEASURE, *OUTSIDE, count=count), **TABLES}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {}),
        (
            {"labels": {"tau_kappa": 0.4}},
            {
                **each("label_cases", *MEASURE, *OUTSIDE, count=2),
                **LABELLED,
                **OWN_LABELS,
            },
        ),
        ({"presets": {"paper": {"depth": 5}}}, audit(2)),
        ({"presets": {"audit": {"depth": 5}}}, {}),  # a preset that is not in use
        (
            {"stress": {"swap": {"draws": 6}}},
            {**each("stress_cases", "label_cases", *MEASURE, count=2), **LABELLED},
        ),
        ({"evaluate": {"min_positive": 4}}, {**each(*MEASURE, *OUTSIDE, count=2), **TABLES}),
        (
            {"seeds": [0, 1]},
            {**each("split_rows", "prepare_data", "train_model", "train_model_gpu"), **audit(2)},
        ),
        (
            {"model_registry": {"lr": {"params": {"C": 0.5}}}},
            {"train_model": 1, **audit(1)},
        ),
        ({"preset": "audit"}, audit(2)),  # data and models are shared between presets
    ],
    ids=[
        "nothing",
        "label rule",
        "protocol",
        "other preset",
        "draws",
        "evaluation",
        "new seed",
        "one model",
        "second preset",
    ],
)
def test_an_edit_reruns_exactly_what_depends_on_it(finished, tmp_path, change, expected):
    jobs = finished.plan(overlays=("config/tiny.yaml", overlay(tmp_path, change)))
    assert jobs == expected
