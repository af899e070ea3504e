"""The small tools that look at a finished run."""

import json

import pytest

pytestmark = pytest.mark.workflow


def test_show_run_prints_the_main_table_and_the_places(tool, finished):
    run = finished.folder / "results/tiny"
    done = tool("show_run.py", run)
    assert done.returncode == 0, done.stderr
    assert "CFC-FDS" in done.stdout
    assert f"{run / 'tables'}" in done.stdout
    assert tool("show_run.py", finished.folder).returncode != 0


def test_draw_certificate_draws_the_case_asked_for(tool, finished, tmp_path):
    file = finished.folder / "results/tiny/certify/breast_cancer/lr/seed0.parquet"
    out = tmp_path / "case.svg"
    done = tool("draw_certificate.py", file, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "<svg" in out.read_text()[:2000]
    done = tool("draw_certificate.py", file, "--case", 10**6, "--out", out)
    assert done.returncode != 0
    assert "no certificate of case 1000000" in done.stderr


def test_a_reference_is_saved_and_compared(tool, finished, tmp_path):
    run, reference = finished.folder / "results/tiny", tmp_path / "reference"
    words = ["--command", "snakemake", "--data", finished.folder / "data"]
    done = tool("save_reference.py", run, reference, *words)
    assert done.returncode == 0, done.stderr
    assert (reference / "tables/predictive.md").is_file()
    facts = json.loads((reference / "provenance.json").read_text())
    assert facts["units"] == ["breast_cancer/lr/seed0", "breast_cancer/mlp/seed0"]
    rows = json.loads((reference / "rows.json").read_text())
    stages = {name.split("/")[0] for name in rows}
    assert {"train", "certify", "stress", "evaluate", "exposure", "transfer"} <= stages
    done = tool("compare_reference.py", run, reference)
    assert done.returncode == 0, done.stdout
    assert done.stdout == f"{len(rows)} of {len(rows)} files have the same rows, bit for bit\n"
    changed = "certify/breast_cancer/lr/seed0.parquet"
    rows[changed] = "0" * 16
    (reference / "rows.json").write_text(json.dumps(rows))
    done = tool("compare_reference.py", run, reference)
    assert done.returncode == 1
    assert f"differs: {changed}\n{len(rows) - 1} of {len(rows)}" in done.stdout
    assert tool("compare_reference.py", tmp_path, reference).returncode == 2
