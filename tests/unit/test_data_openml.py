"""The real OpenML client against a small OpenML-compatible server on the loopback address."""

import gzip
import hashlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cfc.data import DatasetSpec, acquire, read_dataset
from cfc.errors import DataError

if importlib.util.find_spec("openml") is None:
    pytest.skip("needs the package openml", allow_module_level=True)

ARFF = """% a comment
@relation 'tiny set'
@attribute V1 numeric
@attribute 'V [2]' {'<0 a', "it's", plain}
@attribute Class {1,2}
@data
1,'<0 a',1
2.5,"it's",2
?,plain,1
-4,?,2
% another
5,plain,1
6,plain,2
"""
DESCRIPTION = """<oml:data_set_description xmlns:oml="http://openml.org/openml">
<oml:id>77</oml:id><oml:name>tiny</oml:name><oml:version>3</oml:version>
<oml:description>made for a test</oml:description><oml:format>ARFF</oml:format>
<oml:url>{base}/data/v1/download/9/tiny.arff</oml:url>{parquet}{md5}
<oml:default_target_attribute>Class</oml:default_target_attribute>{more}
<oml:status>active</oml:status></oml:data_set_description>"""
ENTRY = {
    "title": "Tiny",
    "source": {"kind": "openml", "id": 77, "version": 3},
    "target": "y",
    "classes": ["no", "yes"],
    "rows": 6,
    "class_counts": {"no": 3, "yes": 3},
    "rename": {"V1": "size", "V [2]": "kind <of> it", "Class": "y"},
    "recode": {"y": {"1": "no", "2": "yes"}},
    "fields": {"size": "numeric", "kind <of> it": "nominal"},
}
SIZE = [1.0, 2.5, None, -4.0, 5.0, 6.0]
KIND = ["<0 a", "it's", "plain", None, "plain", "plain"]


def parquet_bytes() -> bytes:
    table = pa.table(
        {
            "V1": pa.array(SIZE, pa.float64()),
            "V [2]": pa.array(KIND).dictionary_encode(),
            "Class": pa.array(["1", "2", "1", "2", "1", "2"]).dictionary_encode(),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


class Server(ThreadingHTTPServer):
    """Serves one data set; ``faults`` says what goes wrong with the next requests of a path."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server_address[1]}"
        self.arff = ARFF.encode()
        self.parquet = parquet_bytes()
        self.md5: str | None = hashlib.md5(self.arff).hexdigest()
        self.with_parquet = True
        self.more = ""
        self.gzip = False
        self.faults: dict[str, list[str]] = {}
        self.requests: list[str] = []
        self.released = threading.Event()

    def answer(self, path: str) -> tuple[int, bytes, str]:
        if path == "/api/v1/xml/data/77":
            parquet = f"<oml:parquet_url>{self.base}/datasets/0000/0077/dataset_77.pq"
            text = DESCRIPTION.format(
                base=self.base,
                parquet=parquet + "</oml:parquet_url>" if self.with_parquet else "",
                md5=f"<oml:md5_checksum>{self.md5}</oml:md5_checksum>" if self.md5 else "",
                more=self.more,
            )
            return 200, text.encode(), "text/xml"
        if path == "/api/v1/xml/data/features/77":
            levels = {"V1": [], "V [2]": ["&lt;0 a", "it's", "plain"], "Class": ["1", "2"]}
            features = "".join(
                f"<oml:feature><oml:index>{i}</oml:index><oml:name>{n}</oml:name>"
                f"<oml:data_type>{'nominal' if values else 'numeric'}</oml:data_type>"
                + "".join(f"<oml:nominal_value>{v}</oml:nominal_value>" for v in values)
                + "</oml:feature>"
                for i, (n, values) in enumerate(levels.items())
            )
            root = '<oml:data_features xmlns:oml="http://openml.org/openml">'
            return 200, f"{root}{features}</oml:data_features>".encode(), "text/xml"
        if path.startswith("/api/"):
            error = (
                '<oml:error xmlns:oml="http://openml.org/openml"><oml:code>111</oml:code>'
                "<oml:message>Unknown dataset</oml:message></oml:error>"
            )
            return 412, error.encode(), "text/xml"
        if path.endswith("/tiny.arff"):
            return 200, self.arff, "text/plain"
        if path.endswith("/dataset_77.pq"):
            return 200, self.parquet, "application/octet-stream"
        return 404, b"nothing here", "text/plain"


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.respond(body_wanted=False)

    def do_GET(self):
        self.respond(body_wanted=True)

    def respond(self, *, body_wanted: bool):
        path = self.path.split("?")[0]
        self.server.requests.append(path)
        status, body, kind = self.server.answer(path)
        length = len(body)
        waiting = next((v for k, v in self.server.faults.items() if path.endswith(k)), [])
        fault = waiting.pop(0) if waiting else "ok"
        if fault.isdigit():
            status, body, kind = int(fault), b"a page about the failure", "text/html"
            length = len(body)
        elif fault == "hang":
            self.server.released.wait(20)
            self.close_connection = True
            return
        elif fault == "cut":  # fewer bytes than announced
            body = body[: length // 2]
        elif fault == "short":  # a whole answer, of half the file
            body = body[: length // 2]
            length = len(body)
        elif fault == "empty":
            body, length = b"", 0
        if self.server.gzip:
            body = gzip.compress(body)
            length = len(body)
        self.send_response(status)
        if self.server.gzip:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.send_header("ETag", '"' + hashlib.md5(body).hexdigest() + '"')
        self.send_header("Last-Modified", formatdate(0, usegmt=True))
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        if body_wanted:
            self.wfile.write(body)


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A private folder for temporary files, to see whether any is left."""
    import tempfile

    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def openml(tmp_path, monkeypatch):
    """The client, imported without touching the home folder of who runs the tests."""
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "OPENML_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return importlib.import_module("openml")


class Pauses(list):
    def __call__(self, seconds):
        self.append(seconds)


def get(server, folder: Path, **options):
    spec = DatasetSpec.from_mapping("tiny", {**ENTRY, **options.pop("entry", {})})
    pauses = options.setdefault("sleep", Pauses())
    options.setdefault("timeout_seconds", 5.0)
    out = folder / "out" / "tiny.parquet", folder / "out" / "tiny.json"
    facts = acquire(spec, None, *out, openml_server=server.base, **options)
    assert json.loads(out[1].read_text()) == facts
    return read_dataset(out[0]), facts, pauses


def refused(server, folder: Path, **options) -> str:
    with pytest.raises(DataError) as caught:
        get(server, folder, **options)
    assert not (folder / "out").exists() or not list((folder / "out").iterdir())
    message = str(caught.value)
    for part in ("tiny", "OpenML id 77", "tiny.parquet", "tiny.arff", "data_dir", server.base):
        assert part in message
    return message


def check_content(table):
    assert list(table.columns) == ["size", "kind <of> it", "y"]
    assert table["size"].dropna().tolist() == [v for v in SIZE if v is not None]
    assert table["size"].isna().tolist() == [v is None for v in SIZE]
    assert table["kind <of> it"].tolist() == KIND
    assert table["y"].tolist() == ["no", "yes"] * 3


def test_arff_with_its_md5(server, tmp_path, scratch):
    table, facts, pauses = get(server, tmp_path)
    check_content(table)
    source = facts["source"]
    assert source["format"] == "arff"
    assert source["md5_verified"] is True
    assert source["md5"] == hashlib.md5(ARFF.encode()).hexdigest()
    assert (source["id"], source["version"], source["name"]) == (77, 3, "tiny")
    assert pauses == []
    assert list(scratch.iterdir()) == []
    assert not any(r.endswith(".pq") for r in server.requests)


def test_compressed_answers(server, tmp_path):
    server.gzip = True
    check_content(get(server, tmp_path)[0])


def test_parquet_where_no_md5_is_stated_gives_the_same_table(server, tmp_path, scratch):
    first = get(server, tmp_path / "a")[1]
    server.md5 = None
    table, facts, _ = get(server, tmp_path / "b")
    check_content(table)
    assert facts["source"]["format"] == "parquet"
    assert facts["source"]["md5_verified"] is False
    assert facts["sha256"] == first["sha256"]
    assert list(scratch.iterdir()) == []


def test_arff_is_gone_but_parquet_is_there(server, tmp_path):
    server.faults["/tiny.arff"] = ["404"] * 9
    table, facts, _ = get(server, tmp_path)
    check_content(table)
    assert facts["source"]["format"] == "parquet"


def test_neither_md5_nor_parquet(server, tmp_path):
    server.md5, server.with_parquet = None, False
    table, facts, _ = get(server, tmp_path)
    check_content(table)
    assert facts["source"]["format"] == "arff"
    assert facts["source"]["md5_verified"] is False


@pytest.mark.parametrize("path", ["/data/77", "/tiny.arff"])
@pytest.mark.parametrize("fault", ["500", "503", "cut", "short", "empty", "hang"])
def test_two_failures_then_success(server, tmp_path, scratch, path, fault):
    server.faults[path] = [fault, fault, "ok"]
    table, facts, pauses = get(
        server, tmp_path, timeout_seconds=0.3 if fault == "hang" else 5.0, backoff_seconds=2.0
    )
    check_content(table)
    assert facts["source"]["md5_verified"] is True
    assert pauses == [2.0, 4.0]
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("fault", ["500", "cut", "short", "empty", "hang"])
def test_parquet_failures_are_tried_again(server, tmp_path, scratch, fault):
    server.md5 = None
    server.faults["/dataset_77.pq"] = [fault, "ok"]
    server.faults["/tiny.arff"] = ["404"] * 9  # so that the client cannot fall back silently
    table, facts, _ = get(server, tmp_path, timeout_seconds=0.3 if fault == "hang" else 5.0)
    check_content(table)
    assert facts["source"]["format"] == "parquet"
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "fault", "word"),
    [
        ("/data/77", "500", "HTTP 500"),
        ("/tiny.arff", "503", "HTTP 503"),
        ("/tiny.arff", "cut", "cut"),
        ("/tiny.arff", "short", "hecksum"),
        ("/tiny.arff", "hang", "timed out"),
    ],
)
def test_failure_that_stays(server, tmp_path, scratch, path, fault, word):
    server.faults[path] = [fault] * 9
    pauses = Pauses()
    message = refused(
        server, tmp_path, attempts=3, timeout_seconds=0.3, sleep=pauses, backoff_seconds=1.0
    )
    assert "3 attempts" in message
    assert word in message or (fault == "cut" and "IncompleteRead" in message)
    assert pauses == [1.0, 2.0]
    assert list(scratch.iterdir()) == []


def test_wrong_checksum_is_never_accepted(server, tmp_path):
    server.md5 = "0" * 32
    message = refused(server, tmp_path, attempts=2)
    assert "0" * 32 in message
    assert sum(r.endswith(".arff") for r in server.requests) == 2


def test_we_check_the_md5_ourselves(server, tmp_path, monkeypatch, openml):
    """The client's own comparison is switched off; ours must still refuse."""
    server.md5 = "0" * 32
    monkeypatch.setattr(openml._api_calls, "__is_checksum_equal", lambda *a, **k: True)
    message = refused(server, tmp_path, attempts=1)
    assert "MD5" in message


def test_missing_page_is_not_tried_again(server, tmp_path):
    server.faults["/data/77"] = ["404"] * 9
    message = refused(server, tmp_path)
    assert "HTTP 404" in message
    assert "1 attempt:" in message
    assert len(server.requests) == 1


def test_unknown_id(server, tmp_path):
    with pytest.raises(DataError, match=r"OpenML id 78.*1 attempt: .*Unknown dataset"):
        get(server, tmp_path, entry={"source": {"kind": "openml", "id": 78}})


def test_other_version_than_pinned(server, tmp_path):
    message = refused(
        server, tmp_path, entry={"source": {"kind": "openml", "id": 77, "version": 2}}
    )
    assert "pins version 2" in message
    assert "has version 3" in message


def test_no_server_at_all(server, tmp_path):
    """The port is closed: what a machine without network sees."""
    server.shutdown()
    server.server_close()
    message = refused(server, tmp_path, attempts=2)
    assert "2 attempts" in message


def test_total_time_limit(server, tmp_path):
    assert "no end of the file" in refused(server, tmp_path, attempts=1, total_seconds=-1.0)


def test_missing_list_of_features_is_no_failure(server, tmp_path):
    server.faults["/features/77"] = ["404"] * 9
    check_content(get(server, tmp_path)[0])


def test_column_marked_as_identifier_is_left_out(server, tmp_path):
    server.more = "<oml:row_id_attribute>V1</oml:row_id_attribute>"
    entry = {
        "fields": {"kind <of> it": "nominal"},
        "rename": {"V [2]": "kind <of> it", "Class": "y"},
    }
    table = get(server, tmp_path, entry=entry)[0]
    assert list(table.columns) == ["kind <of> it", "y"]
    # A declared column stays, whatever OpenML marks.
    check_content(get(server, tmp_path)[0])


def test_table_that_does_not_fit_is_not_downloaded_again(server, tmp_path):
    with pytest.raises(DataError, match=r"6 rows, expected 7"):
        get(server, tmp_path, entry={"rows": 7, "class_counts": None})
    assert sum(r.endswith(".arff") for r in server.requests) == 1


def test_interruption_leaves_nothing(server, tmp_path, scratch):
    server.faults["/tiny.arff"] = ["500"]

    def interrupt(seconds):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(server, tmp_path, sleep=interrupt)
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "out").exists()


def test_settings_of_the_client_are_given_back(server, tmp_path, openml):
    config, calls = openml.config, openml._api_calls
    before = dict(config.get_config_as_dict()), calls.requests, calls.minio, dict(os.environ)
    get(server, tmp_path)
    assert before == (config.get_config_as_dict(), calls.requests, calls.minio, dict(os.environ))


OURS = """
import json, sys
from cfc.data import DatasetSpec, acquire
spec = DatasetSpec.from_mapping("tiny", json.loads(sys.argv[1]))
acquire(spec, None, sys.argv[2], sys.argv[3])
"""
PLAIN = """
import openml, os
openml.config.server = os.environ["CFC_OPENML_SERVER"] + "/api/v1/xml"
found = openml.datasets.get_dataset(77, download_data=True)
print(os.path.getsize(found.data_file))
"""


def test_users_home_and_cache_are_neither_used_nor_changed(server, tmp_path, repository):
    """A user's cache with an empty and a cut file, in fresh processes."""

    def run(script: str, cache: Path, home: Path, *arguments: str) -> str:
        home.mkdir()
        held = cache / f"1:{server.server_address[1]}" / "0" / "0" / "127" / "datasets" / "77"
        held.mkdir(parents=True)
        (held / "dataset.arff").write_text("")
        (held / "description.xml").write_text("<cut")
        environment = {
            **os.environ,
            "HOME": str(home),
            "OPENML_CACHE_DIR": str(cache),
            "OPENML_SKIP_PARQUET": "true",
            "CFC_OPENML_SERVER": server.base,
            "PYTHONPATH": str(repository / "src"),
        }
        for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            environment.pop(name, None)
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            env=environment,
            check=True,
            capture_output=True,
            timeout=120,
            text=True,
        )
        return done.stdout.strip()

    # The client alone takes the empty file for the data set, so the trap is a real one.
    assert run(PLAIN, tmp_path / "cache0", tmp_path / "home0") == "0"

    home, cache, out = tmp_path / "home", tmp_path / "cache", tmp_path / "tiny.parquet"
    run(OURS, cache, home, json.dumps(ENTRY), str(out), str(tmp_path / "tiny.json"))
    check_content(read_dataset(out))
    assert list(home.rglob("*")) == []
    files = {p.name: p.read_text() for p in cache.rglob("*") if p.is_file()}
    assert files == {"dataset.arff": "", "description.xml": "<cut"}
