"""The workflow really run: outputs, a second run, killing and resuming, locks, full logs."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
import yaml

pytestmark = pytest.mark.workflow
TIMED = ("cost", "runtime", ".timings.json", "benchmarks", "logs")


def contents(folder) -> dict[str, str]:
    """Return the hash of every result that does not depend on the clock."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / "results").rglob("*"))
        if path.is_file()
        and not any(word in str(path) for word in TIMED)
        and not any(part.startswith(".") for part in path.parts)  # left by a killed job
    }


def test_a_second_run_does_nothing(finished):
    outcome = finished()
    assert outcome.code == 0
    assert "Nothing to be done" in outcome.text


def test_outputs_are_there_and_describe_themselves(finished):
    run = finished.folder / "results/tiny"
    for table in ("predictive", "brittle_auroc", "brittle_aggregate", "cost", "budget"):
        for kind in ("parquet", "csv", "md", "html"):
            assert (run / f"tables/{table}.{kind}").stat().st_size > 0
    for figure in ("brittle_ranking", "capture_curve", "case_degradation"):
        assert (run / f"figures/{figure}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert "<svg" in (run / f"figures/{figure}.svg").read_text()[:2000]
    file = run / "certify/breast_cancer/lr/seed0.parquet"
    facts = json.loads(pq.read_schema(file).metadata[b"cfc"])
    for key in (
        "schema_version",
        "config_hash",
        "code_hash",
        "protocol",
        "protocol_hash",
        "inputs",
        "versions",
        "groups",
        "classes",
        "baseline",
    ):
        assert key in facts, key
    assert facts["groups"]["grouping"] == "domain"
    assert len(facts["groups"]["names"]) == 10


def test_each_job_has_a_log_with_versions_seed_and_settings(finished):
    logs = finished.folder / "results/tiny/logs"
    log = (logs / "train_model_gpu/breast_cancer/mlp/seed0.log").read_text()
    for words in ('"seed":0', '"max_epochs":3', '"torch"', "epoch 3", "finished in"):
        assert words in log, words


def test_a_failed_job_leaves_its_traceback_in_the_log_and_keeps_the_rest(workflow, tmp_path):
    (tmp_path / "broken.yaml").write_text(
        yaml.safe_dump({"model_registry": {"mlp": {"params": {"max_epoch": 3}}}})
    )
    outcome = workflow("evaluate", overlays=("config/tiny.yaml", tmp_path / "broken.yaml"))
    assert outcome.code != 0
    assert "unknown parameter 'max_epoch'; nearest known: max_epochs" in outcome.text
    log = tmp_path / "results/tiny/logs/train_model_gpu/breast_cancer/mlp/seed0.log"
    assert "Traceback" in log.read_text()
    assert (tmp_path / "results/tiny/evaluate/breast_cancer/lr/seed0.parquet").is_file()
    assert not list((tmp_path / "results/tiny/train/breast_cancer/mlp").glob("*"))


def start(workflow, *arguments):
    return subprocess.Popen(
        [*workflow.command(*arguments), "--cores", "2"],
        cwd=workflow.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def wait_for(condition, process, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline, "the stage was not reached in time"
        time.sleep(0.02)


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of the finished run that may be changed."""
    shutil.copytree(finished.folder, tmp_path / "copy")
    return type(finished)(tmp_path / "copy")


def test_killed_in_every_stage_and_resumed_gives_the_same_bytes(finished, workflow):
    """One run, killed once in each stage and started again: nothing finished is lost."""
    results = workflow.folder / "results/tiny"
    split = results / "split/breast_cancer/seed0.parquet"
    written = None
    for folder in (
        "acquire_data",
        "split_rows",
        "prepare_data",
        "train_model_gpu",
        "certify_cases",
        "stress_cases",
        "label_cases",
        "expose_cases",
        "attribute_cases",
        "transfer_cases",
        "search_cases",
        "vary_certificates",
        "study_unit",
        "natural_cases",
        "certify_valid",
        "calibrate_unit",
        "evaluate_unit",
        "build_table",
        "draw_figure",
    ):
        process = start(workflow)
        try:
            wait_for(lambda f=folder: any((results / "logs" / f).rglob("*.log")), process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for file in results.rglob("*.parquet"):
            if not any(part.startswith(".") for part in file.parts):
                pq.read_table(file)  # what is there under its own name is whole
        assert workflow("--unlock").code == 0
        if folder == "prepare_data":
            written = split.stat().st_mtime_ns
    outcome = workflow()
    assert outcome.code == 0, outcome.text
    assert split.stat().st_mtime_ns == written  # finished before the kills, never made again
    assert contents(workflow.folder) == contents(finished.folder)


@pytest.mark.parametrize("rule", ["prepare_data", "certify_cases", "label_cases"])
def test_killed_while_making_results_anew_leaves_nothing_stale(finished, copied, rule):
    logs = copied.folder / "results/tiny/logs" / rule
    shutil.rmtree(logs)
    process = start(copied, "--forcerun", rule)
    try:
        wait_for(lambda: any(logs.rglob("*.log")), process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert copied("--unlock").code == 0
    outcome = copied()
    assert outcome.code == 0, outcome.text
    assert contents(copied.folder) == contents(finished.folder)


def test_the_audit_preset_runs_beside_the_paper_preset_on_the_same_model(copied):
    run = copied.folder / "results/tiny"
    trained = run / "train/breast_cancer/lr/seed0.parquet"
    before = trained.stat().st_mtime_ns
    outcome = copied("breast_cancer_lr", "--config", "preset=audit")
    assert outcome.code == 0, outcome.text
    assert trained.stat().st_mtime_ns == before
    unit = "certify/breast_cancer/lr/seed0.parquet"
    facts = json.loads(pq.read_schema(run / "audit" / unit).metadata[b"cfc"])
    assert facts["protocol"]["preset"] == "audit"
    assert facts["protocol"]["baseline"] == "mean_off"
    assert facts["clip"] == 1e-12  # half a vote is for forests only
    assert json.loads(pq.read_schema(run / unit).metadata[b"cfc"])["protocol"]["preset"] == "paper"


def test_a_partial_run_says_what_is_missing_and_computes_no_unit(copied):
    more = ("--config", "seeds=[0,7]", "partial=true")
    planned = copied.plan(*more)
    units = "train certify stress label rank evaluate attribute expose search vary natural transfer"
    assert not [rule for rule in planned if rule.split("_")[0] in units.split()]
    outcome = copied("tables", "page", "verdict", *more)
    assert outcome.code == 0, outcome.text
    run = copied.folder / "results/tiny"
    said = "2 of 4 expected units have no evaluate file: all of seed 7."
    assert said in (run / "tables/predictive.md").read_text()
    assert "**2 units are missing.**" in (run / "verdict.md").read_text()


def test_a_partial_run_without_any_unit_is_refused(workflow):
    outcome = workflow("-n", "--config", "partial=true")
    assert outcome.code != 0
    assert "no unit of the run is complete under results/tiny" in outcome.text


def test_two_runs_in_one_folder_are_refused(workflow):
    process = start(workflow, "breast_cancer_mlp")
    try:
        locks = workflow.folder / ".snakemake/locks"
        wait_for(lambda: locks.exists() and any(locks.iterdir()), process)
        outcome = workflow("breast_cancer_lr")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert outcome.code != 0
    assert "lock" in outcome.text.lower()


def test_a_damaged_result_is_named_and_made_again(finished, copied):
    file = copied.folder / "results/tiny/certify/breast_cancer/lr/seed0.parquet"
    file.write_bytes(file.read_bytes()[:500])
    outcome = copied("label", "--forcerun", "label_cases")
    assert outcome.code != 0
    assert "cannot be read as Parquet" in outcome.text
    file.unlink()
    assert copied().code == 0
    assert contents(copied.folder) == contents(finished.folder)


def test_the_report_is_one_page_with_tables_and_figures(finished):
    target = finished.folder / "report.html"
    outcome = finished("--report", str(target))
    assert outcome.code == 0, outcome.text
    text = target.read_text()
    for words in ("brittle_auroc", "predictive", "capture_curve", "case_degradation"):
        assert words in text
    target.unlink()


def test_the_light_jobs_load_no_heavy_library(repository):
    code = (
        "import sys; sys.path.insert(0, 'src')\n"
        "from cfc.models.registry import get_family\n"
        "import cfc.stages.certify, cfc.stages.stress, cfc.stages.train\n"
        "get_family('lr')\n"
        "heavy = {'torch', 'shap', 'xgboost', 'lightgbm', 'catboost', 'matplotlib', 'openml'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
