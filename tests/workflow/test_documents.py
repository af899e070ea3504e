"""The code of the documents runs as printed; and what runs it notices when it does not."""

import pytest
from documents import REPOSITORY, DocumentError, read_blocks, run_document

pytestmark = pytest.mark.workflow
DOCUMENTS = ["README.md", "docs/tutorial.md", "docs/own_pipeline.md"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_runs_as_printed(name, tmp_path):
    assert run_document(REPOSITORY / name, tmp_path)


# ---- what runs them

GOOD = """
# A title

<!-- file: sub/rows.csv -->
```csv
a,b
1,\t2
```

```python
import inspect

numbers = [1, 2]
```

Only read:

```bash
exit 1
```

<!-- run -->
```bash
test -f "$CFC/Snakefile"
cut -d, -f1 sub/rows.csv
```

<!-- output -->
```text
a
1
```

- in a list:

  ```python
  def total():
      return sum(numbers)
  print("the total is", total())
  print(inspect.getsource(total).splitlines()[0], __name__)
  ```

  <!-- output -->
  ```text
  the total ... 3
  def total(): __main__
  ```

<!-- run -->
```bash
cfc --version
```

<!-- output -->
```text
cfc ...
```
"""


def run(tmp_path, text, **options):
    (tmp_path / "page.md").write_text(text)
    (tmp_path / "folder").mkdir()
    return run_document(tmp_path / "page.md", tmp_path / "folder", **options)


def failure(tmp_path, text, **options) -> str:
    with pytest.raises(DocumentError) as caught:
        run(tmp_path, text, **options)
    return str(caught.value)


def test_blocks_run_in_order_in_one_folder_and_one_namespace(tmp_path):
    blocks = run(tmp_path, GOOD)
    assert [b.action for b in blocks] == ["file", "python", "bash", "python", "bash"]
    assert (tmp_path / "folder/sub/rows.csv").read_text() == "a,b\n1,\t2\n"


def test_an_exception_names_document_line_and_block(tmp_path):
    text = failure(
        tmp_path, "```python\nx = 1\n```\n\n```python\nprint('before')\n\ny = x / 0\n```\n"
    )
    assert text.startswith("page.md, line 6, block 2 (python): an exception")
    assert "    8  y = x / 0" in text
    assert 'File "page.md", line 8, in <module>\n    y = x / 0' in text
    assert "before" in text
    assert "documents.py" not in text  # nothing of the machinery


@pytest.mark.parametrize("code", ["import os; os._exit(3)", "raise SystemExit(3)"])
def test_a_session_may_not_end(tmp_path, code):
    text = failure(tmp_path, f"```python\n{code}\n```\n")
    assert text.startswith("page.md, line 2, block 1 (python)")
    assert "3" in text.splitlines()[0] or "SystemExit: 3" in text


def test_a_syntax_error_has_its_line_in_the_document(tmp_path):
    assert 'File "page.md", line 3' in failure(tmp_path, "```python\nx = 1\nx =\n```\n")


def test_another_output_is_shown_line_by_line(tmp_path):
    text = failure(
        tmp_path,
        "```python\nprint('a\\nb')\n```\n<!-- output -->\n```text\na\nc\n```\n",
    )
    assert text.startswith("page.md, line 2, block 1 (python): another output")
    assert "\n a\n-c\n+b" in text


@pytest.mark.parametrize(
    "command", ["false | cat", "echo $NO_SUCH_VARIABLE", "false; true", "cfc no-such-command"]
)
def test_bash_stops_at_the_first_failure(tmp_path, command):
    text = failure(tmp_path, f"one\n\n<!-- run -->\n```bash\n{command}\n```\n")
    assert text.startswith("page.md, line 5, block 1 (bash): exit code ")


def test_what_a_bash_block_prints_is_compared_too(tmp_path):
    page = "<!-- run -->\n```bash\necho 1\n```\n<!-- output -->\n```text\n2\n```\n"
    assert "-2\n+1" in failure(tmp_path, page)


@pytest.mark.parametrize(
    "block", ["```python\nwhile True: pass\n```\n", "<!-- run -->\n```bash\nsleep 60\n```\n"]
)
def test_a_block_that_does_not_end_is_stopped(tmp_path, block):
    assert "not done after 1 s" in failure(tmp_path, block, timeout=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- rum -->\n```bash\ntrue\n```\n", "'rum' means nothing before a 'bash' block"),
        ("<!-- run -->\n```python\n1\n```\n", "'run' means nothing before a 'python' block"),
        ("<!-- output -->\n```text\n1\n```\n", "no block before it"),
        ("text\n\n```python\n1\n", "page.md, line 3: this block is never closed"),
    ],
)
def test_a_comment_or_fence_that_means_nothing_is_refused(tmp_path, text, message):
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(DocumentError, match=message):
        read_blocks(tmp_path / "page.md", "page.md")
