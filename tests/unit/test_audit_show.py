"""Reading an audit: sentences against records made by hand, and against the model itself."""

import re
import unicodedata
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from audit_tables import MadeAudit, make_audit

from cfc.auditing.cases import cell_text, group_rows, number_text, values_of
from cfc.auditing.html_card import STYLE, card_body, collapse_svg
from cfc.auditing.show import (
    alone_of,
    card_html,
    card_text,
    frame_html,
    plot_audit,
    plot_case,
    reading,
    record_of,
    summary,
)
from cfc.auditing.words import decimal_text, fraction_text, percent_text, probability_text
from cfc.errors import CfcError

NASTY = "<img src=x onerror=\"alert(1)\"> & 'co'"


# --- hand-made records: two classes, groups a, b, c and d, margin 2, nothing flips ---


def facts(**changes):
    protocol = {
        "operators": ["top1", "top3", "all"],
        "severities": [0.25, 0.5, 0.75, 1.0],
        "margin": "original",
        "depth": 10,
    }
    groups = changes.pop("groups", ["a", "b", "c", "d"])
    made = {
        "classes": ["benign", "malignant"],
        "groups": {"names": groups, "indices": [[i] for i in range(len(groups))]},
        "coordinates": [{"field": name, "kind": "value"} for name in groups],
        "columns": groups,
        "clip": 1e-12,
        "fixed": [],
        "exposure": None,
        "stress": None,
        "rank_by": "u",
        "n_cases": 1,
        "baseline_text": {},
    }
    protocol |= {key: changes.pop(key) for key in list(changes) if key in protocol}
    return {**made, "protocol": protocol, **changes}


def record(labels=(1, 1, 1, 1, 1), **changes):
    """Return a record whose path has these labels; margins, k* and thresholds agree with them."""
    first = labels[0]
    flips = [k for k, label in enumerate(labels) if label != first]
    end = changes.get("baseline_label", labels[-1])
    made = {
        "case_id": 0,
        "index": 17,
        "predicted": first,
        "predicted_label": ["benign", "malignant", "other"][first],
        "confidence": 0.975,
        "margin": 2.0,
        "proba": [0.025, 0.975],
        "group_order": ["a", "b", "c", "d"],
        "delta": [3.0 if labels[1] != first else 1.0, 0.5, 0.2, -0.1],
        "path_margin": [2.0 if label == first else -1.0 for label in labels],
        "path_label": list(labels),
        "flip_budget": flips[0] if flips else len(labels),
        "lambda_top1": None if labels[1] == first else 1.0,
        "lambda_top3": None if labels[min(3, len(labels) - 1)] == first else 1.0,
        "lambda_all": None if end == first else 1.0,
        "baseline_label": end,
        "warnings": [],
        "rcma": 0.5,
        "u": 0.6,
        "fds": 0.4,
        "rank": 1,
        "forward_rows": 20,
    }
    return {**made, **changes}


def said(made, of):
    """Return the sentences after the one on the prediction."""
    first, *others = reading(made, of)
    assert first.startswith("Predicted “")
    return others


ALTOGETHER = (
    "Moving “a” three quarters of the way to its baseline does not change it: it has to go "
    "altogether."
)
SILENT = (
    "Moving “a”, the first 3 groups together or all 4 groups together towards the baseline, by "
    "25, 50, 75 and 100 %, does not change it."
)
FEWER = "Removal follows one order, so fewer groups may be enough."
NO_SINGLE = "No single group changes it alone."


@pytest.mark.parametrize(
    ("delta", "others"),
    [
        ([3.0, 0.5, 0.2, -0.1], []),
        ([3.0, 2.5, 0.2, -0.1], ["Losing “b” alone would change it too."]),
        ([3.0, 2.5, 2.1, -0.1], ["Losing “b” or “c” alone would change it too."]),
        ([3.0, 2.5, 2.1, 2.05], ["Losing “b”, “c” or “d” alone would change it too."]),
        ([3.0, 2.0, 1.9, 0.0], []),  # losing exactly all of the margin is a tie, not a change
    ],
)
def test_one_group_is_enough(delta, others):
    found = said(record((1, 0, 0, 0, 0), delta=delta), facts())
    assert found == ["Without “a” this decision becomes “benign”.", *others, ALTOGETHER]


def test_many_groups_are_counted_after_three():
    names = list("abcdefg")
    made = record(
        (1, 0, 0, 0, 0, 0, 0, 0), group_order=names, delta=[9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0]
    )
    assert said(made, facts(groups=names))[1] == (
        "Losing “b”, “c”, “d” or 3 more alone would change it too."
    )
    made = record((1, 1, 1, 1, 1, 1, 0, 0), group_order=names, delta=[1.0] * 7)
    assert said(made, facts(groups=names))[0] == (
        "It takes the first 6 groups (“a”, “b”, “c”, “d” and 2 more) together before the decision "
        "changes, to “benign”; none of them alone changes it."
    )


@pytest.mark.parametrize(
    ("labels", "which", "more"),
    [
        # with no group enough alone, two are the fewest there can be
        ((1, 1, 0, 0, 0), "the first 2 groups (“a” and “b”)", []),
        ((1, 1, 1, 0, 0), "the first 3 groups (“a”, “b” and “c”)", [FEWER]),
        ((1, 1, 1, 1, 0), "all 4 groups (“a”, “b”, “c” and “d”)", [FEWER]),
    ],
)
def test_several_groups_together(labels, which, more):
    assert said(record(labels), facts()) == [
        f"It takes {which} together before the decision changes, to “benign”; none of them alone "
        "changes it.",
        *more,
    ]


def test_the_class_it_becomes_is_that_of_the_step():
    of = facts(classes=["red", "green", "blue"])
    made = record((2, 2, 0, 1, 1), predicted_label="blue", proba=[0.1, 0.2, 0.7], confidence=0.7)
    assert reading(made, of)[0] == "Predicted “blue” with probability .70 (next: “green”, .20)."
    assert said(made, of)[0].endswith(
        "before the decision changes, to “red”; none of them alone changes it."
    )


def test_an_order_of_ones_own_can_pass_a_group_that_flips_alone():
    made = record((1, 1, 0, 0, 0), delta=[0.1, 0.2, 2.5, 0.0])
    assert said(made, facts())[0] == (
        "It takes the first 2 groups (“a” and “b”) together before the decision changes, to "
        "“benign”; “c” alone would change it too."
    )
    assert FEWER not in said(record((1, 1, 1, 0, 0), delta=[0.1, 0.2, 2.5, 0.0]), facts())
    made = record((1, 1, 1), delta=[0.1, 0.2, 0.0, 2.5], baseline_label=0)
    assert said(made, facts())[:2] == [
        "No flip within K = 2 removals: without the first 2 of 4 groups it is still “malignant”.",
        "“d” alone would change it.",
    ]


def test_an_unsigned_margin_tells_of_the_first_group_only():
    of = facts(margin="unsigned")
    deltas = [1.9, 1.0, 0.5, 0.1]
    assert said(record((1, 1, 0, 0, 0), delta=deltas), of) == [
        "It takes the first 2 groups (“a” and “b”) together before the decision changes, to "
        "“benign”; “a” alone does not change it."
    ]
    assert NO_SINGLE not in said(record((1, 1, 1, 1, 1), delta=deltas), of)
    assert said(record((1, 0, 0, 0, 0), delta=deltas), of)[0] == (
        "Without “a” this decision becomes “benign”."
    )


def test_what_a_group_that_leaves_a_tie_does_alone_is_not_said():
    made = record((1, 1, 0, 0, 0), delta=[0.1, 2.0, 0.0, 0.0])
    assert said(made, facts()) == [
        "It takes the first 2 groups (“a” and “b”) together before the decision changes, to "
        "“benign”; “a” alone does not change it."
    ]
    assert NO_SINGLE not in said(record(delta=[0.1, 2.0, 0.0, 0.0]), facts())


def test_no_flip_on_the_whole_path():
    assert said(record(), facts()) == [
        "No flip within K = 4 removals: they end at the baseline, which is predicted “malignant” "
        "itself, so this is weak evidence.",
        NO_SINGLE,
        SILENT,
    ]
    assert said(record(), facts(fixed=["date"]))[0] == (
        "No flip within K = 4 removals: with all 4 groups at their baseline it is still "
        "“malignant”."
    )


def test_no_flip_within_a_shorter_path():
    here = "No flip within K = 2 removals: without the first 2 of 4 groups it is still “malignant”."
    assert said(record((1, 1, 1), baseline_label=1), facts()) == [
        here,
        NO_SINGLE,
        "The baseline itself is predicted “malignant” as well, so this is weak evidence.",
        SILENT,
    ]
    assert said(record((1, 1, 1), baseline_label=0), facts()) == [
        here,
        NO_SINGLE,
        "Moving all 4 groups together all the way to their baseline changes it.",
    ]
    assert said(record((1, 1), baseline_label=0), facts())[0] == (
        "No flip within K = 1 removal: without the first of 4 groups it is still “malignant”."
    )


def test_a_single_group():
    of = facts(groups=["x"])
    one = {"group_order": ["x"], "delta": [3.0]}
    assert said(record((1, 0), **one), of) == [
        "Without its only group, “x”, this decision becomes “benign”.",
        ALTOGETHER.replace("“a”", "“x”"),
    ]
    assert said(record((1, 1), group_order=["x"], delta=[1.0]), of) == [
        "Without its only group, “x”, it is still “malignant”.",
        "Moving “x” towards the baseline, by 25, 50, 75 and 100 %, does not change it.",
    ]
    # top1, top3 and all are the same states, told once
    faded = {"lambda_top1": 0.5, "lambda_top3": 0.5, "lambda_all": 0.5}
    assert said(record((1, 0), **one, **faded), of)[1:] == [
        "Moving “x” half way to its baseline already changes it."
    ]


def test_a_change_that_does_not_last():
    found = said(record((1, 0, 0, 1, 1)), facts())
    assert found[1] == "With the first 3 groups gone the model says “malignant” again."
    found = said(record((1, 1, 0, 0, 1)), facts())
    assert found[1] == "With all 4 groups gone the model says “malignant” again."


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [
        (
            (0.25, 0.25, 0.25),
            ["Moving “a” a quarter of the way to its baseline already changes it."],
        ),
        (
            (0.75, 0.5, 0.25),
            [
                "Moving “a” three quarters of the way to its baseline already changes it.",
                "Moving the first 3 groups together half way to their baseline already changes it.",
                "Moving all 4 groups together a quarter of the way to their baseline already "
                "changes it.",
            ],
        ),
        (
            (1.0, 0.5, 0.5),
            [
                ALTOGETHER,
                "Moving the first 3 groups together half way to their baseline already changes it.",
            ],
        ),
        ((1.0, 1.0, 1.0), [ALTOGETHER]),
    ],
)
def test_fading(thresholds, expected):
    names = ("lambda_top1", "lambda_top3", "lambda_all")
    made = record((1, 0, 0, 0, 0), **dict(zip(names, thresholds, strict=True)))
    assert said(made, facts())[1:] == expected


def test_fading_further_than_the_change():
    """Half way flips it although removal does not: neither is hidden."""
    made = record((1, 1, 1, 1, 1), lambda_top1=0.5)
    assert said(made, facts())[-1] == (
        "Moving “a” half way to its baseline changes it, all the way does not."
    )
    made = record((1, 1, 1), baseline_label=0, lambda_top3=0.1)
    assert said(made, facts(severities=[0.1, 1.0]))[-1] == (
        "Moving the first 3 groups together 10 % of the way to their baseline already changes it."
    )


def test_fading_that_ends_before_removal():
    made = record((1, 0, 0, 0, 0), lambda_top1=None, lambda_top3=None, lambda_all=None)
    assert said(made, facts(severities=[0.25, 0.5]))[1:] == [
        "Moving “a” half way to its baseline does not change it."
    ]


def test_other_degradation_operators():
    of = facts(operators=["prefix", "sign_noise", "my_drift"])
    made = record((1, 1, 0, 0, 0), lambda_prefix=0.5, lambda_sign_noise=0.25, lambda_my_drift=0.75)
    assert said(made, of)[1:] == [
        "Shifting every number by .25 standard deviations, up or down at random, changes it.",
        "The operator “my_drift” changes it from severity .75 on.",
    ]
    silent = {"lambda_prefix": None, "lambda_sign_noise": float("inf"), "lambda_my_drift": None}
    assert len(said(record((1, 1, 0, 0, 0), **silent), of)) == 1


@pytest.mark.parametrize(
    ("flips", "sentence"),
    [
        (
            [0, 0, 0, 0],
            "No value tried from the background changes it when one group takes it alone.",
        ),
        (
            [0, 0.41, 0, 0],
            "At values that occur in the background, “b” would change it 41 % of the time.",
        ),
        (
            [0.004, 0, 0.998, 0],
            "At values that occur in the background, “c” would change it over 99 % of the time and "
            "“a” under 1 %.",
        ),
        (
            [0.1, 0.2, 0.3, 0.05],
            "At values that occur in the background, “c” would change it 30 % of the time, “b” "
            "20 % and “a” 10 %; 1 more group could too.",
        ),
    ],
)
def test_exposure(flips, sentence):
    made = record((1, 1, 0, 0, 0), exposure_flip=flips, exposure_mean=[0.1] * 4)
    assert said(made, facts())[-1] == sentence


STRESS = {
    "threshold": 0.85,
    "settings": {
        "mask": {"severities": [0.1, 0.2], "draws": 50},
        "swap": {"severities": [0.1], "draws": 1},
    },
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"stress_mask_flip": None, "stress_swap_flip": None},
            ["Not stressed: its probability is below .85."],
        ),
        (
            {"stress_mask_flip": [0.0, 0.0], "stress_swap_flip": [0.0], "brittle_expected": None},
            ["No draw of the simulated stress changed it."],
        ),
        (
            {
                "stress_mask_flip": [0.02, 0.62],
                "stress_swap_flip": [0.0],
                "brittle_expected": True,
                "brittle_swap": False,
            },
            [
                "Simulated stress changed it most often under “mask” at severity .2: in 62 % of 50 "
                "draws.",
                "It counts as brittle by the rule “expected”, not by “swap”.",
            ],
        ),
        (
            {
                "stress_mask_flip": [0.0, 0.62],
                "stress_swap_flip": [1.0],
                "brittle_expected": True,
                "brittle_swap": True,
            },
            [
                "Simulated stress changed it most often under “swap” at severity .1: in 100 % of 1 "
                "draw.",
                "It counts as brittle by the rule “expected” and by “swap”.",
            ],
        ),
        (
            {
                "stress_mask_flip": [0.0, 0.02],
                "stress_swap_flip": [0.0],
                "brittle_expected": False,
                "brittle_swap": False,
            },
            [
                "Simulated stress changed it most often under “mask” at severity .2: in 2 % of 50 "
                "draws.",
                "It counts as brittle by no rule (“expected” and “swap”).",
            ],
        ),
    ],
)
def test_stress(changes, expected):
    found = said(record((1, 1, 0, 0, 0), **changes), facts(stress=STRESS))
    assert found[1:] == expected


def test_warnings_in_words():
    def warned(kind, **changes):
        of = facts(classes=["benign", "malignant", "other"]) if "proba" in changes else facts()
        return said(record(warnings=[kind], **changes), of)[0]

    limit = "the smallest probability told apart from zero (1e-12)"
    two = record(warnings=["saturated"], proba=[0.0, 1.0])
    assert said(two, facts())[0] == (
        f"The other class is at {limit}, so the margin of 2 is a lower bound."
    )
    assert warned("saturated", proba=[0.0, 1.0, 0.0]) == (
        f"The next class is at {limit}, so the margin of 2 is a lower bound."
    )
    assert warned("saturated", proba=[0.3, 0.7, 0.0]) == (
        f"An unlikely class is at {limit}: margins against it are lower bounds."
    )
    assert "all but tied" in warned("near_tie")
    for margin, size in ((0.0, "zero"), (1e-12, "all but zero"), (float("nan"), "not a number")):
        assert warned("undefined_margin", margin=margin) == (
            f"Its margin is {size}, so shares of it (RCMA, exposure and with them u) mean nothing "
            "here."
        )
    assert "never seen" in warned("unseen_category")
    assert warned("odd_thing") == "Warning: odd_thing."


def test_right_and_wrong():
    assert reading(record(true_label="malignant"), facts())[0] == (
        "Predicted “malignant” with probability .97. That is right."
    )
    assert reading(record(true_label="benign"), facts())[0] == (
        "Predicted “malignant” with probability .97. That is wrong: it is “benign”."
    )


def test_numbers_in_words():
    assert [
        probability_text(p) for p in (0.29, 0.5, 0.989999, 0.9949, 0.99999, 1.0, 0.004, 0.0)
    ] == [
        ".29",
        ".50",
        ".98",
        ".994",
        ".9999",
        "1",
        "under .01",
        ".00",
    ]
    assert [percent_text(p) for p in (0, 0.0001, 0.01, 0.994, 1)] == [
        "0 %",
        "under 1 %",
        "1 %",
        "over 99 %",
        "100 %",
    ]
    assert [decimal_text(v) for v in (0.25, 1.0, 1.5)] == [".25", "1", "1.5"]
    assert [fraction_text(v) for v in (0.25, 0.5, 0.1, 1.0)] == [
        "a quarter of the way",
        "half way",
        "10 % of the way",
        "all the way",
    ]
    assert [
        number_text(v) for v in (1.005, -0.5, -0.0, 0.0031, -2e-7, 123456.0, None, float("nan"))
    ] == [
        "1.00",
        "−0.50",
        "0.00",
        "0.003",
        "−2e−07",
        "1e+05",
        "—",
        "—",
    ]


# --- real audits: what is said is asked of the model itself ---


@pytest.fixture(scope="module")
def audits() -> dict[str, MadeAudit]:
    return {
        "measure": make_audit(grouping="measure"),
        "raw": make_audit(preset="paper", exposure=False, stress=False, truth=False),
        "wine": make_audit(data="wine"),
        "one": make_audit(grouping="one", n=40),
        "greedy": make_audit(grouping="measure", order="greedy", n=60, stress=False),
        "reference": make_audit(grouping="measure", preset="reference", n=60, stress=False),
    }


_ALONE = r"Without (?:its only group, )?“([^”]*)”,? this decision becomes “([^”]*)”"
_TOGETHER = r"It takes (?:all|the first) (\d+) groups .*?, to “([^”]*)”"


def without(audit: MadeAudit, row: int, names) -> int:
    """Return the class of a case with some groups at the baseline."""
    x = audit.matrix[row].copy()
    for name, index in audit.groups:
        if name in names:
            x[index] = audit.baseline[index]
    return int(audit.predict(x[None]).argmax())


@pytest.mark.parametrize("name", ["measure", "raw", "wine", "one", "greedy"])
def test_what_is_said_of_removal_is_what_the_model_does(audits, name):
    audit = audits[name]
    checked = 0
    flips = alone_of(audit.table, audit.facts)
    for row in range(0, len(audit.table), 3):
        made = record_of(audit, row)
        own = made["predicted"]
        singles = [g for g in audit.groups.names if without(audit, row, [g]) != own]
        assert [g for g, f in zip(audit.groups.names, flips[row], strict=True) if f] == singles
        text = " ".join(reading(made, audit.facts))
        if first := re.search(_ALONE, text):
            assert without(audit, row, [first[1]]) == audit.facts["classes"].index(first[2])
            checked += 1
        if several := re.search(_TOGETHER, text):
            order = made["group_order"]
            together = without(audit, row, order[: int(several[1])])
            assert together == audit.facts["classes"].index(several[2])
            assert without(audit, row, order[: int(several[1]) - 1]) == own
            checked += 1
        if "none of them alone" in text or "No single group" in text:
            assert singles == []
            checked += 1
        for told in re.findall(r"Losing (.*?) alone would change it too", text):
            assert set(re.findall("“([^”]*)”", told)) <= set(singles)
    assert checked > 5


def test_what_an_unsigned_margin_cannot_tell_is_not_said(audits):
    audit = audits["reference"]
    flips = alone_of(audit.table, audit.facts)
    for row, made in enumerate(audit.table.to_pylist()):
        first = audit.groups.names.index(made["group_order"][0])
        assert flips[row].sum() == flips[row, first] == (made["flip_budget"] == 1)
        assert "none of them alone" not in " ".join(reading(made, audit.facts))


def test_the_summary_counts_confident_cases(audits):
    for audit in (audits["measure"], audits["raw"], audits["one"]):
        frame = audit.table.to_pandas()
        sure = frame[frame["confidence"] >= 0.9]
        flips = [
            [
                name
                for name, d in zip(audit.groups.names, row["delta"], strict=True)
                if d > row["margin"]
            ]
            for _, row in sure.iterrows()
        ]
        found = summary(audit.table, audit.facts)
        assert found["cases"] == len(frame)
        assert found["confident"] == len(sure)
        assert found["fragile"] == sum(map(bool, flips))
        counts = pd.Series([name for names in flips for name in names]).value_counts()
        assert found["points"] == counts.to_dict()
        assert list(found["points"].values()) == sorted(found["points"].values(), reverse=True)
        none = found["budgets"].pop(None)
        assert {k: v for k, v in found["budgets"].items() if v} == {
            k: v
            for k, v in sure["flip_budget"].value_counts().items()
            if k <= 10 and k <= len(audit.groups)
        }
        assert none + sum(found["budgets"].values()) == len(sure)


def test_no_confident_case_is_no_share(audits):
    audit = audits["wine"]
    unsure = audit.table.filter(pa.array(audit.table.to_pandas()["confidence"] < 0.9))
    found = summary(unsure, audit.facts)
    assert (found["confident"], found["share"], found["points"]) == (0, None, {})
    none = summary(audit.table.slice(0, 0), audit.facts)
    assert (none["cases"], none["share"]) == (0, None)


# --- values of the user's rows ---


def tables(frame):
    import importlib.util

    yield "pandas", frame
    yield "arrow", pa.Table.from_pandas(frame, preserve_index=False)
    if importlib.util.find_spec("polars"):
        import polars

        yield "polars", polars.from_pandas(frame)
    yield "numpy", frame.to_numpy(dtype=object)


def test_values_are_those_of_the_row_whatever_the_container():
    frame = pd.DataFrame(
        {
            "a": [1.0, 2.5, float("nan")],
            "n": [3, 4, 5],
            "c": pd.Categorical(["x", None, "y"]),
            "b": [True, False, True],
        }
    )
    expected = [
        {"a": "missing", "n": "5", "c": "y", "b": "True"},
        {"a": "1", "n": "3", "c": "x", "b": "True"},
        {"a": "2.5", "n": "4", "c": "missing", "b": "False"},
    ]
    for kind, X in tables(frame):
        assert values_of(X, [2, 0, 1], list(frame.columns)) == expected, kind
    assert values_of(frame[["c", "b", "n", "a"]], [1], list(frame.columns)) == expected[2:]
    assert values_of(None, [0, 1], ["a"]) == [{}, {}]
    assert cell_text(1234567.0) == "1234567"
    assert cell_text(0.1234567) == "0.1235"
    assert cell_text(pd.NA) == "missing"


def test_a_case_shows_its_own_values_when_the_table_is_sorted(audits):
    audit = audits["measure"]
    order = np.argsort(audit.table["rank"].to_numpy())
    ranked = MadeAudit(**{**audit.__dict__, "table": audit.table.take(order)})
    first = record_of(ranked, 0)
    area = audit.X["mean area"].iloc[first["case_id"]]
    assert f"mean area {cell_text(float(area))}" in card_text(ranked, 0, 120)


def test_rows_of_groups_are_in_order_of_removal(audits):
    audit = audits["raw"]
    made = record_of(audit, 3)
    values = values_of(audit.X, [made["case_id"]], audit.facts["columns"])[0]
    rows = group_rows(made, audit.facts, values)
    assert [row.name for row in rows] == made["group_order"]
    assert [row.k for row in rows] == list(range(1, 31))
    by_name = dict(zip(audit.groups.names, made["delta"], strict=True))
    assert [row.delta for row in rows] == [by_name[row.name] for row in rows]
    assert [row.margin for row in rows] == [*made["path_margin"][1:], *[None] * 20]
    assert rows[0].value == values[rows[0].name]
    assert rows[0].baseline == audit.facts["baseline_text"][rows[0].name]


def test_a_case_that_is_not_there(audits):
    for position in (-1, 40):
        with pytest.raises(CfcError, match=r"no case at position -?\d+: the audit holds 40 cases"):
            card_text(audits["one"], position)


# --- text ---


def cells(text):
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


@pytest.mark.parametrize("width", [40, 59, 64, 80, 100, 200])
def test_no_line_of_a_text_card_is_too_wide(audits, width):
    for audit in audits.values():
        for position in range(0, len(audit.table), 17):
            lines = card_text(audit, position, width).split("\n")
            assert max(map(cells, lines)) <= width


def test_columns_of_a_text_card_are_aligned(audits):
    lines = card_text(audits["measure"], 5, 100).split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(" k without"))
    table = [line for line in lines[start : start + 25] if re.match(r" ?\d+ ", line)]
    assert len(table) == 11
    edge = lines[start].index("then") + 4
    for line in table:
        assert re.match(r"[ \d−.]{4}[\d]$", line[edge - 5 : edge]), line
    tick = {line.index("|") for line in table[1:]}
    assert len(tick) == 1


def test_wide_letters_and_control_characters_keep_the_columns():
    audit = make_audit(
        grouping="raw",
        n=3,
        rename={
            "mean radius": "平均半径" * 9,
            "mean area": "a\tb\n\x1b[31mc",
            "mean texture": "é" * 70,
        },
        exposure=False,
        stress=False,
        depth=30,
    )
    text = card_text(audit, 0, 72)
    assert "\x1b" not in text
    assert "\t" not in text
    assert max(map(cells, text.split("\n"))) <= 72
    then = next(line for line in text.split("\n") if "平均半径" in line and "…" in line)
    assert cells(then) > 40


def test_marks_in_a_text_card_are_the_labels(audits):
    audit = audits["measure"]
    for position in range(0, 60, 7):
        made = record_of(audit, position)
        lines = [
            x for x in card_text(audit, position, 90).split("\n") if re.match(r" ?[1-9]\d* \D", x)
        ]
        assert len(lines) == 10
        flipped = [bool(re.search(r" x (benign|malignant)", line)) for line in lines]
        assert flipped == [label != made["predicted"] for label in made["path_label"][1:]]


# --- HTML ---


class Checked(HTMLParser):
    """Collects tags, attributes and text, and counts what is not closed."""

    VOID = frozenset({"wbr", "meta", "link", "br", "input"})
    EMPTY = frozenset({"line", "polygon", "polyline", "circle", "path"})

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID and tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_html_cards_are_well_formed_and_bring_no_script(audits):
    for audit in audits.values():
        for page in (card_html(audit, 4), frame_html(audit, 5)):
            found = Checked(page)
            assert found.open == []
            assert not {"script", "img", "link", "iframe"} & set(found.tags)
            assert not [name for name, _ in found.attributes if name.startswith("on")]
            assert not re.search(r"url\(|https?:|@import", page)


def test_every_name_is_escaped():
    audit = make_audit(
        grouping="raw",
        n=4,
        rename={"worst area": NASTY, "worst perimeter": NASTY[::-1]},
        index=[NASTY] * 4,
    )
    audit.facts["classes"] = [NASTY, "b"]
    table = audit.table.to_pylist()
    for row in table:
        row["predicted_label"] = audit.facts["classes"][row["predicted"]]
        row["warnings"] = [NASTY]
    audit.table = pa.Table.from_pylist(table, audit.table.schema)
    for page in (card_html(audit, 0), frame_html(audit)):
        found = Checked(page)
        assert "img" not in found.tags
        assert not [name for name, _ in found.attributes if name == "onerror"]
        assert NASTY in "".join(found.words)


def test_styles_of_a_card_touch_nothing_outside_it():
    text = STYLE.read_text(encoding="utf-8")
    selectors = re.findall(r"(?:^|\})\s*([^{}@]+)\{", re.sub(r"@container[^{]*\{", "}", text))
    assert len(selectors) > 40
    for group in selectors:
        for selector in group.split(","):
            assert selector.strip().startswith((".cfc-card", ".cfc-cell")), selector


def test_the_curve_marks_each_step(audits):
    audit = audits["measure"]
    for position in range(0, 284, 40):
        made = record_of(audit, position)
        svg = collapse_svg(made, audit.facts)
        kept = re.findall(r'<svg x="([\d.]+)%" y="([\d.]+)" class="cfc-(kept|flip)">', svg)
        assert [k == "flip" for _, _, k in kept] == [
            label != made["predicted"] for label in made["path_label"]
        ]
        x, y = np.array([[float(a), float(b)] for a, b, _ in kept]).T
        assert (np.diff(x) > 0).all()
        # further down the smaller the margin, on one scale
        fit = np.polyfit(made["path_margin"], y, 1)
        assert fit[0] < 0
        assert np.allclose(np.polyval(fit, made["path_margin"]), y, atol=0.1)
        zero = float(re.search(r'cfc-zero" x2="100%" y1="([\d.]+)"', svg)[1])
        assert zero == pytest.approx(np.polyval(fit, 0), abs=0.1)


def test_a_margin_that_is_not_a_number_is_said():
    made = record((1, 0, 0, 0, 0), margin=float("nan"), path_margin=[float("nan")] * 5)
    made["delta"] = [float("nan")] * 4
    page = card_body(made, facts(), {})
    assert "not a number" in page
    assert not re.search(r"\bnan\b", page.lower())


def test_a_card_leaves_out_what_was_not_run(audits):
    page = card_html(audits["raw"], 0)
    assert "Held-out stress" not in page
    assert "values that flip" not in page
    full = card_html(audits["measure"], 0)
    assert "Held-out stress" in full
    assert "values that flip" in full
    made = record_of(audits["measure"], 0)
    order = re.findall(r"<th scope=row>([^<]*)", full[full.rindex("cfc-groups") :])
    assert order == ["nothing removed", *made["group_order"]]


def test_the_frame_shows_the_most_fragile_first(audits):
    audit = audits["measure"]
    page = frame_html(audit, 7)
    ranked = sorted(audit.table.to_pylist(), key=lambda r: r["rank"])[:7]
    rows = re.findall(r"<tr><td>(\d+)</td><td>(\d+)</td>", page)
    assert rows == [(str(r["rank"]), str(r["index"])) for r in ranked]
    assert "277 more cases" in page
    assert "245 confident cases" in page


# --- plots ---


@pytest.fixture
def axes():
    from matplotlib.figure import Figure

    return Figure().subplots()


def test_plots_draw_into_the_axes_they_are_given(audits, axes):
    audit = audits["measure"]
    made = record_of(audit, 0)
    assert plot_case(made, audit.facts, axes) is axes
    line = max(axes.lines, key=lambda drawn: len(drawn.get_xdata()))
    assert line.get_ydata().tolist() == pytest.approx(made["path_margin"])
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names == ["none", *made["group_order"][:10]]
    assert f"case {made['index']}" in axes.get_title(loc="left")


def test_the_plot_of_all_cases_marks_one_step_flips(audits, axes):
    audit = audits["measure"]
    assert plot_audit(audit.table, audit.facts, axes) is axes
    flips = alone_of(audit.table, audit.facts).any(axis=1)
    held, marked = axes.collections
    assert len(marked.get_offsets()) == flips.sum()
    assert len(held.get_offsets()) == len(flips) - flips.sum()
    s = audit.table["s"].to_numpy()
    assert sorted(marked.get_offsets()[:, 1]) == pytest.approx(sorted(s[flips]))
    assert "S" in axes.get_ylabel()
    assert axes.get_yscale() == "log"


def test_without_axes_a_new_figure_is_made(audits):
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    audit = audits["raw"]
    first = plot_case(record_of(audit, 0), audit.facts)
    second = plot_audit(audit.table, audit.facts)
    assert first.figure is not second.figure
    assert second.get_ylabel() == "fragility u"
    pyplot.close("all")
    empty = plot_audit(audit.table.slice(0, 0), audit.facts)
    assert empty.get_yscale() == "linear"
    pyplot.close("all")


def test_dollar_signs_in_names_are_no_formula(axes):
    audit = make_audit(grouping="raw", n=2, rename={"worst area": "$a_b$ {"}, depth=30)
    audit.facts["classes"] = ["$x^$", "$\\y"]
    plot_case(record_of(audit, 0), audit.facts, axes)
    axes.figure.canvas.draw()
    assert "$a_b$ {" in [t.get_text().replace("\\$", "$") for t in axes.get_xticklabels()]
