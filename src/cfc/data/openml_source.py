"""Download one OpenML data set with the ``openml`` client, and trust nothing it left before.

Every attempt works in a private temporary folder that serves the client as cache and settings
folder and is removed afterwards, also on interruption. So a truncated or empty file in the user's
OpenML cache can neither be used nor be changed by us, and nothing partial stays behind.

The client (0.15) waits for ever on a silent server and shows no progress for ARFF; both are added
by lending it a ``requests.Session`` and a ``minio.Minio`` with limits while it works. ARFF is
preferred to Parquet where the description gives an MD5, since that covers the ARFF file only.
"""

import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfc.data.registry import DatasetSpec
from cfc.errors import DataError
from cfc.terminal import terminal

if TYPE_CHECKING:
    import pandas as pd

LOG = logging.getLogger(__name__)

DEFAULT_SERVER = "https://www.openml.org/api/v1/xml"
SERVER_VARIABLE = "CFC_OPENML_SERVER"
_CHUNK_BYTES = 1 << 18
_LOG_EVERY_BYTES = 8 << 20
_LONGEST_PAUSE_SECONDS = 60.0
_SKIP_PARQUET = "OPENML_SKIP_PARQUET"


class _PermanentError(Exception):
    """Trying again would give the same answer."""


@dataclass(frozen=True)
class _Limits:
    timeout_seconds: float
    total_seconds: float


def download(
    spec: DatasetSpec,
    *,
    server: str | None = None,
    attempts: int = 4,
    timeout_seconds: float = 30.0,
    backoff_seconds: float = 2.0,
    total_seconds: float = 3600.0,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple["pd.DataFrame", dict[str, Any]]:
    """Download a data set's table from OpenML.

    Args:
        spec: the data set; ``spec.source.id`` names it and ``version``, if given, must agree.
        server: base URL with or without ``/api/v1/xml``; None: the environment variable
            ``CFC_OPENML_SERVER``, else the public server.
        attempts: tries of the whole download, at least 1.
        timeout_seconds: longest silence of the server, for connecting and between bytes.
        backoff_seconds: pause after the first failure; it doubles with each, up to a minute.
        total_seconds: longest time for one file.
        sleep: called to pause.

    Returns:
        The table as the file has it, without the columns OpenML marks as row identifier or ignored
        (unless the data set declares them), and facts: id, version, name, format, the MD5 that
        OpenML states and whether it was verified, size and SHA-256 of the file.

    Raises:
        DataError: the client is not installed, the server cannot be reached, does not know the id,
            or every attempt gave a damaged file. The message names the set, the id and the two
            ways on: a file in ``data_dir``, or a connection.
    """
    server = server_url(server)
    limits = _Limits(timeout_seconds, total_seconds)
    failure: Exception | None = None
    done = 0
    for done in range(1, max(1, attempts) + 1):
        try:
            return _attempt(spec, server, limits)
        except _PermanentError as error:
            failure = error
            break
        except Exception as error:  # whatever the client, its libraries or the parser raise
            failure = error
        if done < attempts:
            pause = min(backoff_seconds * 2 ** (done - 1), _LONGEST_PAUSE_SECONDS)
            LOG.warning(
                "%s: attempt %d of %d failed (%s); next one in %.1f s",
                spec.key,
                done,
                attempts,
                _short(failure),
                pause,
            )
            sleep(pause)
    raise DataError(_ways_out(spec, server, done, failure)) from failure


def server_url(server: str | None) -> str:
    """Return the API address for a server given with or without ``/api/v1/xml``."""
    server = (server or os.environ.get(SERVER_VARIABLE) or DEFAULT_SERVER).rstrip("/")
    return server if "/api" in server else server + "/api/v1/xml"


def _ways_out(spec: DatasetSpec, server: str, tries: int, failure: Exception | None) -> str:
    files = ", ".join(spec.file + ext for ext in (".parquet", ".csv", ".arff"))
    return (
        f"data set {spec.key} (OpenML id {spec.source.id}) could not be downloaded from {server} "
        f"after {tries} attempt{'s' if tries != 1 else ''}: {_short(failure)}. "
        f"Either put one of {files} in a folder and set data_dir to that folder, or run this step "
        "where the server can be reached (proxy variables are respected). Nothing partial was kept."
    )


def _short(error: Exception | None) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 400 else text[:400] + " ..."


# ---- one attempt


def _attempt(
    spec: DatasetSpec, server: str, limits: _Limits
) -> tuple["pd.DataFrame", dict[str, Any]]:
    with (
        tempfile.TemporaryDirectory(prefix="cfc-openml-", ignore_cleanup_errors=True) as holder,
        _client(Path(holder), server, limits, spec.key) as openml,
    ):
        dataset = _describe(openml, spec)
        names = _feature_names(openml, spec)
        path, dataset = _fetch(openml, spec, dataset)
        content = path.read_bytes()
        facts = _facts(dataset, path, content)
        frame = _parse(content, path, spec)
        _check_features(frame, names, spec)
        return _without_ignored(frame, dataset, spec), facts


def _describe(openml: Any, spec: DatasetSpec) -> Any:
    dataset = _get(openml, int(spec.source.id), download_data=False)
    if dataset.dataset_id != spec.source.id:
        raise DataError(f"the description says id {dataset.dataset_id}, not {spec.source.id}")
    if spec.source.version is not None and dataset.version != spec.source.version:
        raise _PermanentError(
            f"the registry pins version {spec.source.version}, but the server has version "
            f"{dataset.version} of {dataset.name!r}"
        )
    return dataset


def _get(openml: Any, number: int, **options: Any) -> Any:
    try:
        return openml.datasets.get_dataset(number, download_qualities=False, **options)
    except openml.exceptions.OpenMLServerException as error:
        # The server understood and said no, for example: unknown data set.
        raise _PermanentError(f"the server answers: {error}") from error


def _feature_names(openml: Any, spec: DatasetSpec) -> list[str] | None:
    """Column names the server lists, or None where it has not analysed the set."""
    try:
        dataset = openml.datasets.get_dataset(
            int(spec.source.id), download_data=False, download_features_meta_data=True
        )
        return [feature.name for _, feature in sorted(dataset.features.items())]
    except (
        _PermanentError,
        openml.exceptions.OpenMLServerException,
        KeyError,
        TypeError,
        ValueError,
    ) as error:  # the list is a second check only, and the client is strict about its form
        LOG.warning("%s: no list of features (%s); names are checked later", spec.key, error)
        return None


def _fetch(openml: Any, spec: DatasetSpec, dataset: Any) -> tuple[Path, Any]:
    """Return the downloaded file: ARFF where its MD5 is known, else Parquet, else ARFF."""
    number = int(spec.source.id)
    parquet_url = getattr(dataset, "_parquet_url", None)
    if dataset.md5_checksum or not parquet_url:
        try:
            with _environment({_SKIP_PARQUET: "true"}):
                got = _get(openml, number, download_data=True)
            return Path(got.data_file), got
        except _PermanentError as error:
            if not parquet_url:
                raise
            LOG.warning("%s: no ARFF file (%s); trying Parquet", spec.key, error)
    try:
        with _environment({_SKIP_PARQUET: "false"}):
            got = _get(openml, number, download_data=True)
    except _PermanentError as error:
        # The client keeps a Parquet failure to itself and asks for the ARFF file instead, so this
        # says nothing about whether Parquet would work the next time.
        raise DataError(f"no Parquet file, and then: {error}") from error
    return Path(got.parquet_file or got.data_file), got


def _facts(dataset: Any, path: Path, content: bytes) -> dict[str, Any]:
    """Verify the MD5 ourselves and return what identifies the download."""
    kind = "arff" if path.suffix == ".arff" else "parquet"
    stated = (dataset.md5_checksum or "").lower() or None
    checked = kind == "arff" and stated is not None
    if checked:
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if found != stated:
            raise DataError(f"the file's MD5 is {found}, but the description states {stated}")
    return {
        "kind": "openml",
        "id": int(dataset.dataset_id),
        "version": int(dataset.version),
        "name": str(dataset.name),
        "format": kind,
        "md5": stated,
        "md5_verified": checked,
        "file_bytes": len(content),
        "file_sha256": hashlib.sha256(content).hexdigest(),
    }


def _parse(content: bytes, path: Path, spec: DatasetSpec) -> "pd.DataFrame":
    from cfc.data.sources import read_arff, read_parquet

    name = f"the downloaded file of {spec.key}"
    return read_arff(content, name) if path.suffix == ".arff" else read_parquet(content, name)


def _check_features(frame: "pd.DataFrame", names: list[str] | None, spec: DatasetSpec) -> None:
    if names is None or list(map(str, frame.columns)) == names:
        return
    absent = [n for n in names if n not in frame.columns]
    extra = [str(c) for c in frame.columns if c not in names]
    if absent or extra:
        raise DataError(
            f"the file of {spec.key} does not have the columns the server lists: absent "
            f"{absent or 'none'}, extra {extra or 'none'}"
        )


def _without_ignored(frame: "pd.DataFrame", dataset: Any, spec: DatasetSpec) -> "pd.DataFrame":
    marked: list[str] = []
    for value in (dataset.row_id_attribute, dataset.ignore_attribute):
        for item in [value] if isinstance(value, str) else value or []:
            marked += [part.strip() for part in str(item).split(",")]
    declared = {*spec.field_names, spec.target}
    declared |= {c for family in spec.indicator_families for c in family.columns}
    gone = [c for c in frame.columns if c in marked and spec.rename.get(c, c) not in declared]
    if gone:
        LOG.info("%s: left out, as OpenML marks them: %s", spec.key, ", ".join(gone))
    return frame.drop(columns=gone)


# ---- the client, on a leash


@contextmanager
def _client(holder: Path, server: str, limits: _Limits, label: str) -> Iterator[Any]:
    """Yield the ``openml`` package set to our server, a private cache and our limits."""
    private = {
        "OPENML_CACHE_DIR": str(holder / "cache"),
        "XDG_CACHE_HOME": str(holder / "cache"),
        "XDG_CONFIG_HOME": str(holder / "config"),
    }
    with ExitStack() as stack:
        # On its first import the client makes its cache and settings folders; these are in holder.
        stack.enter_context(_environment(private))
        openml = _import_openml()
        config = openml.config
        _swap(stack, config, "server", server)
        _swap(stack, config, "apikey", "")
        _swap(stack, config, "show_progress", False)
        _swap(stack, config, "connection_n_retries", 1)
        _swap(stack, config, "_root_cache_directory", holder / "cache")
        calls = openml._api_calls
        _swap(stack, calls, "requests", _Lent(calls.requests, Session=_session(limits, label)))
        _swap(stack, calls, "minio", _Lent(calls.minio, Minio=_minio(calls.minio, limits)))
        stack.enter_context(_quiet())
        yield openml


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the client's remark about uncompressed answers, a warning each, off the log."""

    def keep(record: logging.LogRecord) -> bool:
        return record.module != "_api_calls" or record.levelno > logging.WARNING

    root = logging.getLogger()
    root.addFilter(keep)
    try:
        yield
    finally:
        root.removeFilter(keep)


def _import_openml() -> Any:
    try:
        import openml
    except ImportError as error:
        raise _PermanentError(
            "the Python package openml is not installed (pip install openml)"
        ) from error
    return openml


def _swap(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute until the stack unwinds."""
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Lent:
    """A module with some names replaced, for one user of it."""

    def __init__(self, module: Any, **replaced: Any) -> None:
        self._module = module
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _session(limits: _Limits, label: str) -> type:
    """A ``requests.Session`` with time limits, progress, and an early end on 404 and the like."""
    import requests

    class LimitedSession(requests.Session):
        def get(self, url: str, **options: Any) -> requests.Response:
            options.setdefault("timeout", limits.timeout_seconds)
            with super().get(url, stream=True, **options) as response:
                body = _body(response, limits, label)
            _refuse_status(response, url)
            # What requests itself would have stored had it read the body at once.
            response._content = body
            response._content_consumed = True
            response.encoding = "utf-8"  # not guessed: ARFF and XML of OpenML are UTF-8
            return response

    return LimitedSession


def _refuse_status(response: Any, url: str) -> None:
    status = response.status_code
    if status in (404, 410):
        raise _PermanentError(f"HTTP {status} for {url}")
    if status >= 500 or status in (408, 429):
        raise DataError(f"HTTP {status} for {url}")


def _body(response: Any, limits: _Limits, label: str) -> bytes:
    declared = int(response.headers.get("Content-Length") or 0)
    packed = "Content-Encoding" in response.headers
    parts: list[bytes] = []
    end = time.monotonic() + limits.total_seconds
    with _meter(label, declared if not packed else 0) as advance:
        for part in response.iter_content(_CHUNK_BYTES):
            parts.append(part)
            advance(len(part))
            if time.monotonic() > end:
                raise DataError(f"no end of the file after {limits.total_seconds:g} s")
    body = b"".join(parts)
    if declared and not packed and len(body) != declared:
        raise DataError(f"the file is cut off: {len(body)} of {declared} bytes")
    return body


@contextmanager
def _meter(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show progress: a bar on a terminal, else a log line every few megabytes."""
    screen = terminal()
    if screen.isatty() and total > _CHUNK_BYTES:
        from tqdm import tqdm

        with tqdm(total=total, unit="B", unit_scale=True, desc=label, file=screen) as bar:
            yield bar.update
        return
    seen = 0

    def advance(count: int) -> None:
        nonlocal seen
        before, seen = seen, seen + count
        if seen // _LOG_EVERY_BYTES > before // _LOG_EVERY_BYTES:
            of = f" of {total / 1e6:.0f}" if total else ""
            LOG.info("%s: %.0f%s MB downloaded", label, seen / 1e6, of)

    yield advance


def _minio(minio: Any, limits: _Limits) -> Callable[..., Any]:
    """``minio.Minio`` (the client's way to Parquet files) with our time limits and no retries."""
    import urllib3

    def make(*args: Any, **options: Any) -> Any:
        if options.get("http_client") is None:
            timeout = urllib3.Timeout(connect=limits.timeout_seconds, read=limits.timeout_seconds)
            options["http_client"] = urllib3.PoolManager(timeout=timeout, retries=False)
        return minio.Minio(*args, **options)

    return make
