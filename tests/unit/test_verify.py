"""cfc.verify and the command: agreement, and every kind of change caught by its name."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from unit.test_audit import people, transformed_pipeline

import cfc
from cfc.artifacts import read_metadata, read_table, write_table
from cfc.auditing import cli
from cfc.auditing.verify import column_differs
from cfc.errors import ArtifactError


@pytest.fixture(scope="module")
def table():
    return people(80)


@pytest.fixture(scope="module")
def model(table):
    forest = RandomForestClassifier(12, random_state=0, max_depth=4)
    return transformed_pipeline(forest).fit(*table)


@pytest.fixture(scope="module")
def audit(table, model):
    return cfc.audit(model, table[0], background=table[0], stress=True, progress=False)


@pytest.fixture
def file(audit, tmp_path):
    audit.to_parquet(tmp_path / "c.parquet")
    return tmp_path / "c.parquet"


def test_everything_agrees(table, model, file):
    found = cfc.verify(file, model, table[0], background=table[0])
    assert found.ok
    assert bool(found)
    assert (found.n_cases, found.n_different, found.n_undecided) == (80, 0, 0)
    assert not found.unchecked
    assert str(found) == "80 certificates recomputed: all agree"


def test_stress_needs_the_background(table, model, file):
    found = cfc.verify(file, model, table[0])
    assert found.ok
    assert found.unchecked == ("stress: pass background= to recompute it",)


def test_rows_are_found_by_their_index(table, model, file):
    shuffled = table[0].sample(frac=1, random_state=1)
    assert cfc.verify(file, model, shuffled).ok
    found = cfc.verify(file, model, shuffled.drop(index="p5"))
    assert not found.ok
    assert "1 of the certified cases are not there (first: p5)" in str(found)


def test_a_changed_row_is_named(table, model, file):
    changed = table[0].copy()
    changed.loc["p7", "income"] += 1
    found = cfc.verify(file, model, changed)
    assert found.n_different == 1
    assert [(d.case, d.field) for d in found.differences] == [("p7", "row")]
    assert any(p.startswith("data: ") for p in found.problems)


def test_a_changed_model_is_named(table, file):
    other = transformed_pipeline(RandomForestClassifier(12, random_state=1, max_depth=4))
    found = cfc.verify(file, other.fit(*table), table[0])
    assert not found.ok
    assert any(p.startswith("model: content hash") for p in found.problems)
    assert found.n_different > 40


def edited(file, change):
    """Write a file again after changing its table or its facts."""
    table, facts = read_table(file), read_metadata(file)
    facts.pop("schema_version")
    table, facts = change(table, facts) or (table, facts)
    write_table(table, file, facts)


def set_cell(name, row, value):
    def change(table, facts):
        column = table.column(name).to_pylist()
        column[row] = value(column[row])
        at = table.column_names.index(name)
        field = table.schema.field(name)
        return table.set_column(at, field, pa.array(column, field.type)), facts

    return change


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("confidence", lambda v: v + 1e-6),
        ("margin", lambda v: v * (1 + 1e-6)),
        ("flip_budget", lambda v: v % 4 + 1),
        ("u", lambda v: v + 0.01),
        ("lambda_all", lambda v: 0.25 if v is None else None),
        ("proba", lambda v: v[::-1]),
        ("path_margin", lambda v: [v[0] + 1, *v[1:]]),
        ("path_proba", lambda v: [v[0][::-1], *v[1:]]),
        ("group_order", lambda v: v[::-1]),
        ("delta", lambda v: [v[0] - 1, *v[1:]]),
        ("predicted_label", lambda v: "maybe"),
        ("exposure_flip", lambda v: [v[0] + 0.5, *v[1:]]),
        ("s", lambda v: v + 5),
        ("warnings", lambda v: [*v, "saturated"]),
        ("is_saturated", lambda v: not v),
        ("baseline_label", lambda v: 1 - v),
    ],
)
def test_an_edited_field_is_named(table, model, file, name, value):
    edited(file, set_cell(name, 11, value))
    found = cfc.verify(file, model, table[0])
    assert [(d.case, d.field) for d in found.differences] == [("p11", name)]
    assert not found.ok
    assert found.to_dict()["differences"][0]["field"] == name


def test_an_edited_rank_is_named(table, model, file):
    edited(file, set_cell("rank", 3, lambda v: 1 if v != 1 else 2))
    found = cfc.verify(file, model, table[0])
    assert ("p3", "rank") in [(d.case, d.field) for d in found.differences]


def test_an_edited_stress_field_is_named(table, model, audit, file):
    confident = pc.fill_null(pc.greater_equal(audit.table["confidence"], 0.85), False)
    row = confident.to_pylist().index(True)
    edited(file, set_cell("stress_swap_flip", row, lambda v: [1 - v[0], *v[1:]]))
    found = cfc.verify(file, model, table[0], background=table[0])
    assert [d.field for d in found.differences] == ["stress_swap_flip"]


def test_a_changed_protocol_is_named(table, model, file):
    def change(table, facts):
        facts["protocol"]["depth"] = 2
        return table, facts

    edited(file, change)
    found = cfc.verify(file, model, table[0])
    assert any(p.startswith("protocol: its settings have the hash") for p in found.problems)


@pytest.mark.parametrize("key", ["protocol_hash", "data_hash"])
def test_a_changed_hash_is_named(table, model, file, key):
    def change(table, facts):
        facts[key] = "0" * 16
        return table, facts

    edited(file, change)
    assert any(key in p or "protocol" in p for p in cfc.verify(file, model, table[0]).problems)


def test_a_removed_row_is_named(table, model, file):
    edited(file, lambda t, facts: (t.slice(0, 79), facts))
    problems = cfc.verify(file, model, table[0]).problems
    assert "the file holds 79 cases and says 80" in problems


def test_another_exposure_grid_is_refused(table, model, file):
    def change(table, facts):
        facts["exposure"]["values"][1][0][0] += 1
        return table, facts

    edited(file, change)
    with pytest.raises(ArtifactError, match="does not fit the exposure grid"):
        cfc.verify(file, model, table[0])


def test_a_file_of_something_else_is_refused(table, model, tmp_path):
    write_table(pa.table({"u": [1.0]}), tmp_path / "other.parquet")
    with pytest.raises(ArtifactError, match="is no certificate file"):
        cfc.verify(tmp_path / "other.parquet", model, table[0])


def test_an_operator_has_to_be_registered(table, model, tmp_path):
    from cfc.operators import STRESSES

    cfc.stress_operator("halved")(lambda X, severity, context: X * (1 - severity / 2))
    stress = {"halved": {"severities": [1.0], "draws": 1}}
    audit = cfc.audit(model, table[0], background=table[0], stress=stress, progress=False)
    try:
        assert cfc.verify(audit, model, table[0], background=table[0]).ok
    finally:
        STRESSES.clear()
    found = cfc.verify(audit, model, table[0], background=table[0])
    assert any("operator 'halved'" in p and "not registered" in p for p in found.problems)


def test_a_predictor_that_rounds_is_compared_within_a_tolerance(table):
    frame, y = table
    model = transformed_pipeline(LogisticRegression()).fit(frame, y)
    audit = cfc.audit(model, frame, background=frame, exposure=False, progress=False)
    model[-1].coef_ *= 1 + 1e-12
    found = cfc.verify(audit, model, frame)
    # another model by its hash, yet no field differs by more than the tolerance
    assert found.n_different == 0 or audit.facts["model"]["is_exact"]
    assert any(p.startswith("model: ") for p in found.problems)


def test_differences_of_columns_by_hand():
    a = pa.array([[1.0, 2.0], None, [3.0], [], [float("nan")]])
    b = pa.array([[1.0, 2.0 + 1e-7], None, [3.0, 4.0], [], [float("nan")]])
    assert column_differs(a, b, rtol=0, atol=0).tolist() == [True, False, True, False, False]
    assert column_differs(a, b, rtol=1e-6, atol=0).tolist() == [False, False, True, False, False]
    a, b = pa.array(["x", None, "y"]), pa.array(["x", "z", "y"])
    assert column_differs(a, b, rtol=0, atol=0).tolist() == [False, True, False]
    nested = pa.array([[[1.0], [2.0]], [[3.0], [4.0]]])
    other = pa.array([[[1.0], [2.5]], [[3.0], [4.0]]])
    assert column_differs(nested, other, rtol=0, atol=0).tolist() == [True, False]


# ---- the command ----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, table, model, monkeypatch):
    frame, y = table
    data = frame.assign(outcome=y, person=frame.index)
    data.to_parquet(tmp_path / "cases.parquet", index=False)
    frame.assign(outcome=y).to_parquet(tmp_path / "train.parquet", index=False)
    skops = pytest.importorskip("skops.io")
    skops.dump(model, tmp_path / "model.skops")
    (tmp_path / "groups.yaml").write_text("money: [income]\nperson: [age, job, town]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


MODEL = ["--model", "model.skops", "--data", "cases.parquet", "--index", "person"]
AUDIT = ["audit", *MODEL, "--target", "outcome", "--background", "train.parquet", "--quiet"]


def test_audit_verify_show_report(folder, capsys):
    assert cli.main([*AUDIT, "--out", "c.parquet", "--html", "page.html"]) == cli.OK
    text = capsys.readouterr().out
    assert text.startswith("80 cases, 4 groups, protocol audit")
    assert (folder / "page.html").stat().st_size > 10_000
    assert not (folder / "c.parquet.partial").exists()
    check = ["verify", "c.parquet", *MODEL, "--drop", "outcome"]
    assert cli.main(check) == cli.OK
    assert "all agree" in capsys.readouterr().out
    assert cli.main(["show", "c.parquet", "p3"]) == cli.OK
    assert "p3" in capsys.readouterr().out
    assert cli.main(["show", "c.parquet", "p3", "--json"]) == cli.OK
    record = json.loads(capsys.readouterr().out)
    assert record["index"] == "p3"
    assert record["true_label"] in ("yes", "no")
    assert cli.main(["report", "c.parquet"]) == cli.OK
    assert (folder / "c.html").is_file()


def test_groups_and_json(folder, capsys):
    words = [*AUDIT, "--out", "c.parquet", "--groups", "groups.yaml", "--json"]
    assert cli.main(words) == cli.OK
    summary = json.loads(capsys.readouterr().out)
    assert (summary["cases"], summary["groups"]) == (80, 2)
    frame = cfc.Audit.from_parquet("c.parquet").to_frame()
    confident = frame[frame["confidence"] >= 0.9]
    assert summary["confident"] == len(confident)
    assert set(read_metadata("c.parquet")["groups"]["names"]) == {"money", "person"}


def test_too_many_fragile_cases_have_an_exit_code(folder, capsys):
    words = [*AUDIT, "--out", "c.parquet"]
    assert cli.main([*words, "--max-fragile-share", "1"]) == cli.OK
    share = cfc.Audit.from_parquet("c.parquet").fragile_share()
    assert share > 0
    code = cli.main([*words, "--max-fragile-share", str(share / 2)])
    assert code == cli.TOO_FRAGILE
    assert "flip on losing one group" in capsys.readouterr().err
    assert (folder / "c.parquet").is_file()


def test_a_difference_has_an_exit_code(folder, capsys):
    assert cli.main([*AUDIT, "--out", "c.parquet"]) == cli.OK
    data = pd.read_parquet("cases.parquet")
    data.loc[2, "income"] *= 2
    data.to_parquet("cases.parquet", index=False)
    capsys.readouterr()
    words = ["verify", "c.parquet", *MODEL, "--drop", "outcome"]
    assert cli.main(words) == cli.NOT_VERIFIED
    assert "case p2: its values are not those that were certified" in capsys.readouterr().out
    assert cli.main([*words, "--json"]) == cli.NOT_VERIFIED
    assert json.loads(capsys.readouterr().out)["different"] == 1


def test_time_that_ran_out_is_resumed(folder, capsys, monkeypatch):
    from cfc.auditing import audit as module

    monkeypatch.setattr(module, "BLOCK", 30)
    words = [*AUDIT, "--out", "c.parquet"]
    assert cli.main([*words, "--max-seconds", "0.000001"]) == cli.INCOMPLETE
    said = capsys.readouterr().err
    assert "time ran out after 30 of 80 cases" in said
    assert not (folder / "c.parquet").exists()
    assert (folder / "c.parquet.partial").is_dir()
    assert cli.main(words) == cli.OK
    resumed = (folder / "c.parquet").read_bytes()
    assert not (folder / "c.parquet.partial").exists()
    assert cli.main([*words[:-1], "d.parquet"]) == cli.OK
    assert (folder / "d.parquet").read_bytes() == resumed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "gone.parquet"], "gone.parquet does not exist"),
        (["--data", "groups.yaml"], "unknown kind of table"),
        (["--index", "nobody"], "has no column 'nobody'"),
        (["--target", "nothing"], "has no column 'nothing'"),
        (["--model", "model.pkl"], "pickle"),
        (["--groups", "gone.yaml"], "gone.yaml cannot be read"),
        (["--protocol", "adit"], "nearest known: audit"),
        (["--plugin", "gone.py"], "gone.py does not exist"),
    ],
)
def test_bad_input_is_named_on_one_exit_code(folder, capsys, words, message):
    (folder / "model.pkl").write_bytes(b"\\x80\\x04")
    assert cli.main([*AUDIT, "--out", "c.parquet", *words]) == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert said.startswith("cfc audit: ")
    assert message in said
    assert "Traceback" not in said


def test_the_command_line_explains_itself(capsys):
    for words in (["--help"], ["audit", "--help"], ["verify", "--help"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(words)
        assert caught.value.code == 0
        assert "exit codes:" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        cli.main(["audit"])
    assert caught.value.code == cli.USAGE


def test_an_operator_from_a_file(folder, capsys):
    from cfc.operators import STRESSES

    (folder / "mine.py").write_text(
        "import cfc\n\n@cfc.degradation('zeroed')\ndef zeroed(X, severity, context):\n"
        "    return X * (1 - severity)\n"
    )
    (folder / "protocol.yaml").write_text("baseline: mean_off\noperators: [top1, zeroed]\n")
    words = ["--plugin", "mine.py", "--protocol", "protocol.yaml", "--out", "c.parquet"]
    try:
        assert cli.main([*AUDIT, *words]) == cli.OK
        assert "lambda_zeroed" in cfc.Audit.from_parquet("c.parquet").table.column_names
        check = ["verify", "c.parquet", *MODEL, "--drop", "outcome", "--plugin", "mine.py"]
        assert cli.main(check) == cli.OK
    finally:
        from cfc.operators import DEGRADATIONS

        DEGRADATIONS.clear()
        STRESSES.clear()


def test_verification_says_undecided_apart():
    found = cfc.Verification(5, (), (), 0, 2, ())
    assert found.ok
    assert str(found) == "5 certificates recomputed: 2 undecided (near-ties)"
    assert not replace(found, problems=("model: another",)).ok
    assert np.isclose(float(found.to_dict()["undecided"]), 2)
