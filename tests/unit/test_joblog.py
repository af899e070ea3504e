"""The log of a job: everything in the file, what a person must see on the terminal."""

import subprocess
import sys

SCRIPT = """
import os, sys
sys.path.insert(0, {src!r})
from cfc.errors import DataError
from cfc.joblog import job_log
from cfc.terminal import terminal
with job_log({log!r}, {{"rule": "demo", "params": {{"b": 1, "a": [2]}}}}):
    print("printed")
    os.write(1, b"from C\\n")
    print("bar", file=terminal(), flush=True)
    {last}
print("after")
"""


def run(repository, tmp_path, last):
    log = tmp_path / "logs" / "job.log"
    code = SCRIPT.format(src=str(repository / "src"), log=str(log), last=last)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done, log.read_text()


def test_output_goes_to_the_log_and_the_bar_to_the_terminal(repository, tmp_path):
    done, log = run(repository, tmp_path, "pass")
    assert done.returncode == 0
    assert done.stdout == "after\n"
    assert done.stderr == "bar\n"
    for words in ("printed", "from C", "rule: demo", 'params: {"a":[2],"b":1}', "finished in"):
        assert words in log, words


def test_an_error_is_said_on_the_terminal_and_traced_in_the_log(repository, tmp_path):
    done, log = run(repository, tmp_path, "raise DataError('adult: no column age')")
    assert done.returncode != 0
    assert "DataError: adult: no column age\n(log: " in done.stderr
    assert "after" not in done.stdout
    assert "Traceback" in log
    assert "DataError: adult: no column age" in log
