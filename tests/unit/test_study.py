"""The study of one unit: components, variants, thresholds and reliability worked out by hand."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score, roc_auc_score

from cfc.errors import ArtifactError
from cfc.evaluate import EvaluationSettings
from cfc.labels import LabelRule
from cfc.stages.label import label_unit
from cfc.stages.study import StudySettings, study_unit
from cfc.tables import build_table
from cfc.tables.base import TableContext, pick

RULES = {
    "any": LabelRule("any_draw", {"mask": [0.1, 0.2]}, draws=2),
    "average": LabelRule("mean", {"mask": [0.2]}),
    "flips": LabelRule("any_draw", {"mask": [0.2]}, draws=2, collapse=False),
    "greedy": LabelRule("any_draw", {"mask": [0.1]}, draws=5),
}
SETTINGS = StudySettings(
    rules=RULES,
    tau_p=0.9,
    tau_kappa=0.5,
    tau_flip=0.5,
    grid_tau_p=(0.8, 0.85, 0.9),
    grid_tau_kappa=(0.25, 0.5),
    selective=(0.5, 0.9, 0.999),
    cells=("raw_origin/mean", "domain/mean"),
    evaluation=EvaluationSettings(min_positive=2, min_negative=2),
)
UNIT = ("toy", "lr", 0)
DRAWS = 6


def unit(n=60, seed=0):
    """The files of a unit whose cases differ in how they fare under stress."""
    rng = np.random.default_rng(seed)
    case_id = np.sort(rng.choice(1000, n, replace=False))
    confidence = np.sort(rng.uniform(0.8, 0.99, n))
    predicted = rng.integers(2, size=n).astype(np.int16)
    margin = np.log(confidence / (1 - confidence))
    frailty = rng.random(n)
    is_confident = confidence >= 0.85
    lambdas = {
        f"lambda_{o}": pa.array(np.where(rng.random(n) < frailty, 0.5, np.nan), from_pandas=True)
        for o in ("top1", "all")
    }
    certificates = pa.table(
        {
            "dataset": ["toy"] * n,
            "model": ["lr"] * n,
            "seed": [0] * n,
            "case_id": case_id,
            "is_uniform": [True] * n,
            "is_confident": is_confident,
            "confidence": confidence,
            "true_label": predicted,
            "predicted": predicted,
            "rcma": frailty + rng.normal(0, 0.2, n),
            "flip_budget": rng.integers(1, 6, n).astype(np.int16),
            "u": frailty + rng.normal(0, 0.1, n),
            **lambdas,
        }
    )
    kept = certificates.filter(pa.array(is_confident))
    held = int(is_confident.sum())
    parts = []
    for severity in (0.1, 0.2):
        kappa = rng.exponential(frailty[is_confident][:, None] * (0.4 + severity), (held, DRAWS))
        stressed = (margin[is_confident][:, None] * (1 - kappa)).astype(np.float32)
        own = predicted[is_confident][:, None]
        parts.append(
            pa.table(
                {
                    "case_id": kept["case_id"],
                    "confidence": kept["confidence"],
                    "predicted": kept["predicted"],
                    "margin": margin[is_confident],
                    "operator": ["mask"] * held,
                    "severity": [severity] * held,
                    "margins": stressed.tolist(),
                    "labels": np.where(stressed < 0, 1 - own, own).astype(np.int16).tolist(),
                }
            )
        )
    stressed = pa.concat_tables(parts)
    labels = label_unit(certificates, stressed, RULES, tau_p=0.9, tau_kappa=0.5, tau_flip=0.5)
    ranks = {"case_id": case_id}
    for name, values in {
        "max_softmax": confidence,
        "fds": certificates["u"].to_numpy(),
        "one_step_sum": frailty,
        "group_shap": np.where(np.arange(n) % 2, frailty, np.nan),
    }.items():
        sign = -1 if name == "max_softmax" else 1
        ranks[f"{name}_paper"] = pa.array(values, from_pandas=True)
        ranks[f"{name}_risk"] = pa.array(sign * values, from_pandas=True)
    order = rng.permutation(n)
    ranks = pa.table(ranks).take(pa.array(order))
    predictions = pa.table(
        {
            "split": ["test"] * n + ["valid"] * n,
            "label": np.tile(np.where(rng.random(n) < 0.9, predicted, 1 - predicted), 2),
            "predicted": np.tile(predicted, 2),
            "proba": np.tile(
                np.stack(
                    [
                        np.where(predicted == 0, confidence, 1 - confidence),
                        np.where(predicted == 1, confidence, 1 - confidence),
                    ],
                    axis=1,
                ),
                (2, 1),
            ).tolist(),
        }
    )
    return predictions, certificates, stressed, labels, ranks, variants(certificates)


def variants(certificates, threshold=0.85):
    frame = certificates.to_pandas().query(f"confidence >= {threshold}")
    u = frame["u"].to_numpy()
    rng = np.random.default_rng(1)
    parts = {
        "default": u,
        "backwards": -u,
        "other": u + rng.normal(0, 0.2, len(u)),
        "raw_origin/mean": u,
        "in_use/mean": u,
    }
    return pa.concat_tables(
        [
            pa.table(
                {
                    "dataset": ["toy"] * len(u),
                    "model": ["lr"] * len(u),
                    "seed": [0] * len(u),
                    "case_id": frame["case_id"].to_numpy(),
                    "variant": [name] * len(u),
                    "u": values,
                    "rcma": values,
                    "one_step_relative": values,
                    "one_step_sum": values,
                }
            )
            for name, values in parts.items()
        ]
    )


@pytest.fixture(scope="module")
def files():
    return unit()


@pytest.fixture(scope="module")
def long(files):
    return study_unit(*files, SETTINGS, clip=1e-12, unit=UNIT)


@pytest.fixture(scope="module")
def found(long):
    frame = long.to_pandas()
    keys = ["family", "label_rule", "score", "sign", "metric"]
    for key in keys:
        frame[key] = frame[key].astype(object).where(frame[key].notna(), "")
    assert not frame.duplicated(keys).any()
    assert (frame["value"].isna() == frame["reason"].notna()).all()
    return frame.set_index(keys)[["value", "n", "n_positive", "reason"]]


def confident(files, tau_p=0.9):
    certificates, labels = files[1].to_pandas(), files[3].to_pandas()
    kept = certificates["confidence"] >= tau_p
    return certificates[kept], labels[kept]


def test_components(files, found):
    own, labels = confident(files)
    degradation = np.mean(
        [1 / (own[f"lambda_{o}"].fillna(np.inf) + 1e-8) for o in ("top1", "all")], axis=0
    )
    parts = {
        "flip_budget": 1 / own["flip_budget"],
        "rcma": own["rcma"],
        "degradation": degradation,
        "rcma+degradation": own["rcma"] + degradation,
        "flip_budget+degradation": 1 / own["flip_budget"] + degradation,
        "flip_budget+rcma": 1 / own["flip_budget"] + own["rcma"],
        "full": own["u"],
    }
    for rule in ("any", "average"):
        for name, score in parts.items():
            row = found.loc["ablation", rule, name, "", "auroc"]
            assert row["value"] == pytest.approx(roc_auc_score(labels[rule], score)), name
            assert (row["n"], row["n_positive"]) == (len(own), labels[rule].sum())
    risk = found.loc["ablation", "any", "max_softmax", "risk", "auroc"]["value"]
    assert risk == pytest.approx(roc_auc_score(labels["any"], -own["confidence"]))


def test_variants_are_ranked_on_the_labels_of_the_default(files, found):
    own, labels = confident(files)
    base = found.loc["variant", "any", "default", "", "auroc_fds"]["value"]
    assert base == pytest.approx(roc_auc_score(labels["any"], own["u"]))
    assert found.loc["variant", "any", "backwards", "", "auroc_fds"]["value"] == pytest.approx(
        1 - base
    )
    assert found.loc["variant", "", "backwards", "", "spearman_fds"]["value"] == pytest.approx(-1)
    table = files[5].to_pandas()
    chosen = table["case_id"].isin(own["case_id"])
    other = table[chosen & (table["variant"] == "other")]["u"]
    assert found.loc["variant", "", "other", "", "spearman_fds"]["value"] == pytest.approx(
        stats.spearmanr(other, own["u"]).statistic
    )
    missing = found.loc["variant", "any", "domain/mean", "", "auroc_fds"]
    assert missing["reason"] == "the data set does not declare this grouping"


def test_the_cell_of_the_thresholds_in_use_is_the_main_label(files, found):
    _, labels = confident(files)
    for rule in RULES:
        row = found.loc["thresholds", rule, "", "", "base_rate@0.90/0.50"]
        assert row["value"] == pytest.approx(labels[rule].mean())
    own = files[1].to_pandas()
    own = own[own["confidence"] >= 0.85]
    low = label_unit(files[1], files[2], RULES, tau_p=0.85, tau_kappa=0.25, tau_flip=0.5)
    low = low.to_pandas()[files[1].to_pandas()["confidence"] >= 0.85]
    row = found.loc["thresholds", "any", "fds", "risk", "auroc@0.85/0.25"]
    assert row["value"] == pytest.approx(roc_auc_score(low["any"], own["u"]))
    flat = [
        found.loc["thresholds", "flips", "", "", f"base_rate@0.90/{k}"] for k in ("0.25", "0.50")
    ]
    assert flat[0]["value"] == flat[1]["value"]  # a rule that looks at flips alone


def test_thresholds_below_the_stress_are_undefined(found):
    row = found.loc["thresholds", "any", "fds", "risk", "auroc@0.80/0.50"]
    assert row["reason"] == "cases below confidence 0.85 were not stressed"


def test_a_score_with_nulls_is_ranked_where_it_exists(files, found):
    own, labels = confident(files)
    held = (own.index % 2 == 1).astype(bool)
    row = found.loc["thresholds", "any", "group_shap", "risk", "auroc@0.90/0.50"]
    assert row["n"] == held.sum()
    ranks = files[4].to_pandas().set_index("case_id")["group_shap_risk"]
    expected = roc_auc_score(labels["any"][held], ranks[own["case_id"][held]])
    assert row["value"] == pytest.approx(expected)


def outcomes(files, severity):
    frame = files[2].to_pandas()
    frame = frame[(frame["severity"] == severity) & (frame["confidence"] >= 0.9)]
    stressed = np.stack(frame["margins"]).astype(np.float64)
    margin = frame["margin"].to_numpy()[:, None]
    kappa = np.maximum(0, margin - stressed) / (margin + 1e-8)
    flips = np.stack(frame["labels"]) != frame["predicted"].to_numpy()[:, None]
    return kappa, flips


def test_reliability_of_an_any_draw_rule(files, found):
    fails = [flips | (kappa >= 0.5) for kappa, flips in (outcomes(files, s) for s in (0.1, 0.2))]
    first, second = (
        np.any([f[:, part] for f in fails], axis=(0, 2)) for part in (slice(0, 2), slice(2, 4))
    )
    row = found.loc["reliability", "any", "", "", "kappa"]
    assert row["value"] == pytest.approx(cohen_kappa_score(first, second))
    agreement = found.loc["reliability", "any", "", "", "agreement"]["value"]
    assert agreement == pytest.approx((first == second).mean())
    fresh = np.mean([f[:, 2:].mean(axis=1) for f in fails], axis=0)
    row = found.loc["reliability", "any", "", "", "auroc_fresh"]
    assert row["value"] == pytest.approx(roc_auc_score(first, fresh))
    own, _ = confident(files)
    row = found.loc["reliability", "any", "", "", "auroc_fds"]
    assert row["value"] == pytest.approx(roc_auc_score(first, own["u"]))


def test_reliability_of_a_mean_rule_uses_halves(files, found):
    kappa, flips = outcomes(files, 0.2)
    labels = [
        (flips[:, part].mean(1) >= 0.5) | (kappa[:, part].mean(1) >= 0.5)
        for part in (slice(0, 3), slice(3, 6))
    ]
    row = found.loc["reliability", "average", "", "", "kappa"]
    assert row["value"] == pytest.approx(cohen_kappa_score(*labels))
    graded = np.maximum(flips[:, 3:].mean(1), kappa[:, 3:].mean(1)) / 0.5
    row = found.loc["reliability", "average", "", "", "auroc_fresh"]
    assert row["value"] == pytest.approx(roc_auc_score(labels[0], graded))


def test_too_few_draws_for_two_labels(found):
    row = found.loc["reliability", "greedy", "", "", "kappa"]
    assert row["reason"] == "two disjoint sets of 5 draws of mask are needed, 6 are made"


def test_selective_risk_by_hand(files, found):
    frame = files[0].to_pandas().query("split == 'test'")
    confidence = np.stack(frame["proba"]).max(axis=1)
    wrong = (frame["label"] != frame["predicted"]).to_numpy()
    kept = confidence >= 0.9
    row = found.loc["selective", "", "", "", "selective_risk@0.900"]
    assert (row["value"], row["n"]) == (pytest.approx(wrong[kept].mean()), kept.sum())
    assert found.loc["selective", "", "", "", "coverage@0.900"]["value"] == pytest.approx(
        kept.mean()
    )
    none = found.loc["selective", "", "", "", "selective_risk@0.999"]
    assert none["reason"] == "no prediction at or above this confidence"


def test_units_without_brittle_or_confident_cases(files):
    predictions, certificates, stressed, labels, ranks, sensitivity = files
    calm = stressed.to_pandas()
    calm["margins"] = [[m] * DRAWS for m in calm["margin"]]
    calm["labels"] = [[p] * DRAWS for p in calm["predicted"]]
    calm = pa.Table.from_pandas(calm, preserve_index=False)
    quiet = label_unit(certificates, calm, RULES, tau_p=0.9, tau_kappa=0.5, tau_flip=0.5)
    frame = study_unit(
        predictions, certificates, calm, quiet, ranks, sensitivity, SETTINGS, clip=0, unit=UNIT
    ).to_pandas()
    aurocs = frame[frame["metric"].str.startswith("auroc")]
    assert aurocs["value"].isna().all()
    assert aurocs["reason"].str.startswith("no brittle case").any()
    kappa = frame[frame["metric"] == "kappa"]
    assert kappa["value"].isna().all()
    none = study_unit(
        predictions,
        certificates,
        stressed.slice(0, 0),
        labels,
        ranks,
        sensitivity.slice(0, 0),
        SETTINGS,
        clip=0,
        unit=UNIT,
    ).to_pandas()
    ranked = none[none["family"] != "selective"]
    assert ranked["value"].isna().all()
    assert "no high-confidence case" in set(ranked["reason"])


def test_files_of_other_cases_are_refused(files):
    predictions, certificates, stressed, labels, ranks, sensitivity = files
    with pytest.raises(ArtifactError, match="not in the label file"):
        study_unit(
            predictions,
            certificates,
            stressed,
            labels.slice(0, 3),
            ranks,
            sensitivity,
            SETTINGS,
            clip=0,
            unit=UNIT,
        )
    with pytest.raises(ArtifactError, match="were not stressed"):
        study_unit(
            predictions,
            certificates,
            stressed,
            labels,
            ranks,
            variants(certificates, threshold=0.5),
            SETTINGS,
            clip=0,
            unit=UNIT,
        )


# --- tables ------------------------------------------------------------------------------------

TABLE_SETTINGS = EvaluationSettings(n_bootstrap=300, label_rules=tuple(RULES))
EXPECTED = [("toy", "lr", 0), ("toy", "lr", 1), ("game", "lr", 0)]


@pytest.fixture(scope="module")
def built():
    parts = [
        study_unit(*unit(seed=i), SETTINGS, clip=1e-12, unit=name)
        for i, name in enumerate(EXPECTED)
    ]
    rows = pa.concat_tables(parts)
    names = (
        "ablation",
        "stability",
        "baseline_sensitivity",
        "grouping_sensitivity",
        "thresholds",
        "label_reliability",
    )
    context = TableContext("r", "paper")
    return rows, {n: build_table(n, rows, EXPECTED, TABLE_SETTINGS, context) for n in names}


def mean_of(rows, **keys):
    frame = rows.to_pandas()
    for name, value in keys.items():
        frame = frame[(frame[name] == value) if value else frame[name].isna()]
    return frame.groupby("dataset")["value"].mean().mean()


def test_ablation_differences_are_paired(built):
    rows, tables = built
    data = pick(tables["ablation"].data, level="aggregate", label_rule="any")
    keys = {"family": "ablation", "label_rule": "any", "metric": "auroc", "sign": None}
    full, rcma = (mean_of(rows, score=name, **keys) for name in ("full", "rcma"))
    assert pick(data, score="rcma", metric="auroc")["value"].item() == pytest.approx(rcma)
    row = pick(data, score="rcma", metric="difference").iloc[0]
    assert row["value"] == pytest.approx(rcma - full)
    assert row["low"] <= row["value"] <= row["high"]
    assert row["reference"] == "full"
    gain = pick(data, score="full", metric="gain_vs_confidence").iloc[0]
    best = mean_of(rows, score="max_softmax", **(keys | {"sign": "risk"}))
    assert gain["reference"] == "max_softmax"
    assert gain["value"] == pytest.approx(full - best)


def test_stability_and_grids_hold_their_variants(built):
    _, tables = built
    shown = {name: list(tables[name].displays[0][1].iloc[:, 0]) for name in tables}
    assert shown["stability"] == ["default", "backwards", "other", "max-softmax, risk sign"]
    assert shown["baseline_sensitivity"] == ["mean"]
    assert shown["grouping_sensitivity"] == ["raw_origin × mean", "domain × mean"]
    data = tables["stability"].data
    row = pick(data, level="aggregate", score="backwards", metric="spearman_fds").iloc[0]
    assert (row["value"], row["low"], row["high"]) == pytest.approx((-1, -1, -1))
    notes = " ".join(tables["grouping_sensitivity"].notes)
    assert "grouping `domain`: defined in 0 of 3 units" in notes
    assert "the data set does not declare this grouping" in notes


def test_threshold_table_keeps_the_grid(built):
    rows, tables = built
    data = pick(tables["thresholds"].data, level="aggregate", label_rule="any", metric="auroc")
    cells = data[["tau_p", "tau_kappa"]].drop_duplicates().values.tolist()
    assert cells == [[p, k] for p in (0.8, 0.85, 0.9) for k in (0.25, 0.5)]
    own = pick(data, tau_p=0.9, tau_kappa=0.5, score="fds", sign="risk")["value"].item()
    keys = {"family": "thresholds", "label_rule": "any", "score": "fds", "sign": "risk"}
    assert own == pytest.approx(mean_of(rows, metric="auroc@0.90/0.50", **keys))
    _, frame = tables["thresholds"].displays[0]
    assert len(frame) == 6
    assert frame["units"].iloc[0] == "0/3"


def test_reliability_table_says_its_undefined_rule(built):
    rows, tables = built
    _, frame = tables["label_reliability"].displays[0]
    line = frame.set_index("label rule").loc["any"]
    keys = {"family": "reliability", "label_rule": "any", "metric": "kappa"}
    assert line["Cohen's κ"] == f"{mean_of(rows, **keys):.3f}"
    assert frame.set_index("label rule").loc["greedy"]["units"] == "0/3"
    assert "disjoint sets of N draws of mask" in " ".join(tables["label_reliability"].notes)


def test_a_rule_named_in_the_settings_only_is_undefined(built):
    rows, _ = built
    settings = replace(TABLE_SETTINGS, label_rules=("any", "later"))
    for name in ("ablation", "stability", "thresholds", "label_reliability"):
        result = build_table(name, rows, EXPECTED, settings, TableContext("r", "paper"))
        assert any("not in the unit's evaluate file" in note for note in result.notes)
