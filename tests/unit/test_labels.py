"""Brittle labels: the four shipped rules by hand, and against brute force."""

import numpy as np
import pytest
import yaml
from unit import reference_cfc as reference

from cfc.errors import ConfigError
from cfc.labels import LabelRule, brittle

SEVERITIES = {"mask": (0.1, 0.2), "noise": (0.25,)}


@pytest.fixture(scope="module")
def shipped(repository):
    config = yaml.safe_load((repository / "config" / "config.yaml").read_text(encoding="utf-8"))
    return config["labels"], config["stress"]


def calm(n=1, draws=6, severities=SEVERITIES):
    """Cases with confidence .95, class 1, margin 2, that no draw changes."""
    shape = {name: (n, len(grid), draws) for name, grid in severities.items()}
    return {
        "confidence": np.full(n, 0.95),
        "predicted": np.ones(n, dtype=np.int16),
        "margin": np.full(n, 2.0),
        "severities": severities,
        "margins": {name: np.full(s, 2, dtype=np.float32) for name, s in shape.items()},
        "labels": {name: np.ones(s, dtype=np.int16) for name, s in shape.items()},
    }


def rule(kind, **rest):
    return LabelRule(kind, rest.pop("cells", {"mask": [0.1, 0.2], "noise": [0.25]}), **rest)


def test_nothing_happens_nothing_is_brittle():
    for kind in ("any_draw", "mean"):
        assert brittle(rule(kind), **calm(3)).tolist() == [False] * 3


def test_one_flip_is_enough_for_any_draw_only():
    case = calm()
    case["labels"]["mask"][0, 1, 2] = 0
    assert brittle(rule("any_draw"), **case).all()
    assert brittle(rule("any_draw", collapse=False), **case).all()
    assert brittle(rule("any_draw", draws=3), **case).all()
    assert not brittle(rule("any_draw", draws=2), **case).any()
    assert not brittle(rule("any_draw", cells={"mask": [0.1], "noise": [0.25]}), **case).any()
    assert not brittle(rule("mean"), **case).any()


@pytest.mark.parametrize(("stressed", "expected"), [(1.01, False), (1.0 - 1e-6, True), (-1, True)])
def test_collapse_of_half_the_margin_counts(stressed, expected):
    # κ = (2 - m') / 2: half from m' = 1 on
    case = calm()
    case["margins"]["noise"][0, 0, 5] = stressed
    assert brittle(rule("any_draw"), **case).tolist() == [expected]
    assert not brittle(rule("any_draw", collapse=False), **case).any()


def test_mean_rule_looks_at_each_cell():
    case = calm(4)
    case["labels"]["mask"][0, 0, :3] = 0  # 3 of 6 flips in one cell
    case["labels"]["mask"][1, :, :2] = 0  # 2 of 6 in two cells: no cell has half
    case["margins"]["noise"][2, 0, :3] = 0 - 1e-5  # κ 1 in half of the draws: mean one half
    case["margins"]["noise"][3, 0] = [-2, 2, 2, 2, 2, 2]  # mean κ of 2/6
    assert brittle(rule("mean"), **case).tolist() == [True, False, True, False]
    assert brittle(rule("mean", collapse=False), **case).tolist() == [True, False, False, False]


def test_gains_do_not_make_up_for_losses():
    case = calm()
    case["margins"]["noise"][0, 0] = [-0.1, -0.1, -0.1, 90, 90, 90]
    assert brittle(rule("mean"), **case).all()


def test_confidence_is_a_condition_with_equality():
    case = calm(3)
    case["labels"]["mask"][:] = 0
    case["confidence"] = np.array([0.8999, 0.90, 0.95])
    assert brittle(rule("mean"), **case).tolist() == [False, True, True]
    assert brittle(rule("any_draw"), **case, tau_p=0.95).tolist() == [False, False, True]


def test_thresholds_can_be_moved():
    case = calm()
    case["margins"]["noise"][0, 0, 0] = 1.4  # κ = 0.3
    assert not brittle(rule("any_draw"), **case).any()
    assert brittle(rule("any_draw"), **case, tau_kappa=0.25).all()
    case["labels"]["mask"][0, 0, :2] = 0
    assert brittle(rule("mean"), **case, tau_flip=0.3).all()


def test_shipped_rules_are_those_of_the_protocol(shipped):
    labels, _ = shipped
    rules = {n: LabelRule.from_mapping(n, v) for n, v in labels["rules"].items()}
    assert (labels["tau_p"], labels["tau_kappa"], labels["tau_flip"]) == (0.9, 0.5, 0.5)
    assert set(rules) == {"literal", "expected", "flip", "swap"}
    literal = rules["literal"]
    assert (literal.kind, literal.draws, literal.collapse) == ("any_draw", 3, True)
    assert literal.cells == {"mask": [0.1, 0.2], "dropout": [0.1, 0.2], "noise": [0.1, 0.25]}
    flip = rules["flip"]
    assert (flip.kind, flip.draws, flip.collapse) == ("any_draw", 5, False)
    assert flip.cells == {"mask": [0.2], "dropout": [0.2], "noise": [0.25]}
    for name in ("expected", "swap"):
        assert (rules[name].kind, rules[name].draws, rules[name].collapse) == ("mean", None, True)
    assert set(rules["expected"].cells) == {"mask", "dropout", "noise"}
    assert set(rules["swap"].cells) == {"swap"}


@pytest.mark.parametrize("name", ["literal", "expected", "flip", "swap"])
def test_shipped_rules_equal_brute_force(shipped, name):
    labels, stress = shipped
    values = labels["rules"][name]
    severities = {operator: tuple(v["severities"]) for operator, v in stress.items()}
    rng = np.random.default_rng(7)
    n, draws = 200, 10
    case = calm(n, draws, severities)
    case["confidence"] = rng.uniform(0.86, 1, size=n)
    case["margin"] = rng.uniform(0.5, 4, size=n)
    for operator, margins in case["margins"].items():
        # cases differ in how fragile they are, so that every rule has both labels
        fragility = rng.uniform(0.1, 0.9, size=(n, 1, 1)) ** 2
        lost = np.abs(rng.normal(size=margins.shape)) * fragility
        margins[:] = case["margin"][:, None, None] * (1 - lost)
        case["labels"][operator][:] = np.where(margins < 0, 0, 1)
    found = brittle(LabelRule.from_mapping(name, values), **case)
    expected = []
    for row in range(n):
        outcome = {
            (operator, severity): [
                (float(m), int(c))
                for m, c in zip(
                    case["margins"][operator][row, level],
                    case["labels"][operator][row, level],
                    strict=True,
                )
            ]
            for operator, grid in severities.items()
            for level, severity in enumerate(grid)
        }
        expected.append(
            reference.is_brittle(
                values["kind"],
                values["cells"],
                values.get("draws"),
                values.get("collapse", True),
                case["confidence"][row],
                1,
                case["margin"][row],
                outcome,
            )
        )
    assert found.tolist() == expected
    assert 5 < sum(expected) < n - 5


def test_what_was_not_run_is_named():
    with pytest.raises(
        ConfigError, match=r"'dropout', which is not run; nearest known|known: mask"
    ):
        brittle(rule("mean", cells={"dropout": [0.1]}), **calm())
    with pytest.raises(ConfigError, match=r"mask at severity 0\.3, but it runs at 0\.1, 0\.2"):
        brittle(rule("mean", cells={"mask": [0.3]}), **calm())
    with pytest.raises(ConfigError, match="looks at 7 draws of mask, but only 6 are made"):
        brittle(rule("any_draw", draws=7), **calm())


def test_mistakes_in_a_rule_are_listed_together():
    with pytest.raises(ConfigError) as caught:
        LabelRule.from_mapping("mine", {"kind": "some", "cels": {}, "draw": 3})
    message = str(caught.value)
    assert "mine" in message
    for part in ("'cels' is unknown; nearest known: cells", "'draw'", "'some'", "at least one"):
        assert part in message
