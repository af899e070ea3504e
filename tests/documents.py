"""Runs the code of a Markdown document as a reader would, so that it cannot go out of date.

The blocks of a document run in order, in one folder. What happens to a block is said by its
language and by an HTML comment on the line before it, which a reader does not see:

    <!-- file: NAME -->    any block: written to the file NAME
                           python: runs in one session a document, code exactly as printed
    <!-- run -->           bash: runs under `bash -euo pipefail`
    <!-- output -->        text: what the block before it has to print; `...` stands for anything

A bash block finds `cfc`, `snakemake` and `python`, and the clone's root in $CFC. Other blocks, such
as bash without a comment, are only read.
"""

import difflib
import doctest
import json
import linecache
import os
import re
import select
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->")
_FENCE = re.compile(r"( *)(```+|~~~+) *(\w*)")


class DocumentError(AssertionError):
    """A block that cannot be run, fails or prints something else; the message says which."""


@dataclass(frozen=True)
class Block:
    """What is done at one place of a document.

    Attributes:
        place: document and first line, for messages.
        line: number of the block's first line of content, from 1.
        action: ``file``, ``python`` or ``bash``.
        content: the lines between the fences, each with its line end.
        name: of the file written, else "".
        output: what must be printed, or None.
    """

    place: str
    line: int
    action: str
    content: str
    name: str = ""
    output: str | None = None

    def problem(self, what: str, details: str = "") -> DocumentError:
        lines = self.content.splitlines()
        shown = "\n".join(f"{self.line + i:5d}  {text}" for i, text in enumerate(lines))
        return DocumentError(f"{self.place}: {what}\n\n{shown}\n\n{details}".rstrip())


def read_blocks(path: Path, title: str) -> list[Block]:
    """Return the blocks of a document that do something, in order.

    Raises:
        DocumentError: a fence is never closed, or a comment before a block means nothing there.
    """
    blocks: list[Block] = []
    for line, comment, language, content in _fenced(path.read_text(encoding="utf-8"), title):
        place = f"{title}, line {line}, block {len(blocks) + 1}"
        if comment == "output" and language == "text":
            if not blocks or blocks[-1].action == "file" or blocks[-1].output is not None:
                raise DocumentError(f"{place}: no block before it whose output this could be")
            blocks[-1] = replace(blocks[-1], output=content)
        elif comment.startswith("file:"):
            name = comment.removeprefix("file:").strip()
            blocks.append(Block(f"{place} (file {name})", line, "file", content, name))
        elif comment == "run" and language == "bash":
            blocks.append(Block(f"{place} (bash)", line, "bash", content))
        elif comment:
            raise DocumentError(f"{place}: {comment!r} means nothing before a {language!r} block")
        elif language == "python":
            blocks.append(Block(f"{place} (python)", line, "python", content))
    return blocks


def _fenced(text: str, title: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield first line, comment before, language and content of every fenced block."""
    comment, opened, start, content = "", None, 0, []
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if opened:
            indent, fence, language = opened.groups()
            if line.strip() == fence:
                yield start, comment, language, "".join(content)
                comment, opened, content = "", None, []
            else:
                content.append(line.removeprefix(indent))
        elif opened := _FENCE.match(line):
            start = number + 1
        elif line.strip():
            found = _COMMENT.fullmatch(line.strip())
            comment = found[1] if found else ""
    if opened:
        raise DocumentError(f"{title}, line {start - 1}: this block is never closed")


def run_document(path: Path, folder: Path, *, timeout: float = 600) -> list[Block]:
    """Run a document's blocks in a folder.

    Args:
        path: the Markdown file.
        folder: working folder of all blocks; files are written there.
        timeout: seconds that one block may take.

    Returns:
        the blocks that were done.

    Raises:
        DocumentError: of the first block that fails or prints something else.
    """
    path = path.resolve()
    title = str(path.relative_to(REPOSITORY) if path.is_relative_to(REPOSITORY) else path.name)
    blocks = read_blocks(path, title)
    with tempfile.TemporaryDirectory() as shims:
        environment = _environment(Path(shims))
        with _Session(path, title, folder, environment, timeout) as python:
            for block in blocks:
                if block.action == "file":
                    target = folder / block.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(block.content, encoding="utf-8")
                elif block.action == "bash":
                    _compare(block, _run_bash(block, folder, environment, timeout))
                else:
                    _compare(block, python.run(block))
    return blocks


def _environment(shims: Path) -> dict[str, str]:
    """Return the environment of bash blocks: the tools on the path, nothing installed."""
    source = REPOSITORY / "src"
    command = shims / "cfc"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH="{source}" exec "{sys.executable}" -m cfc.auditing.cli "$@"\n'
    )
    command.chmod(0o755)
    path = [str(shims), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return {
        **kept,
        "PATH": os.pathsep.join(path),
        "CFC": str(REPOSITORY),
        "NO_COLOR": "1",
        "MPLBACKEND": "agg",
    }


def _run_bash(block: Block, folder: Path, environment: dict[str, str], timeout: float) -> str:
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.content],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        raise block.problem(f"not done after {timeout:g} s") from error
    if done.returncode:
        raise block.problem(f"exit code {done.returncode}", done.stdout + done.stderr)
    return done.stdout


def _compare(block: Block, printed: str) -> None:
    if block.output is None:
        return
    wanted, got = (
        "".join(f"{line.rstrip()}\n" for line in text.strip().splitlines())
        for text in (block.output, printed)
    )
    if not doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS):
        difference = difflib.unified_diff(
            wanted.splitlines(), got.splitlines(), "in the document", "printed", lineterm=""
        )
        raise block.problem("another output than in the document", "\n".join(difference))


class _Session:
    """A Python process that runs the blocks of one document, started with the first of them."""

    def __init__(self, path, title, folder, environment, timeout):
        self.path, self.title, self.folder, self.timeout = path, title, folder, timeout
        self.environment = {**environment, "PYTHONPATH": str(REPOSITORY / "src")}
        self.process: subprocess.Popen | None = None

    def __enter__(self) -> "_Session":
        self.printed, self.complaints = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        return self

    def _start(self) -> None:
        read_requests, write_requests = os.pipe()
        read_answers, write_answers = os.pipe()
        arguments = [self.path, self.title, read_requests, write_answers]
        self.process = subprocess.Popen(
            [sys.executable, "-u", __file__, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=self.printed,
            stderr=self.complaints,
            pass_fds=(read_requests, write_answers),
        )
        os.close(read_requests)
        os.close(write_answers)
        self.requests = os.fdopen(write_requests, "w", encoding="utf-8")
        self.answers = os.fdopen(read_answers, encoding="utf-8")

    def run(self, block: Block) -> str:
        """Run one block and return what it printed."""
        if self.process is None:
            self._start()
        starts = [os.fstat(f.fileno()).st_size for f in (self.printed, self.complaints)]
        self.requests.write(json.dumps([block.line, block.content]) + "\n")
        self.requests.flush()
        if not select.select([self.answers], [], [], self.timeout)[0]:
            raise block.problem(f"not done after {self.timeout:g} s")
        answer = self.answers.readline()
        printed, complaints = (
            os.pread(file.fileno(), os.fstat(file.fileno()).st_size - start, start).decode()
            for file, start in zip((self.printed, self.complaints), starts, strict=True)
        )
        if not answer:
            code = self.process.wait()
            raise block.problem(f"Python ended with exit code {code}", printed + complaints)
        if error := json.loads(answer):
            raise block.problem("an exception", f"{printed}{complaints}{error}")
        return printed

    def __exit__(self, *_) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.requests.close()
            self.answers.close()
        self.printed.close()
        self.complaints.close()


def _serve(path: str, title: str, requests: str, answers: str) -> None:
    """Run the blocks that are asked for, in one namespace; answer with the traceback or null."""
    lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    # tracebacks and `inspect` find the lines of a block in the document, under their own numbers
    linecache.cache[title] = (len(lines), None, lines, title)
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.path[0], sys.argv = "", [""]
    with (
        os.fdopen(int(requests), encoding="utf-8") as asked,
        os.fdopen(int(answers), "w", encoding="utf-8") as answer,
    ):
        for request in asked:
            line, content = json.loads(request)
            block = content.splitlines(keepends=True)
            lines[line - 1 : line - 1 + len(block)] = block  # without the indent of a list
            error = None
            try:
                code = compile("\n" * (line - 1) + content, title, "exec", dont_inherit=True)
                exec(code, vars(main))
            except BaseException as caught:
                trace = caught.__traceback__.tb_next  # without the call above
                error = "".join(traceback.format_exception(type(caught), caught, trace))
            print(json.dumps(error), file=answer, flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
