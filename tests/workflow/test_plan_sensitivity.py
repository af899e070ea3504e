"""What an edit re-runs of the analyses `search` and `sensitivity`, and what it leaves alone."""

import pytest
import yaml

pytestmark = pytest.mark.workflow
SEARCH = ["results/tiny/tables/search_gap.md"]
STUDY = [
    "results/tiny/tables/ablation.md",
    "results/tiny/tables/stability.md",
    "results/tiny/figures/threshold_sensitivity.svg",
]
TABLES = {
    "table_ablation": 1,
    "table_stability": 1,
    "table_thresholds": 1,
    "figure_threshold_sensitivity": 1,
}


@pytest.mark.parametrize(
    ("targets", "change", "expected"),
    [
        ([*SEARCH, *STUDY], {}, {}),
        (SEARCH, {"search": {"cases": 9}}, {"search_cases": 2, "table_search_gap": 1}),
        (SEARCH, {"labels": {"tau_kappa": 0.4}}, {}),
        (STUDY, {"search": {"cases": 9}}, {}),
        (
            STUDY,  # no certificate, no stress, no model
            {"labels": {"tau_kappa": 0.4}},
            {"label_cases": 2, "study_unit": 2, **TABLES},
        ),
        (STUDY, {"sensitivity": {"tau_p": [0.9]}}, {"study_unit": 2, **TABLES}),
        (
            STUDY,
            {"sensitivity": {"variants": {"depth_4": {"depth": 4}}}},
            {"vary_certificates": 2, "study_unit": 2, **TABLES},
        ),
        (
            STUDY,
            {"stress": {"swap": {"draws": 6}}},
            {"stress_cases": 2, "label_cases": 2, "study_unit": 2, **TABLES},
        ),
    ],
    ids=[
        "nothing",
        "search",
        "labels leave search",
        "search leaves the study",
        "label rule",
        "threshold grid",
        "another variant",
        "draws",
    ],
)
def test_an_edit_reruns_exactly_what_depends_on_it(finished, tmp_path, targets, change, expected):
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(yaml.safe_dump(change))
    jobs = finished.plan(*targets, overlays=("config/tiny.yaml", str(overlay)))
    assert jobs == expected


def test_a_wrong_variant_is_said_before_the_first_job(workflow, tmp_path):
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(
        yaml.safe_dump(
            {"sensitivity": {"variants": {"x": {"weights": [0, 0, 0]}}, "threshold": 0.5}}
        )
    )
    outcome = workflow("-n", overlays=("config/tiny.yaml", str(overlay)))
    assert outcome.code != 0
    assert "sensitivity.variants.x: weights" in outcome.text
    assert "sensitivity.threshold: 0.5 is below audit.threshold" in outcome.text
