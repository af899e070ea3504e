"""The hash of a rule's code covers every library file its script really imports."""

import subprocess
import sys

import pytest

from cfc.models.registry import MODULE_OF
from cfc.provenance import NOT_HASHED, code_files

pytestmark = pytest.mark.workflow
ENTRIES = {
    "acquire_data": ("cfc.data", "cfc.data.sources", "cfc.data.openml_source"),
    "split_rows": ("cfc.stages.split",),
    "prepare_data": ("cfc.stages.preprocess",),
    "train_model": ("cfc.stages.train", MODULE_OF["lr"]),
    "certify_cases": ("cfc.stages.certify", MODULE_OF["rf"]),
    "stress_cases": ("cfc.stages.stress", MODULE_OF["rf"]),
    "label_cases": ("cfc.stages.label",),
    "rank_cases": ("cfc.stages.rank",),
    "evaluate_unit": ("cfc.evaluate",),
    "expose_cases": ("cfc.stages.exposure", "cfc.preprocess", MODULE_OF["rf"]),
    "attribute_cases": ("cfc.stages.attribution", MODULE_OF["rf"]),
    "evaluate_attribution": ("cfc.stages.attribution",),
    "transfer_cases": ("cfc.stages.transfer", MODULE_OF["rf"]),
    "evaluate_transfer": ("cfc.stages.transfer", "cfc.evaluate"),
    "search_cases": ("cfc.stages.search", MODULE_OF["rf"]),
    "vary_certificates": ("cfc.stages.sensitivity", MODULE_OF["rf"]),
    "study_unit": ("cfc.stages.study",),
    "natural_cases": ("cfc.stages.natural", "cfc.data.registry", MODULE_OF["rf"]),
    "evaluate_natural": ("cfc.stages.natural", "cfc.evaluate"),
    "certify_valid": ("cfc.stages.certify", MODULE_OF["rf"]),
    "calibrate_unit": ("cfc.stages.calibrate", "cfc.calibration"),
    "measure_dependence": ("cfc.stages.dependence", "cfc.dependence"),
    "write_verdict": ("cfc.verdict", "cfc.tables.render"),
    "build_table": ("cfc.tables.base", "cfc.tables.render", "cfc.tables.cost"),
    "build_page": ("cfc.page.payload", "cfc.page.render"),
    "draw_figure": ("cfc.figures.capture_curve",),
    "prepare_recourse": ("cfc.data", "cfc.recourse.data", "cfc.recourse.seeds"),
    "train_bases": ("cfc.recourse.stages", "cfc.recourse.training"),
    "change_models": ("cfc.recourse.stages", "cfc.recourse.training", "cfc.recourse.families"),
    "train_ensemble": ("cfc.recourse.stages", "cfc.recourse.training"),
    "generate_recourse": ("cfc.recourse.stages", "cfc.recourse.methods.apas"),
    "evaluate_recourse": ("cfc.recourse.stages", "cfc.recourse.pools"),
    "audit_apas": ("cfc.recourse.exact", "cfc.recourse.methods.apas"),
    "certify_requests": ("cfc.recourse.certificates", "cfc.recourse.stages"),
    "build_recourse_table": ("cfc.recourse.results", "cfc.recourse.tables.paper_vs_ours"),
    "draw_recourse_figure": ("cfc.recourse.figures.family_heatmap",),
}
# modules that are named only at run time
RUNTIME = (
    "cfc.models",
    "cfc.tables",
    "cfc.fig",
    "cfc.recourse.methods",
    "cfc.recourse.tables",
    "cfc.recourse.figures",
)


@pytest.mark.parametrize("script", sorted(ENTRIES))
def test_imported_files_are_hashed(repository, script):
    code = (
        "import sys, importlib\n"
        f"for name in {ENTRIES[script]!r}: importlib.import_module(name)\n"
        "print('\\n'.join(m.__file__ for n, m in sorted(sys.modules.items())"
        f" if n.split('.')[0] == 'cfc' and n not in {NOT_HASHED!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(repository / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    runtime = [m for m in ENTRIES[script] if m.startswith(RUNTIME)]
    hashed = {str(f) for f in code_files(repository / "scripts" / f"{script}.py", also=runtime)}
    assert set(done.stdout.split()) <= hashed


def test_every_rule_has_a_script_of_its_own_listed_here(repository):
    scripts = {p.stem for p in (repository / "scripts").glob("*.py")} - {"_job"}
    assert scripts == set(ENTRIES)
