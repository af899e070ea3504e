"""One log a job: everything the job says, C libraries and traceback included."""

import faulthandler
import logging
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cfc.artifacts import canonical_json
from cfc.errors import CfcError
from cfc.provenance import loaded_versions
from cfc.terminal import set_terminal

logger = logging.getLogger("cfc.job")


@contextmanager
def job_log(path: str | os.PathLike, facts: Mapping[str, object]) -> Iterator[None]:
    """Send this process's output and log records to a file while the job runs.

    File descriptors 1 and 2 are redirected, so prints, C output, warnings and the traceback land
    in the log. The first lines are the job's facts (rule, wildcards, parameters, threads), the last
    ones the library versions that were loaded and the wall time. An error of this package is also
    said in one line on the terminal, where a person looks first.

    Args:
        path: the log file.
        facts: what to write first.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(1), os.dup(2)
    screen = os.fdopen(os.dup(kept[1]), "w", encoding="utf-8")
    set_terminal(screen)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    faulthandler.enable()
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        force=True,
    )
    logging.captureWarnings(True)
    start = time.perf_counter()
    try:
        for key, value in facts.items():
            logger.info("%s: %s", key, value if isinstance(value, str) else canonical_json(value))
        yield
        logger.info("versions: %s", canonical_json(loaded_versions()))
        logger.info("finished in %.2f s", time.perf_counter() - start)
    except BaseException as error:
        logger.error("versions: %s", canonical_json(loaded_versions()))
        traceback.print_exc()
        if isinstance(error, CfcError):
            screen.write(f"\n{type(error).__name__}: {error}\n(log: {path})\n")
        raise
    finally:
        set_terminal(None)
        screen.close()
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, original in zip((1, 2), kept, strict=True):
            os.dup2(original, descriptor)
            os.close(original)
