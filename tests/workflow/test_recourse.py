"""The recourse benchmark really run, at its smallest, and planned in full."""

import hashlib
import json

import pyarrow.parquet as pq
import pytest
import yaml

pytestmark = pytest.mark.workflow
FIGURES = (
    "family_heatmap",
    "coverage_robustness",
    "distance_robustness",
    "magnitude_robustness",
    "certificate_survival",
)
TINY = "config/recourse_tiny.yaml"
TABLES = (
    "data_and_bases",
    "magnitude",
    "magnitude_robustness",
    "methods",
    "families",
    "levels",
    "apas_certification",
    "apas_audit",
    "tuning",
    "certificate_survival",
    "seconds",
    "paper_vs_ours",
)


@pytest.fixture
def done(finished_recourse):
    return finished_recourse


def test_everything_is_there_and_describes_itself(done):
    folder = done.folder / "results/tiny/recourse/independent"
    for table in TABLES:
        for kind in ("parquet", "csv", "md", "html"):
            assert (folder / f"tables/{table}.{kind}").stat().st_size > 0, table
    for figure in FIGURES:
        assert (folder / f"figures/{figure}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    models = pq.read_table(folder / "bank/breast_cancer/bootstrap.parquet").to_pylist()
    assert [m["base"] for m in models] == [0, 0, 1, 1]
    facts = json.loads(pq.read_schema(folder / "bases/breast_cancer.parquet").metadata[b"cfc"])
    for key in ("config_hash", "code_hash", "inputs", "versions", "profile", "rule"):
        assert key in facts, key
    candidates = pq.read_table(folder / "evaluation/breast_cancer.candidates.parquet").to_pandas()
    assert len(candidates) == 9 * 2 * 5
    assert set(candidates["status"]) <= {"ok", "base_invalid", "none"}
    assert not list(folder.rglob("*.pkl"))


def test_a_second_run_does_nothing_and_the_main_run_asks_for_none_of_it(done):
    assert "Nothing to be done" in done("recourse", overlays=(TINY,)).text
    planned = done.plan(overlays=("config/tiny.yaml",))
    assert not {"train_bases", "generate_recourse", "recourse"} & set(planned)


def test_another_folder_and_one_core_give_the_same_bytes(done, workflow):
    inside = "results/tiny/recourse/independent"
    files = [
        f"{inside}/candidates/breast_cancer/rnce.parquet",
        f"{inside}/candidates/breast_cancer/wachter.parquet",
        f"{inside}/bank/breast_cancer/bootstrap.parquet",
        f"{inside}/bank/breast_cancer/bootstrap.safetensors",
    ]
    outcome = workflow(*files, overlays=(TINY,), cores=1)
    assert outcome.code == 0, outcome.text
    for file in files:
        hashes = {
            hashlib.sha256((w.folder / file).read_bytes()).hexdigest() for w in (done, workflow)
        }
        assert len(hashes) == 1, file


def test_no_candidate_is_made_from_a_changed_model(done):
    outcome = done("recourse", "-n", "--forceall", "-p", overlays=(TINY,))
    blocks = outcome.text.split("rule generate_recourse:")[1:]
    assert len(blocks) == 9
    for block in blocks:
        inputs = block.split("input:")[1].split("output:")[0]
        assert "/bank/" not in inputs


def test_one_setting_re_runs_one_method(done, tmp_path):
    (tmp_path / "more.yaml").write_text(
        yaml.safe_dump({"recourse": {"method_options": {"rbr": {"samples": 60}}}})
    )
    planned = done.plan("recourse", overlays=(TINY, tmp_path / "more.yaml"))
    assert planned["generate_recourse"] == 1
    assert not {"train_bases", "change_models", "train_ensemble"} & set(planned)


def test_a_method_and_a_family_of_ones_own_join_the_plan(done, repository, tmp_path):
    own = {
        "methods": ["kdtree", "sparse"],
        "families": ["bootstrap", "pruned"],
        "own_methods": {"sparse": f"{repository}/docs/examples/sparse_recourse.py:SparseNeighbour"},
        "own_families": {"pruned": f"{repository}/docs/examples/pruned_family.py:Pruned"},
    }
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"recourse": own}))
    planned = done.plan("recourse", overlays=(TINY, tmp_path / "own.yaml"))
    assert (planned["generate_recourse"], planned["change_models"]) == (1, 1)


def test_the_whole_benchmark_is_4000_models_and_9_methods_a_data_set(workflow, repository):
    planned = workflow.plan("recourse", overlays=())
    assert planned["train_bases"] == 8
    assert planned["change_models"] == 2 * 4 * 8
    assert planned["generate_recourse"] == 2 * 4 * 9
    own = yaml.safe_load((repository / "config/recourse.yaml").read_text())["recourse"]
    assert len(own["datasets"]) * own["bases"] * len(own["families"]) * own["variants"] == 4000


def test_wrong_names_are_all_said_with_the_nearest(workflow, tmp_path):
    wrong = {"methods": ["watcher"], "families": ["boostrap"], "datasets": ["helok"], "base": 3}
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump({"recourse": wrong}))
    outcome = workflow("recourse", "-n", overlays=(TINY, tmp_path / "wrong.yaml"))
    assert outcome.code != 0
    for words in (
        "recourse.methods: 'watcher' is not defined; nearest known: wachter",
        "recourse.families: 'boostrap' is not defined; nearest known: bootstrap",
        "recourse.datasets: 'helok' is not defined; nearest known: heloc",
        "recourse: unknown key 'base'; nearest known: bases",
    ):
        assert words in outcome.text, words


def test_a_recourse_reference_is_saved_and_compared(tool, done, tmp_path):
    run, reference = done.folder / "results/tiny/recourse", tmp_path / "reference"
    words = ["--command", "snakemake recourse", "--data", done.folder / "data"]
    saved = tool("save_reference.py", run, reference, *words)
    assert saved.returncode == 0, saved.stderr
    for file in ("tables/methods.md", "tables/methods.parquet", "figures/family_heatmap.svg"):
        assert (reference / "independent" / file).is_file(), file
    facts = json.loads((reference / "provenance.json").read_text())
    assert list(facts["evaluations"]) == ["independent"]
    assert facts["data"]["breast_cancer"]["rows"] == 569
    assert "torch" in facts["versions"]
    rows = json.loads((reference / "rows.json").read_text())
    assert {name.split("/")[1] for name in rows} == {
        *("data", "bases", "bank", "candidates", "evaluation", "certificates", "audit")
    }
    compared = tool("compare_reference.py", run, reference)
    assert compared.stdout == f"{len(rows)} of {len(rows)} files have the same rows, bit for bit\n"
