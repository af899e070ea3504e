"""Files: whole or not there, equal bytes for equal content, damage named."""

import errno
import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cfc import artifacts
from cfc.errors import ArtifactError


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "row_id": np.arange(1000),
            "split": pa.array(rng.choice(["train", "valid", "test"], size=1000)),
            "proba": artifacts.matrix_to_lists(rng.random((1000, 3))),
            "order": pa.array([["b", "a"], ["a"]] * 500),
            "maybe": pa.array([None, 1.5] * 500),
        }
    )


def leftovers(folder):
    return sorted(p.name for p in Path(folder).rglob("*"))


def test_a_table_comes_back_with_its_metadata(table, tmp_path):
    path = tmp_path / "new" / "folder" / "t.parquet"
    artifacts.write_table(table, path, {"protocol_hash": "abc", "n": 3, "path": Path("x/y")})
    assert artifacts.read_table(path).equals(table)
    assert artifacts.read_table(path, ["split", "row_id"]).column_names == ["split", "row_id"]
    assert artifacts.read_metadata(path) == {
        "schema_version": artifacts.SCHEMA_VERSION, "protocol_hash": "abc", "n": 3, "path": "x/y",
    }  # fmt: skip
    assert leftovers(path.parent) == ["t.parquet"]


def test_equal_content_gives_equal_bytes(table, tmp_path):
    facts = {"b": 1, "a": {"y": 2.0, "x": [1]}}
    artifacts.write_table(table, tmp_path / "a.parquet", facts)
    again = pa.concat_tables([table.slice(0, 300), table.slice(300)])
    turned = {"a": {"x": [1], "y": 2}, "b": 1}
    artifacts.write_table(again, tmp_path / "b.parquet", turned)
    first, second = ((tmp_path / f"{n}.parquet").read_bytes() for n in "ab")
    assert first == second
    artifacts.write_table(table, tmp_path / "c.parquet", {"b": 2})
    assert (tmp_path / "c.parquet").read_bytes() != first


def test_metadata_of_pandas_does_not_travel(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pa.Table.from_pandas(pandas.DataFrame({"a": [1, 2]}))
    artifacts.write_table(table, tmp_path / "t.parquet")
    assert set(pq.read_schema(tmp_path / "t.parquet").metadata) == {b"cfc"}


def test_a_foreign_file_has_no_metadata(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    assert artifacts.read_metadata(tmp_path / "t.parquet") == {}


def test_missing_columns_are_named(table, tmp_path):
    artifacts.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ArtifactError, match="has no column margin, u"):
        artifacts.read_table(tmp_path / "t.parquet", ["split", "margin", "u"])


@pytest.mark.parametrize("reader", [artifacts.read_table, artifacts.read_metadata])
def test_damage_is_named(table, tmp_path, reader):
    with pytest.raises(ArtifactError, match=r"gone\.parquet does not exist"):
        reader(tmp_path / "gone.parquet")
    path = tmp_path / "t.parquet"
    artifacts.write_table(table, path)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:-3], b"", b"PAR1"):
        path.write_bytes(damaged)
        with pytest.raises(ArtifactError, match=r"t\.parquet cannot be read as Parquet"):
            reader(path)


@pytest.mark.parametrize("reader", [artifacts.read_table, artifacts.read_metadata])
def test_another_schema_version_is_refused_by_name(table, tmp_path, monkeypatch, reader):
    path = tmp_path / "old.parquet"
    with monkeypatch.context() as earlier:
        earlier.setattr(artifacts, "SCHEMA_VERSION", 0)
        artifacts.write_table(table, path)
        reader(path)
    with pytest.raises(ArtifactError, match=r"old\.parquet was written under schema version 0"):
        reader(path)


def test_a_flipped_byte_in_the_data_is_noticed_or_harmless(table, tmp_path):
    path = tmp_path / "t.parquet"
    artifacts.write_table(table, path)
    whole = bytearray(path.read_bytes())
    for position in range(10, len(whole) // 2, 997):
        spoilt = bytearray(whole)
        spoilt[position] ^= 0xFF
        path.write_bytes(spoilt)
        # any other exception fails the test
        with suppress(ArtifactError):
            artifacts.read_table(path)


# ---- atomic writes


def full_disk(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write_text(path):
    artifacts.write_text("x", path)


def write_table(path):
    artifacts.write_table(pa.table({"a": [1]}), path)


@pytest.mark.parametrize("write", [write_text, write_table])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("before", [None, b"the old file"])
def test_a_full_disk_at_the_rename_leaves_all_as_it_was(tmp_path, monkeypatch, write, code, before):
    path = tmp_path / "t.x"
    if before:
        path.write_bytes(before)

    def refuse(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ArtifactError, match=r"no space left while writing .*t\.x"):
        write(path)
    assert leftovers(tmp_path) == (["t.x"] if before else [])
    assert not before or path.read_bytes() == before


@pytest.mark.parametrize("write", [write_text, write_table])
def test_a_full_disk_while_writing_leaves_nothing(tmp_path, monkeypatch, write):
    monkeypatch.setattr(Path, "write_text", full_disk)
    monkeypatch.setattr(pq, "write_table", full_disk)
    with pytest.raises(ArtifactError, match="free some space"):
        write(tmp_path / "t.x")
    assert leftovers(tmp_path) == []


def test_a_full_disk_before_the_first_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(artifacts.tempfile, "mkdtemp", full_disk)
    with pytest.raises(ArtifactError, match="no space left"):
        artifacts.write_text("x", tmp_path / "t.x")
    assert leftovers(tmp_path) == []


def test_half_written_files_never_show(tmp_path):
    path = tmp_path / "t.x"
    path.write_text("old")

    def crash():
        with artifacts.atomic_path(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        crash()
    assert path.read_text() == "old"
    assert leftovers(tmp_path) == ["t.x"]


def test_other_errors_keep_their_type(tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        artifacts.write_text("x", tmp_path / "t.x")
    assert leftovers(tmp_path) == []


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "model"
    for content in ("first", "second"):
        with artifacts.atomic_path(path) as temporary:
            temporary.mkdir()
            (temporary / content).write_text(content)
    assert leftovers(tmp_path) == ["model", "second"]


def test_writing_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), artifacts.atomic_path(tmp_path / "t.x"):
        pass
    assert leftovers(tmp_path) == []


# ---- JSON


def test_canonical_json_is_blind_to_order_and_spelling():
    a = {"b": 1, "a": [1.0, 2e0, 0.5], "c": {"y": True, "x": None}}
    b = {"c": {"x": None, "y": True}, "a": (1, 2, 0.5), "b": 1.0}
    assert artifacts.canonical_json(a) == artifacts.canonical_json(b)
    assert artifacts.canonical_json(a) == '{"a":[1,2,0.5],"b":1,"c":{"x":null,"y":true}}'
    # 1 and true are equal to Python and different to a reader
    assert artifacts.canonical_json([1]) != artifacts.canonical_json([True])
    assert json.loads(artifacts.canonical_json({"x": 1e300})) == {"x": 1e300}


def test_canonical_json_of_arrays_sets_and_paths():
    value = {"a": np.array([1.5, 2]), "n": np.int64(3), "s": {"y", "x"}, "p": Path("a/b")}
    assert artifacts.canonical_json(value) == '{"a":[1.5,2],"n":3,"p":"a/b","s":["x","y"]}'
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            artifacts.canonical_json({"x": bad})
    with pytest.raises(TypeError, match="object cannot be written as JSON"):
        artifacts.canonical_json(object())


def test_json_files(tmp_path):
    path = tmp_path / "a" / "t.json"
    artifacts.write_json({"é": [1], "a": np.float64(0.5)}, path)
    assert artifacts.read_json(path) == {"é": [1], "a": 0.5}
    assert path.read_bytes().endswith(b"}\n")
    assert b"\r" not in path.read_bytes()
    path.write_text('{"a": ')
    with pytest.raises(ArtifactError, match=r"t\.json is not valid JSON"):
        artifacts.read_json(path)
    with pytest.raises(ArtifactError, match="does not exist"):
        artifacts.read_json(tmp_path / "gone.json")


def test_hashes():
    # FIPS 180-2, example B.1
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert artifacts.sha256_text("abc") == expected


def test_hash_of_a_file(tmp_path):
    content = bytes(range(256)) * 9000  # more than one piece
    (tmp_path / "f").write_bytes(content)
    assert artifacts.sha256_file(tmp_path / "f") == hashlib.sha256(content).hexdigest()


# ---- columns


def test_list_columns_and_matrices():
    matrix = np.arange(12.0).reshape(4, 3)
    column = pa.chunked_array([artifacts.matrix_to_lists(matrix)])
    assert (artifacts.lists_to_matrix(column) == matrix).all()
    assert (artifacts.lists_to_matrix(column.slice(1, 2)) == matrix[1:3]).all()
    two = pa.chunked_array([column.chunk(0).slice(3), column.chunk(0).slice(0, 1)])
    assert (artifacts.lists_to_matrix(two) == matrix[[3, 0]]).all()
    assert artifacts.lists_to_matrix(column.slice(0, 0)).shape[0] == 0
    assert artifacts.matrix_to_lists(matrix, pa.float32()).type == pa.list_(pa.float32())


@pytest.mark.parametrize("lists", [[[1, 2], [3]], [[1], [2, 3, 4]], [[], [1, 2]]])
def test_ragged_lists_are_refused(lists):
    with pytest.raises(ArtifactError, match="different lengths"):
        artifacts.lists_to_matrix(pa.chunked_array([pa.array(lists)]))


def test_columns_to_numpy():
    table = pa.table({"n": pa.array([1, 2], pa.int16()), "t": ["a", None], "b": [True, False]})
    assert artifacts.to_numpy(table.column("n")).dtype == np.int16
    assert artifacts.to_numpy(table.column("t")).tolist() == ["a", None]
    assert artifacts.to_numpy(table.column("b")).dtype == bool
