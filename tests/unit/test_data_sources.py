import hashlib
import json
import struct
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import yaml

from cfc.artifacts import read_metadata, write_table
from cfc.data import DatasetSpec, acquire, load_registry, read_dataset
from cfc.data.clean import clean_table
from cfc.data.sources import find_file, load_raw, read_any
from cfc.errors import ArtifactError, ConfigError, DataError

ENTRY = {
    "title": "Small",
    "source": {"kind": "openml", "id": 31},
    "file": "small-set",
    "target": "class",
    "classes": ["bad", "good"],
    "fields": {"age": "numeric", "status [x] <y>": "nominal"},
}
SPEC = DatasetSpec.from_mapping("small_set", ENTRY)
TABLE = pd.DataFrame(
    {
        "age": [1.5, np.nan, 3, 4, 5, -6],
        "status [x] <y>": ["no checking", "<0", "a, b", None, "it's", "<0"],
        "class": ["good", "bad"] * 3,
    }
)
ARFF = """@relation x
@attribute age numeric
@attribute 'status [x] <y>' {'no checking','<0','a, b','it\\'s'}
@attribute class {good,bad}
@data
1.5,'no checking',good
?,'<0',bad
3,'a, b',good
4,?,bad
5,'it\\'s',good
-6,'<0',bad
"""


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "data"
    path.mkdir()
    return path


@pytest.fixture(scope="module")
def registry(repository):
    text = (repository / "config" / "datasets.yaml").read_text(encoding="utf-8")
    return load_registry(yaml.safe_load(text)["dataset_registry"])


def write(folder, kind, stem="small-set"):
    path = folder / f"{stem}.{kind}"
    if kind == "parquet":
        TABLE.assign(**{"class": TABLE["class"].astype("category")}).to_parquet(path)
    elif kind == "csv":
        TABLE.to_csv(path, index=False)
    else:
        path.write_text(ARFF)
    return path


def take(folder, out, spec=SPEC):
    facts = acquire(spec, folder, out / "t.parquet", out / "t.json")
    return read_dataset(out / "t.parquet"), facts


def hash_by_hand() -> str:
    """The content hash as its docstring words it: each block after its length in 8 bytes."""
    head = {
        "columns": [["age", "numeric"], ["status [x] <y>", "nominal"], ["class", "target"]],
        "rows": 6,
    }
    statuses = ["<0", "a, b", "it's", "no checking"]
    blocks = [
        json.dumps(head).encode(),
        struct.pack("<6d", 1.5, float("nan"), 3, 4, 5, -6),
        json.dumps(statuses).encode(),
        struct.pack("<6i", 3, 0, 1, -1, 2, 0),
        json.dumps(["bad", "good"]).encode(),
        struct.pack("<6i", 1, 0, 1, 0, 1, 0),
    ]
    return hashlib.sha256(b"".join(struct.pack("<Q", len(b)) + b for b in blocks)).hexdigest()


@pytest.mark.parametrize("kind", ["parquet", "csv", "arff"])
def test_each_format_gives_the_same_table(folder, tmp_path, kind):
    if kind == "arff":
        pytest.importorskip("arff")
    path = write(folder, kind)
    table, facts = take(folder, tmp_path / "out")
    expected = [1.5, None, 3.0, 4.0, 5.0, -6.0]
    assert [None if np.isnan(v) else v for v in table["age"]] == expected
    assert table["age"].dtype == np.float64
    assert table["status [x] <y>"].tolist() == ["no checking", "<0", "a, b", None, "it's", "<0"]
    assert table["class"].tolist() == ["good", "bad"] * 3
    assert facts["source"]["file"] == path.name
    assert facts["source"]["stands_for_openml_id"] == 31
    assert str(tmp_path) not in json.dumps(facts)
    assert facts["sha256"] == hash_by_hand()


def test_written_files_are_plain_and_repeatable(folder, tmp_path):
    import pyarrow.parquet as pq

    write(folder, "csv")
    take(folder, tmp_path / "a")
    take(folder, tmp_path / "b")
    for name in ("t.parquet", "t.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    schema = pq.read_schema(tmp_path / "a" / "t.parquet")
    assert [str(t) for t in schema.types] == ["double", "string", "string"]
    facts = json.loads((tmp_path / "a" / "t.json").read_text())
    assert read_metadata(tmp_path / "a" / "t.parquet")["sha256"] == facts["sha256"]
    assert facts["class_counts"] == {"bad": 3, "good": 3}


def test_parquet_goes_before_csv_and_file_name_before_key(folder):
    for kind in ("arff", "csv"):
        write(folder, kind)
    assert find_file(SPEC, folder).name == "small-set.csv"
    write(folder, "parquet", "small_set")
    assert find_file(SPEC, folder).name == "small_set.parquet"
    write(folder, "parquet")
    assert find_file(SPEC, folder).name == "small-set.parquet"


def test_missing_file_names_what_is_there(folder):
    (folder / "smal-set.csv").write_text("a")
    (folder / "bank.parquet").write_text("a")
    (folder / "notes.txt").write_text("a")
    with pytest.raises(DataError) as caught:
        find_file(SPEC, folder)
    message = str(caught.value)
    assert "small-set.parquet, small_set.parquet, small-set.csv" in message
    assert "there are bank.parquet, smal-set.csv; nearest known: smal-set.csv" in message
    assert "OpenML id 31" in message
    with pytest.raises(DataError, match="is not a folder"):
        find_file(SPEC, folder / "nowhere")


@pytest.mark.parametrize("kind", ["parquet", "csv", "arff"])
@pytest.mark.parametrize("damage", ["empty", "blank", "cut", "noise"])
def test_damaged_file_is_named_and_leaves_nothing(folder, tmp_path, kind, damage):
    if kind == "arff":
        pytest.importorskip("arff")
    path = write(folder, kind)
    content = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "blank": b"\n  \n",
            "cut": content[: -len(content) // 3].rstrip() if kind == "parquet" else content[:-9],
            "noise": bytes(range(128, 256)) * 4,
        }[damage]
    )
    with pytest.raises(DataError, match="fetch it again") as caught:
        take(folder, tmp_path / "out")
    assert path.name in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("age,age,class\n1,2,good\n", "more than once: 'age'"),
        ("age,class\n1,good,3\n2,bad,4\n", "cannot be read as CSV"),
        ("age,class\n1,good\n2\n3,bad\n", "cannot be read as CSV"),
        ("age,class\n", "no rows"),
        ('age,class\n1,"good\n', "cannot be read as CSV"),
    ],
)
def test_bad_csv(folder, text, part):
    path = folder / "small-set.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=part):
        clean_table(read_any(path), SPEC)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_separators_and_byte_order_mark(folder, separator):
    path = folder / "small-set.csv"
    lines = [separator.join(row) for row in (["age", "class"], ["1,5", "x"], ["NA", ""])]
    if separator == ",":
        lines[1] = '"1,5",x'
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    frame = read_any(path)
    assert list(frame.columns) == ["age", "class"]
    assert frame["age"].tolist() == ["1,5", "NA"]
    assert frame["class"].tolist() == ["x", ""]


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("@data", "", "no @data line"),
        ("5,'it\\'s',good", "5,'it\\'s'", "cannot be read as ARFF"),
        ("5,'it\\'s',good", "5,x,good", "cannot be read as ARFF"),
        ("age numeric", "age wrong", "cannot be read as ARFF"),
        ("1.5,", "one,", "cannot be read as ARFF"),
    ],
)
def test_bad_arff(folder, old, new, part):
    pytest.importorskip("arff")
    path = folder / "small-set.arff"
    assert old in ARFF
    path.write_text(ARFF.replace(old, new))
    with pytest.raises(DataError, match=part):
        read_any(path)


PLAIN_ARFF = """@RELATION r
@ATTRIBUTE a REAL
@ATTRIBUTE b {x, y z ,1}
@ATTRIBUTE c INTEGER
@ATTRIBUTE d STRING

@DATA
% comment
1e3, x,?,t
?,1 ,-2, ?

-0.5,?,3,NA
"""


def test_quick_and_careful_arff_agree():
    pytest.importorskip("arff")
    from cfc.data.arff import ArffError, parse_arff

    text = PLAIN_ARFF.replace("y z", "y")
    names, quick = parse_arff(text)
    assert names == ["a", "b", "c", "d"]
    for fast, slow in zip(quick, parse_arff(text, quick=False)[1], strict=True):
        assert fast.dtype == slow.dtype
        np.testing.assert_array_equal(fast, slow)
    assert quick[1].tolist() == ["x", "1", None]
    assert quick[3].tolist() == ["t", None, "NA"]
    for old, new, part in (
        ("-0.5,?,3,NA", "-0.5,?,3", "row 3 has 3 cells"),
        ("-0.5,?,3,NA", "-0.5,w,3,NA", "'w', which is not declared"),
        ("1e3,", "1f3,", "numeric attribute 'a'"),
    ):
        with pytest.raises(ArffError, match=part):
            parse_arff(text.replace(old, new))


def test_kind_file_reads_its_path_and_never_data_dir(folder, tmp_path):
    path = write(folder, "csv", "other")
    spec = DatasetSpec.from_mapping(
        "small_set", {**ENTRY, "source": {"kind": "file", "path": str(path)}}
    )
    table, facts = take(tmp_path / "nowhere", tmp_path / "out", spec)
    assert len(table) == 6
    assert facts["source"]["kind"] == "file"
    gone = DatasetSpec.from_mapping(
        "small_set", {**ENTRY, "source": {"kind": "file", "path": str(folder / "no.csv")}}
    )
    with pytest.raises(DataError, match=r"no\.csv cannot be opened: No such file"):
        load_raw(gone)
    text = DatasetSpec.from_mapping(
        "small_set", {**ENTRY, "source": {"kind": "file", "path": "no.xlsx"}}
    )
    with pytest.raises(DataError, match=r"'\.xlsx' is none of"):
        load_raw(text)


def test_bundled_sets_need_no_folder(registry, tmp_path):
    digits, facts = take(None, tmp_path / "a", registry["digits"])
    assert digits.shape == (1797, 65)
    assert facts["warnings"][0] == "field 'pixel_0_0' holds one value only: 0"
    cancer, _ = take(tmp_path / "nowhere", tmp_path / "b", registry["breast_cancer"])
    assert cancer.shape == (569, 31)
    # First row of the bundled file: a malignant case.
    assert cancer["mean radius"][0] == 17.99
    assert cancer["class"][0] == "malignant"
    unknown = DatasetSpec.from_mapping(
        "x", {**ENTRY, "source": {"kind": "sklearn", "name": "digit"}}
    )
    with pytest.raises(ConfigError, match="nearest known: digits"):
        load_raw(unknown)


def test_reading_back_refuses_other_files(tmp_path):
    import pyarrow as pa

    with pytest.raises(ArtifactError, match="does not exist"):
        read_dataset(tmp_path / "no.parquet")
    write_table(pa.table({"a": [1]}), tmp_path / "a.parquet", {})
    with pytest.raises(ArtifactError, match="no data set"):
        read_dataset(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(ArtifactError, match="cannot be read"):
        read_dataset(tmp_path / "b.parquet")


def test_import_is_light(repository):
    code = (
        "import sys, cfc.data; "
        "print([m for m in ('numpy', 'pandas', 'sklearn', 'openml', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(repository / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


# ---- the public copies

NAMES = ("adult", "bank", "credit_g", "default", "electricity", "heloc", "covertype")


@pytest.fixture(scope="module")
def public(shared_data, registry, tmp_path_factory):
    """Acquired copies, each made once."""
    out = tmp_path_factory.mktemp("public")
    made = {}

    def get(name):
        if name not in made:
            begin = time.perf_counter()
            facts = acquire(
                registry[name], shared_data, out / f"{name}.parquet", out / f"{name}.json"
            )
            seconds = time.perf_counter() - begin
            made[name] = (read_dataset(out / f"{name}.parquet"), facts, seconds)
        return made[name]

    return get


@pytest.mark.parametrize("name", NAMES)
def test_public_set_fits_its_entry(public, registry, name):
    table, facts, _ = public(name)
    spec = registry[name]
    assert list(table.columns) == [*spec.field_names, spec.target]
    assert len(table) == spec.rows
    assert facts["class_counts"] == dict(spec.class_counts)
    assert facts["warnings"] == []
    missing = {f["name"]: f["missing"] for f in facts["fields"] if f["missing"]}
    adult = {"workclass": 2799, "occupation": 2809, "native-country": 857}
    assert missing == (adult if name == "adult" else {})


def test_public_facts(public):
    adult = public("adult")[0]
    assert adult.loc[[0, 16281], ["age", "fnlwgt"]].to_numpy().tolist() == [
        [25, 226802],
        [39, 77516],
    ]
    bank = public("bank")[0]
    assert (bank["pdays"] == -1).sum() == 36954
    assert ((bank["pdays"] == -1) == (bank["previous"] == 0)).all()
    unknown = {f["name"]: f.get("unavailable") for f in public("bank")[1]["fields"]}
    assert unknown["job"] == {"unknown": 288}
    assert unknown["education"] == {"unknown": 1857}
    assert unknown["contact"] == {"unknown": 13020}
    assert unknown["poutcome"] == {"unknown": 36959}
    heloc = public("heloc")[1]["fields"]
    totals = [sum(f["markers"][code] for f in heloc) for code in ("-7", "-8", "-9")]
    assert totals == [6519, 6114, 13534]
    credit = {f["name"]: f for f in public("credit_g")[1]["fields"]}
    assert credit["checking_status"]["unavailable"] == {"no checking": 394}
    assert "vacation" not in credit["purpose"]["levels"]
    default = public("default")[0]
    assert default["EDUCATION"].isin([0, 5, 6]).sum() == 345
    assert (default["MARRIAGE"] == 0).sum() == 54
    electricity = public("electricity")[0]
    assert sorted(electricity["day"].unique()) == list("1234567")
    assert np.mean(electricity["class"].to_numpy()[1:] == electricity["class"].to_numpy()[:-1]) == (
        pytest.approx(0.85, abs=0.005)
    )


def test_public_covertype_is_decoded_quickly(public, shared_data):
    table, facts, seconds = public("covertype")
    assert seconds < 10
    assert table.shape == (581012, 13)
    levels = {f["name"]: f["levels"] for f in facts["fields"] if f["kind"] == "nominal"}
    assert len(levels["Wilderness_Area"]) == 4
    assert len(levels["Soil_Type"]) == 40
    assert levels["Soil_Type"]["15"] == 3
    head = table.head(15120)["class"].value_counts().to_dict()
    assert head == {str(c): 2160 for c in range(1, 8)}
    # An independent decoding: the position of the one, row by row.
    raw = pd.read_parquet(shared_data / "covertype.parquet")
    soil = raw[[f"Soil_Type{i}" for i in range(1, 41)]].to_numpy()
    assert (soil.argmax(axis=1) + 1 == table["Soil_Type"].astype(int)).all()


@pytest.mark.parametrize("name", ["bank", "default"])
def test_openml_names_and_codes_give_the_same_content(
    public, registry, shared_data, tmp_path, name
):
    spec = registry[name]
    raw = pd.read_parquet(shared_data / f"{name}.parquet")
    back = {ours: theirs for theirs, ours in spec.rename.items()}
    table = raw.rename(columns=back)
    if name == "bank":
        table["Class"] = (raw["y"] == "yes").astype(int) + 1
        assert list(table.columns) == [f"V{i}" for i in range(1, 17)] + ["Class"]
    else:
        assert list(table.columns) == [f"x{i}" for i in range(1, 24)] + ["y"]
    table.to_csv(tmp_path / f"{name}.csv", index=False)
    _, facts = take(tmp_path, tmp_path / "out", spec)
    assert facts["sha256"] == public(name)[1]["sha256"]
