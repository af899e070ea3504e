"""cfc.audit on fitted models: against brute force in the user's terms, and its promises."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import cfc
from cfc.errors import ArtifactError, ConfigError, DataError, GroupError, ModelError

N = 120


def people(n=N, seed=0):
    """A table with numbers, text, a category and gaps, and a label that follows from it."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "income": rng.lognormal(3, 1, n),
            "job": rng.choice(["nurse", "smith", "clerk"], n),
            "town": pd.Categorical(rng.choice(["north", "south"], n)),
        },
        index=[f"p{i}" for i in range(n)],
    )
    frame.loc[rng.random(n) < 0.15, "age"] = np.nan
    score = (
        (frame["income"] > 20).astype(int) + (frame["job"] == "nurse") + (frame["town"] == "south")
    )
    return frame, np.where(score + rng.normal(0, 0.4, n) > 1.5, "yes", "no")


@pytest.fixture(scope="module")
def table():
    return people()


def transformed_pipeline(model):
    steps = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"]),
            (
                "levels",
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                ["job", "town"],
            ),
        ]
    )
    return Pipeline([("columns", steps), ("model", model)])


@pytest.fixture(scope="module")
def pipeline(table):
    return transformed_pipeline(LogisticRegression(C=10)).fit(*table)


def usual(frame):
    """The baseline ``mean_off`` in raw columns: means of numbers, the most frequent categories."""
    means = {c: frame[c].mean() for c in ("age", "income")}
    return means | {c: frame[c].mode()[0] for c in ("job", "town")}


def quiet(model, X, **options):
    return cfc.audit(model, X, progress=False, **options)


# ---- brute force: states are made in raw columns, by hand, and asked one at a time --------------


def log_gap(p, label):
    p = np.maximum(p, 1e-12)
    return np.log(p[label]) - np.log(np.delete(p, label).max())


def collapse_by_hand(predict_one, row, groups, replaced, depth):
    """Path of one case: ``row`` is a mapping, ``replaced`` the baseline's mapping."""
    p = predict_one(row)
    label = int(np.argmax(p))
    m = log_gap(p, label)
    drops = {}
    for name, columns in groups.items():
        drops[name] = m - log_gap(predict_one({**row, **{c: replaced[c] for c in columns}}), label)
    names = list(groups)
    order = sorted(names, key=lambda n: (-drops[n], names.index(n)))
    margins, state = [m], dict(row)
    for name in order[:depth]:
        state |= {c: replaced[c] for c in groups[name]}
        margins.append(log_gap(predict_one(state), label))
    return drops, order, margins


def assert_follows_brute_force(audit, frame, predict_one, replaced, positions, **tolerance):
    indices = audit.facts["groups"]["indices"]
    fields = [c["field"] for c in audit.facts["coordinates"]]
    groups = {
        name: list(dict.fromkeys(fields[i] for i in index))
        for name, index in zip(audit.facts["groups"]["names"], indices, strict=True)
    }
    found = audit.table.to_pylist()
    for i in positions:
        row = frame.iloc[i].to_dict()
        drops, order, margins = collapse_by_hand(
            predict_one, row, groups, replaced, len(found[i]["path_margin"]) - 1
        )
        np.testing.assert_allclose(found[i]["delta"], list(drops.values()), **tolerance)
        np.testing.assert_allclose(found[i]["path_margin"], margins, **tolerance)
        assert found[i]["group_order"] == order


def test_a_pipeline_in_its_transformed_space(table, pipeline):
    frame, _ = table
    audit = quiet(pipeline, frame, background=frame, exposure=False)
    assert audit.facts["groups"]["names"] == ["age", "income", "job", "town"]
    # mean_off: the mean of the imputed, scaled numbers, which is 0; no level of a block on
    steps, last = pipeline[0], pipeline[-1]
    widths = {"age": [0], "income": [1], "job": [2, 3, 4], "town": [5, 6]}
    Z = steps.transform(frame)
    base = np.r_[Z[:, :2].mean(axis=0), np.zeros(5)]
    for i in range(0, N, 17):
        p = last.predict_proba(Z[i : i + 1])[0]
        label = int(np.argmax(p))
        for g, index in enumerate(widths.values()):
            state = Z[i].copy()
            state[index] = base[index]
            lost = log_gap(p, label) - log_gap(last.predict_proba(state[None])[0], label)
            assert audit.table["delta"][i].as_py()[g] == pytest.approx(lost, abs=1e-9)


def test_a_pipeline_in_front_of_its_preprocessor(table, pipeline):
    frame, _ = table
    audit = quiet(pipeline, frame, background=frame, exposure=False, space="columns")
    replaced = usual(frame)

    def predict_one(row):
        one = pd.DataFrame([row]).astype({"town": frame["town"].dtype})
        return pipeline.predict_proba(one)[0]

    assert_follows_brute_force(audit, frame, predict_one, replaced, range(0, N, 13), atol=1e-9)


def test_native_categories_and_missing_values(table):
    frame, y = table
    frame = frame.assign(job=frame["job"].astype("category"))
    model = HistGradientBoostingClassifier(
        categorical_features="from_dtype", max_iter=20, random_state=0
    ).fit(frame, y)
    audit = quiet(model, frame, background=frame, exposure=False)
    replaced = usual(frame)

    def predict_one(row):
        one = pd.DataFrame([row]).astype({c: frame[c].dtype for c in ("job", "town")})
        return model.predict_proba(one)[0]

    assert_follows_brute_force(audit, frame, predict_one, replaced, range(0, N, 11), atol=1e-12)
    # and with everything absent, once the background shows that it can be
    with pytest.raises(ConfigError, match=r"absent .* for income, job, town, but the model never"):
        quiet(model, frame, background=frame, exposure=False, baseline="missing")
    gaps = frame.copy()
    gaps.iloc[0] = np.nan
    gone = quiet(model, frame, background=gaps, exposure=False, baseline="missing")
    absent = dict.fromkeys(replaced, np.nan)
    assert_follows_brute_force(gone, frame, predict_one, absent, range(0, N, 23), atol=1e-12)


BOOSTERS = {
    "xgboost": lambda: pytest.importorskip("xgboost").XGBClassifier(
        n_estimators=8, max_depth=3, enable_categorical=True, n_jobs=1
    ),
    "lightgbm": lambda: pytest.importorskip("lightgbm").LGBMClassifier(
        n_estimators=8, min_child_samples=5, verbose=-1, n_jobs=1
    ),
    "catboost": lambda: pytest.importorskip("catboost").CatBoostClassifier(
        iterations=8, depth=3, cat_features=["job", "town"], verbose=False,
        allow_writing_files=False, thread_count=1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BOOSTERS)
def test_boosters_with_native_categories(table, kind):
    frame, y = table
    frame = frame.assign(job=frame["job"].astype("category"))
    model = BOOSTERS[kind]().fit(frame, (y == "yes").astype(int))
    audit = quiet(model, frame, background=frame, exposure=False)
    assert audit.facts["model"]["kind"] == kind
    replaced = usual(frame)

    def predict_one(row):
        one = pd.DataFrame([row]).astype({c: frame[c].dtype for c in ("job", "town")})
        return model.predict_proba(one)[0]

    positions = range(0, N, 19)
    assert_follows_brute_force(audit, frame, predict_one, replaced, positions, atol=2e-6)


def test_a_function_on_a_matrix_as_in_the_readme(table):
    rng = np.random.default_rng(1)
    Z = np.c_[rng.normal(size=(60, 2)), rng.integers(0, 2, (60, 1))]

    def predict(rows):
        p = 1 / (1 + np.exp(-(np.asarray(rows) @ [1.0, -2.0, 0.5])))
        return np.c_[1 - p, p]

    audit = quiet(
        predict, Z, groups={"income": [0, 1], "flag": [2]}, baseline="mean_off", background=Z,
        classes=["no", "yes"], exposure=False,
    )  # fmt: skip
    assert set(audit.to_frame()["predicted_label"]) == {"no", "yes"}
    base = Z.mean(axis=0)
    for i in (0, 7, 31):
        label = int(np.argmax(predict(Z[i : i + 1])[0]))
        state = Z[i].copy()
        state[:2] = base[:2]
        lost = log_gap(predict(Z[i : i + 1])[0], label) - log_gap(predict(state[None])[0], label)
        assert audit.table["delta"][i].as_py()[0] == pytest.approx(lost, abs=1e-12)


def test_one_hot_columns_of_a_matrix_are_switched_off_not_averaged():
    rng = np.random.default_rng(2)
    job = np.eye(3)[rng.integers(0, 3, 80)]
    flags = rng.integers(0, 2, (80, 2))
    Z = np.c_[rng.normal(5, 1, 80), job, flags]

    def predict(rows):
        p = 1 / (1 + np.exp(-(np.asarray(rows) @ [0.3, 1.0, -1.0, 0.5, 1.0, -2.0])))
        return np.c_[1 - p, p]

    groups = {"age": [0], "job": [1, 2, 3], "flags": [4, 5]}
    audit = cfc.audit(predict, Z, background=Z, groups=groups, **OPTIONS)
    expected = [Z[:, 0].mean(), 0, 0, 0, flags[:, 0].mean(), flags[:, 1].mean()]
    np.testing.assert_allclose(audit.facts["baseline"], expected)
    assert [n for n in audit.facts["notes"] if "3 columns of group 'job'" in n]
    assert cfc.verify(audit, predict, Z).ok
    usual = cfc.audit(predict, Z, background=Z, groups=groups, baseline="mode", **OPTIONS)
    assert usual.facts["baseline"][1:4] == np.eye(3)[job.sum(axis=0).argmax()].tolist()


@pytest.mark.parametrize("container", ["pandas", "polars", "arrow", "pandas-arrow"])
def test_containers_give_the_same_certificates(table, pipeline, container):
    frame, _ = table
    expected = quiet(pipeline, frame, background=frame)
    plain = frame.reset_index(drop=True)
    if container == "polars":
        rows = pytest.importorskip("polars").from_pandas(plain)
    elif container == "arrow":
        import pyarrow as pa

        rows = pa.Table.from_pandas(plain)
    elif container == "pandas-arrow":
        rows = plain.convert_dtypes(dtype_backend="pyarrow")
    else:
        rows = plain
    audit = quiet(pipeline, rows, background=frame)
    assert audit.table.drop_columns(["index"]).equals(expected.table.drop_columns(["index"]))
    assert audit.facts["data_hash"] == expected.facts["data_hash"]


# ---- what is returned ---------------------------------------------------------------------------


def test_the_record_keeps_to_its_published_schema(table, pipeline, repository):
    frame, y = table
    audit = quiet(pipeline, frame, background=frame, stress=True, y=y)
    schema = json.loads((repository / "docs/certificate.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for record in audit.table.to_pylist():
        validator.validate(record)
    named = set(schema["properties"]) | {
        c for c in audit.table.column_names if c.startswith(("lambda_", "stress_"))
    }
    assert set(audit.table.column_names) == named
    frame_out = audit.to_frame()
    assert list(frame_out.index) == list(frame.index)
    assert list(frame_out["true_label"]) == list(y)
    s = frame_out["u"] + frame_out["exposure"]
    np.testing.assert_array_equal(frame_out["s"], s)
    by_hand = pd.Series(range(1, N + 1), index=s.sort_values(ascending=False, kind="stable").index)
    assert (frame_out["rank"] == by_hand[frame_out.index]).all()
    assert list(audit.top(3)["rank"]) == [1, 2, 3]


def test_a_file_names_the_libraries_that_matter_and_no_others(table, pipeline):
    import matplotlib

    assert matplotlib.__version__
    frame, _ = table
    audit = quiet(pipeline, frame, background=frame, exposure=False)
    named = audit.facts["model"]["library_versions"]
    assert set(named) == {"python", "numpy", "pandas", "scikit-learn"}
    assert named["pandas"] == pd.__version__


def test_the_paper_preset_ranks_by_u_and_has_no_exposure(table, pipeline):
    frame, _ = table
    audit = quiet(pipeline, frame, background=frame, protocol="paper")
    assert "s" not in audit.table.column_names
    assert audit.facts["rank_by"] == "u"
    assert audit.facts["protocol"]["baseline"] == "mean"


def test_columns_a_step_mixes_are_one_group_or_refused(table):
    frame, y = table
    numbers = frame[["age", "income"]].fillna(40.0).assign(height=np.arange(N) % 7.0)
    steps = ColumnTransformer([("mixed", PCA(2), ["age", "income"])], remainder="passthrough")
    model = make_pipeline(steps, LogisticRegression()).fit(numbers, y)
    with pytest.raises(GroupError, match="'age', 'income' cannot be separate groups"):
        quiet(model, numbers, background=numbers)
    groups = {"money and age": ["age", "income"], "height": ["height"]}
    audit = quiet(model, numbers, background=numbers, groups=groups)
    assert audit.facts["groups"]["indices"] == [[0, 1], [2]]
    apart = quiet(model, numbers, background=numbers, space="columns")
    assert apart.facts["groups"]["names"] == ["age", "income", "height"]


def test_half_a_vote_is_a_forests_zero(table):
    frame, y = table
    model = transformed_pipeline(RandomForestClassifier(10, random_state=0)).fit(frame, y)
    audit = quiet(model, frame, background=frame, exposure=False)
    assert audit.facts["clip"] == 1 / 20
    p = model.predict_proba(frame)
    raised = np.maximum(p, 1 / 20)
    expected = (raised / raised.sum(axis=1, keepdims=True)).max(axis=1)
    np.testing.assert_allclose(audit.to_frame()["confidence"], expected)


def test_stress_depends_on_the_case_alone(table, pipeline):
    frame, _ = table
    whole = quiet(pipeline, frame, background=frame, stress=True, exposure=False)
    part = quiet(pipeline, frame, background=frame, stress=True, exposure=False, max_rows=50)
    names = [c for c in whole.table.column_names if c.startswith(("stress_", "brittle_"))]
    assert names
    for name in names:
        assert whole.table[name].to_pylist()[:50] == part.table[name].to_pylist()
    confident = np.asarray(whole.table["confidence"])
    stressed = np.array([v is not None for v in whole.table["stress_mask_flip"].to_pylist()])
    np.testing.assert_array_equal(stressed, confident >= 0.85)
    labelled = np.array([v is not None for v in whole.table["brittle_swap"].to_pylist()])
    np.testing.assert_array_equal(labelled, confident >= 0.90)


def test_exposure_and_swapped_values_share_no_background_row(table, pipeline, monkeypatch):
    from cfc.auditing import audit as module

    frame, _ = table
    marked = frame.assign(income=np.arange(N, dtype=float) + 1000)  # each row has its own income
    seen = {}
    original = module.exposure_grid
    monkeypatch.setattr(
        module, "exposure_grid",
        lambda rows, *a, **k: seen.setdefault("rows", rows) is None or original(rows, *a, **k),
    )  # fmt: skip
    plans = []
    original_plan = module.Plan
    monkeypatch.setattr(module, "Plan", lambda **k: plans.append(original_plan(**k)) or plans[-1])
    quiet(pipeline, marked, background=marked, stress=True)
    grid_rows = set(seen["rows"]["income"])
    scaler = pipeline[0].named_transformers_["numbers"][-1]
    incomes = plans[0].donors[:, 1] * scaler.scale_[1] + scaler.mean_[1]
    donors = set(np.round(incomes))
    assert len(donors) == N // 2
    assert len(grid_rows) == N - N // 2
    assert not donors & grid_rows


# ---- the same bytes, resuming, limits, failing models -------------------------------------------


def test_two_processes_and_two_chunk_sizes_give_the_same_file(repository, tmp_path):
    code = """
import cfc
from unit.test_audit import people, transformed_pipeline
from sklearn.ensemble import RandomForestClassifier
frame, y = people()
model = transformed_pipeline(RandomForestClassifier(20, random_state=0)).fit(frame, y)
audit = cfc.audit(model, frame, background=frame, stress=True, progress=False, chunk_bytes={chunk})
audit.to_parquet({out!r})
"""
    paths = [str(repository / "src"), str(repository / "tests")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    files = []
    for number, chunk in enumerate((1 << 12, 64 << 20)):
        out = str(tmp_path / f"{number}.parquet")
        script = code.format(chunk=chunk, out=out)
        subprocess.run([sys.executable, "-c", script], check=True, timeout=300, env=environment)
        files.append(out)
    first, second = (Path(f).read_bytes() for f in files)
    assert first == second


class Counting:
    """A model that can be told to fail at a call, or to be slow."""

    def __init__(self, weights, fail_at=None, wait=0.0):
        self.weights, self.fail_at, self.wait, self.calls = weights, fail_at, wait, 0

    def __call__(self, rows):
        self.calls += len(rows) > 64  # probes and the baseline are asked in small batches
        if self.fail_at is not None and len(rows) > 64 and self.calls >= self.fail_at:
            raise RuntimeError("the disk is on fire")
        time.sleep(self.wait)
        p = 1 / (1 + np.exp(-(np.asarray(rows) @ self.weights)))
        return np.c_[1 - p, p]


def matrix(n):
    return np.random.default_rng(0).normal(size=(n, 3))


OPTIONS = {"classes": ["a", "b"], "exposure": False, "progress": False}


def test_a_model_that_fails_on_the_way_loses_nothing(tmp_path, monkeypatch):
    from cfc.auditing import audit as module

    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    Z, weights = matrix(1000), np.array([1.0, -2.0, 0.5])
    whole = cfc.audit(Counting(weights), Z, background=Z, **OPTIONS)
    folder = tmp_path / "kept"
    broken = Counting(weights)
    broken.fail_at = 5  # two calls a block of 256 cases, some before the first
    with pytest.raises(module.AuditInterrupted, match="the disk is on fire") as caught:
        cfc.audit(broken, Z, background=Z, resume=folder, **OPTIONS)
    done = len(caught.value.partial)
    assert done in (256, 512)
    assert f"{done} cases are done and kept in" in str(caught.value)
    good = Counting(weights)
    again = cfc.audit(good, Z, background=Z, resume=folder, **OPTIONS)
    assert again.table.equals(whole.table)
    assert again.facts == whole.facts
    fresh = Counting(weights)
    cfc.audit(fresh, Z, background=Z, **OPTIONS)
    assert good.calls < fresh.calls


def test_blocks_of_another_audit_are_not_taken_over(tmp_path):
    Z, weights = matrix(300), np.array([1.0, -2.0, 0.5])
    cfc.audit(Counting(weights), Z, background=Z, resume=tmp_path / "kept", **OPTIONS)
    with pytest.raises(ArtifactError, match=r"another audit: .*seed.* changed"):
        cfc.audit(Counting(weights), Z, background=Z, resume=tmp_path / "kept", seed=1, **OPTIONS)


def test_a_time_limit_keeps_what_is_done(tmp_path):
    Z, slow = matrix(1500), Counting(np.array([1.0, -2.0, 0.5]), wait=0.05)
    audit = cfc.audit(slow, Z, background=Z, max_seconds=0.01, resume=tmp_path / "kept", **OPTIONS)
    assert not audit.is_complete
    assert 0 < len(audit) < 1500
    assert f"{len(audit)} of 1500 cases" in audit.summary()
    quick = Counting(np.array([1.0, -2.0, 0.5]))
    assert cfc.audit(quick, Z, background=Z, resume=tmp_path / "kept", **OPTIONS).is_complete


def test_a_model_that_changes_its_answers_is_reported():
    rng = np.random.default_rng(0)

    def noisy(rows):
        p = np.clip(0.5 + 0.1 * np.asarray(rows)[:, 0] + rng.normal(0, 0.01, len(rows)), 0.01, 0.99)
        return np.c_[1 - p, p]

    Z = matrix(40)
    with pytest.warns(cfc.CfcWarning, match="changes"):
        audit = cfc.audit(noisy, Z, background=Z, **OPTIONS)
    assert any("changes" in note for note in audit.facts["notes"])


# ---- bad input ----------------------------------------------------------------------------------


def test_what_needs_a_background_says_so(table, pipeline):
    frame, _ = table
    with pytest.raises(
        ConfigError, match=r'baseline "mean_off" and exposure .* need training rows'
    ):
        quiet(pipeline, frame)
    with pytest.raises(ConfigError, match="stress need training rows"):
        quiet(pipeline, frame, baseline="missing", exposure=False, stress=True)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda f: f.drop(columns="age"), DataError, "age"),
        (lambda f: f.assign(extra=1), DataError, "extra"),
        (lambda f: f.iloc[:0], DataError, "no row"),
        (lambda f: pd.concat([f, f]), DataError, "index is not unique"),
        (lambda f: f.assign(income="much"), DataError, "income"),
        (lambda f: f.assign(job=3), DataError, "job"),
    ],
)
def test_rows_that_do_not_fit(table, pipeline, change, error, message):
    frame, _ = table
    with pytest.raises(error, match=message):
        quiet(pipeline, change(frame), background=frame)


def test_reordered_columns_and_one_row_are_fine(table, pipeline):
    frame, _ = table
    audit = quiet(pipeline, frame.iloc[:1, ::-1], background=frame)
    assert len(audit) == 1
    whole = quiet(pipeline, frame, background=frame)
    assert audit.table["u"][0] == whole.table["u"][0]


def test_one_group_of_everything(table, pipeline):
    frame, _ = table
    audit = quiet(pipeline, frame, background=frame, groups={"all": list(frame.columns)})
    assert set(map(len, audit.table["path_margin"].to_pylist())) == {2}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"protocol": "adit"}, ConfigError, "nearest known: audit"),
        ({"protocol": 5}, ConfigError, "must be a preset name"),
        ({"groups": {"a": ["age", "jbo"]}}, GroupError, "nearest known: job"),
        ({"ungrouped": "none"}, ConfigError, "one of error, each, fixed"),
        ({"baseline": "average"}, ConfigError, "average"),
        ({"baseline": {"age": 3}}, ConfigError, "it lacks income, job, town"),
        ({"baseline": "given"}, ConfigError, "needs the row itself"),
        ({"rank_by": "fds"}, ConfigError, "one of 's'"),
        ({"max_rows": 0}, ConfigError, "at least one row"),
        ({"space": "raw"}, ConfigError, "space"),
        ({"y": ["yes"]}, DataError, "1 labels for 120 rows"),
        ({"stress": {"swop": {"severities": [0.1], "draws": 2}}}, ConfigError, "swap"),
    ],
)
def test_options_that_are_not_valid(table, pipeline, options, error, message):
    frame, _ = table
    with pytest.raises(error, match=message):
        quiet(pipeline, frame, background=frame, **options)


def test_a_mean_of_categories_is_refused_in_raw_columns(table, pipeline):
    frame, _ = table
    with pytest.raises(ConfigError, match='"mean" does not exist for nominal columns'):
        quiet(pipeline, frame, background=frame, space="columns", protocol="paper")


def test_a_model_that_never_saw_absence_takes_no_absent_baseline():
    data = load_breast_cancer(as_frame=True)
    model = LogisticRegression(max_iter=20000).fit(data.data, data.target)
    with pytest.raises((ConfigError, ModelError), match=r"absent|missing"):
        quiet(model, data.data, background=data.data, baseline="missing", exposure=False)


def test_a_level_nobody_saw_is_named_not_scored(table):
    frame, y = table
    steps = ColumnTransformer([("codes", OrdinalEncoder(), ["job", "town"])], remainder="drop")
    model = make_pipeline(steps, LogisticRegression()).fit(frame, y)
    strange = frame.assign(job=frame["job"].where(frame["job"] != "clerk", "pilot"))
    with pytest.raises(DataError, match="'job' has levels the model does not know: 'pilot'"):
        quiet(model, strange, background=frame, space="columns")


def test_a_level_the_pipeline_ignores_is_noted(table, pipeline):
    frame, _ = table
    strange = frame.assign(job=frame["job"].mask(frame.index == "p4", "pilot"))
    audit = quiet(pipeline, strange, background=frame)
    (note,) = [n for n in audit.facts["notes"] if "pilot" in n]
    assert note.startswith("column 'job' has levels the model does not know: 'pilot' (1 row")
    assert "own rule for unknown levels" in audit.summary()


def test_the_file_opens_elsewhere(table, pipeline, tmp_path):
    frame, _ = table
    path = tmp_path / "c.parquet"
    audit = quiet(pipeline, frame, background=frame)
    audit.to_parquet(path)
    again = cfc.Audit.from_parquet(path, frame)
    assert again.table.equals(audit.table)
    assert again.facts == json.loads(json.dumps(audit.facts))
    assert pq.read_table(path).num_rows == N
    polars = pytest.importorskip("polars")
    assert polars.read_parquet(path)["rank"].to_list() == audit.table["rank"].to_pylist()
    duckdb = pytest.importorskip("duckdb")
    query = f"select count(*), min(rank) from '{path}' where confidence > 0"
    assert duckdb.sql(query).fetchall() == [(N, 1)]
