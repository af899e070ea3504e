"""Cleaning, splitting and scaling of the recourse benchmark's data; its seeds."""

import numpy as np
import pandas as pd
import pytest
import yaml
from recourse_toys import toy_data

from cfc.data.registry import DatasetSpec
from cfc.errors import ArtifactError, ConfigError, DataError
from cfc.recourse.data import RecourseData, distance_scale, prepare, split_parts
from cfc.recourse.seeds import SeedPlan

SIZES = {  # published: rows of class 0 and 1, then train, update, validation, test
    "breast_cancer": ((212, 357), (284, 57, 57, 171)),
    "diabetes": ((268, 500), (384, 76, 77, 231)),
    "wine_quality": ((2384, 4113), (3248, 649, 650, 1950)),
    "heloc": ((4251, 4040), (4145, 829, 829, 2488)),
}


def table(rows=60, **columns):
    rng = np.random.default_rng(0)
    frame = {"a": rng.normal(size=rows), "b": rng.normal(size=rows)} | columns
    return pd.DataFrame({**frame, "class": np.where(np.arange(rows) % 2, "yes", "no")})


def spec(fields=None, classes=("no", "yes")):
    entry = {
        "title": "T",
        "source": {"kind": "file", "path": "x.csv"},
        "target": "class",
        "classes": list(classes),
        "fields": fields or {"a": "numeric", "b": "numeric"},
    }
    return DatasetSpec.from_mapping("toy", entry)


@pytest.mark.parametrize("name", SIZES)
def test_the_published_part_sizes_come_out_and_parts_are_disjoint(name):
    counts, sizes = SIZES[name]
    y = np.repeat([0, 1], counts)
    parts = split_parts(np.random.default_rng(0).permutation(y), 2026)
    assert tuple(len(parts[p]) for p in ("train", "update", "validation", "test")) == sizes
    assert np.array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(len(y)))


def test_training_rows_are_standardised_and_other_parts_use_their_numbers():
    frame = table(200)
    data = prepare(frame, spec(), favourable=["yes"], seed=1)
    train = data.X["train"].astype(float)
    assert np.allclose(train.mean(axis=0), 0, atol=1e-6)
    assert np.allclose(train.std(axis=0), 1, atol=1e-6)
    raw = frame[["a", "b"]].to_numpy()
    for part in ("update", "test"):
        back = data.X[part] * data.sd + data.mean
        assert np.allclose(back, raw[data.row_id[part]], atol=1e-5)
        labels = (frame["class"].to_numpy()[data.row_id[part]] == "yes").astype(int)
        assert np.array_equal(data.y[part], labels)


def test_the_distance_unit_falls_back_to_deviation_and_then_to_one():
    x = np.zeros((100, 3))
    x[:, 0] = np.arange(100)  # median absolute deviation of 0..99 is 25
    x[:10, 1] = 5.0  # half of the values agree: 0, so the deviation 5·sqrt(.1·.9)
    scale = distance_scale(x)
    assert scale == pytest.approx([25.0, 5 * np.sqrt(0.09), 1.0])


@pytest.mark.parametrize(
    ("frame", "declared", "options", "words"),
    [
        (
            table(c=["x"] * 60),
            {"fields": {"a": "numeric", "c": "nominal"}},
            {},
            "nominal features: 'c'",
        ),
        (table(), {"classes": ("no", "yes", "maybe")}, {"favourable": None}, "is not binary"),
        (table(), {}, {"favourable": ["yse"]}, "no label 'yse'; nearest known: yes"),
        (table(), {}, {"favourable": ["yes", "no"]}, "leave at least one out"),
        (table(), {}, {"drop": ["aa"]}, "no feature 'aa'"),
        (table(b=[np.nan] * 60), {}, {}, "missing values in 'b'"),
        (table(a=np.full(60, -1.0)), {}, {"drop_rows_below": 0}, "each class needs"),
    ],
)
def test_unfit_data_are_refused_by_name(frame, declared, options, words):
    with pytest.raises(DataError, match=words):
        prepare(frame, spec(**declared), **{"favourable": ["yes"], "seed": 0} | options)


def test_a_nominal_column_that_is_dropped_does_not_matter():
    declared = spec({"a": "numeric", "b": "numeric", "c": "nominal"})
    data = prepare(table(c=["x"] * 60), declared, favourable=["yes"], seed=0, drop=["c"])
    assert data.fields == ("a", "b")


def test_data_survive_the_file_and_other_files_are_refused(tmp_path):
    data = toy_data(3)
    data.write(tmp_path / "d.parquet", {"rule": "x"})
    back = RecourseData.read(tmp_path / "d.parquet")
    for part in data.X:
        assert np.array_equal(back.X[part], data.X[part])
        assert np.array_equal(back.y[part], data.y[part])
        assert np.array_equal(back.row_id[part], data.row_id[part])
    assert np.array_equal(back.scale, data.scale)
    assert back.fields == data.fields
    first = (tmp_path / "d.parquet").read_bytes()
    data.write(tmp_path / "d.parquet", {"rule": "x"})
    assert (tmp_path / "d.parquet").read_bytes() == first
    import pyarrow as pa

    from cfc.artifacts import write_table

    write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(ArtifactError, match="prepare_recourse"):
        RecourseData.read(tmp_path / "other.parquet")


def test_heloc_without_codes_is_the_published_table(repository, shared_data, tmp_path):
    from cfc.data import acquire, read_dataset

    registry = yaml.safe_load((repository / "config/datasets.yaml").read_text())
    config = yaml.safe_load((repository / "config/recourse.yaml").read_text())["recourse"]
    declared = DatasetSpec.from_mapping("heloc", registry["dataset_registry"]["heloc"])
    acquire(declared, shared_data, tmp_path / "h.parquet", tmp_path / "h.json")
    options = config["dataset_options"]["heloc"]
    data = prepare(read_dataset(tmp_path / "h.parquet"), declared, seed=2026, **options)
    assert (data.facts["rows"], data.n_features) == (8291, 20)
    assert sum(int(y.sum()) for y in data.y.values()) == 4040


def test_published_seeds_are_the_offsets_of_the_paper():
    plan = SeedPlan("parity", "diabetes")
    assert plan.seed("base", 3) == 2029
    assert plan.seed("new_initialization", 0, replicate=0) == plan.seed("base", 1)
    assert plan.seed("data_deletion", 1, level=0.05, replicate=2) == 2027 + 20000 + 50 + 2
    assert plan.seed("parameter_perturbation", 0, level=0.001, replicate=4) == 2026 + 80000 + 1004
    # five base models, 25 seeds each: the overlap the independent plan is for
    assert (
        len({plan.seed("new_initialization", b, replicate=r) for b in range(5) for r in range(25)})
        == 29
    )


def test_independent_seeds_never_repeat():
    seen = {
        SeedPlan("independent", d).seed(purpose, b, level_index=i, replicate=r)
        for d in ("breast_cancer", "diabetes", "a_set_of_ones_own")
        for purpose in ("base", "bootstrap", "betarce_ensemble", "a_purpose_of_ones_own")
        for b in range(5)
        for i in range(3)
        for r in range(10)
    }
    assert len(seen) == 3 * 4 * 5 * 3 * 10
    assert all(0 <= s < 2**63 for s in seen)


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigError, match="nearest known: parity"):
        SeedPlan("party", "diabetes")
