"""Held-out stress: states against loops over the documented streams, independence of batch."""

import numpy as np
import pytest
from unit import reference_cfc as reference

import cfc.certificate
import cfc.stress
from cfc.errors import CfcError, ConfigError
from cfc.groups import Groups
from cfc.protocol import OPERATORS as SCORE_OPERATORS
from cfc.protocol import Protocol
from cfc.seeding import uniforms
from cfc.stress import OPERATORS, StressSettings, stress_cases

SEED = 5
GROUPS = Groups(("a", "b", "c", "d"), ([0], [1, 4], [2], [3, 5]), 6)
MEMBERS = [[0], [1, 4], [2], [3, 5]]
SCALE = np.array([1, 0, 1, 0.5, 0, 0], dtype=np.float32)
SETTINGS = StressSettings(
    {"mask": (0.2, 0.5), "dropout": (0.3,), "noise": (0.1, 0.5), "swap": (0.4,)},
    {"mask": 7, "dropout": 6, "noise": 5, "swap": 8},
)


class Model:
    """Three classes, the same numbers in any batch; keeps what it was asked."""

    def __init__(self):
        self.weights = np.random.default_rng(1).normal(size=(6, 3))
        self.asked = []

    def __call__(self, rows):
        self.asked.append(rows.copy())
        scores = np.zeros((len(rows), 3))
        for column, weights in zip(rows.T.astype(np.float64), self.weights, strict=True):
            scores += column[:, None] * weights
        powers = np.exp(scores)
        return powers / powers.sum(axis=1, keepdims=True)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return {
        "X": rng.normal(size=(9, 6)).astype(np.float32),
        "baseline": rng.normal(size=6).astype(np.float32),
        "donors": rng.normal(size=(11, 6)).astype(np.float32),
        "case_ids": np.array([3, 1, 40, 17, 2, 99, 100000, 4000000000, 0]),
    }


def run(data, rows=slice(None), settings=SETTINGS, model=None, **rest):
    return stress_cases(
        data["X"][rows],
        GROUPS,
        data["baseline"],
        model or Model(),
        settings,
        case_ids=data["case_ids"][rows],
        **{"seed": SEED, "noise_scale": SCALE, "donors": data["donors"], **rest},
    )


def assert_same(found, expected, rows=slice(None)):
    assert np.array_equal(found.predicted, expected.predicted[rows])
    assert np.array_equal(found.margin, expected.margin[rows])
    for operator in expected.margins:
        assert np.array_equal(found.margins[operator], expected.margins[operator][rows]), operator
        assert np.array_equal(found.labels[operator], expected.labels[operator][rows]), operator


def wanted(operator, n_groups=4, d=6, n_numeric=3):
    """Uniforms of one state: a group each, a coordinate each, or the donor and a group each."""
    return {"mask": n_groups, "dropout": d, "noise": n_numeric, "swap": 1 + n_groups}[operator]


@pytest.mark.parametrize("operator", OPERATORS)
def test_states_and_outcomes_equal_a_loop_over_the_streams(data, operator):
    grid, draws = SETTINGS.severities[operator], SETTINGS.draws[operator]
    model = Model()
    found = run(data, settings=StressSettings({operator: grid}, {operator: draws}), model=model)
    assert found.margins[operator].shape == (9, len(grid), draws)
    states = [rows.reshape(9, draws, 6) for rows in model.asked[1:]]
    for level, severity in enumerate(grid):
        stream = round(severity * 1_000_000)
        for row, case in enumerate(data["case_ids"]):
            x = data["X"][row].tolist()
            own = reference.label_of(Model()(data["X"][row][None])[0])
            assert found.predicted[row] == own
            for draw in range(draws):
                u = uniforms(SEED, operator, [case], stream, [draw], wanted(operator))[0, 0]
                expected = reference.stressed(
                    operator, x, severity, u.tolist(), MEMBERS, data["baseline"].tolist(),
                    SCALE.tolist(), data["donors"].tolist(),
                )  # fmt: skip
                state = states[level][row, draw]
                assert state.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-6)
                p = Model()(state[None])[0].tolist()
                assert found.labels[operator][row, level, draw] == reference.label_of(p)
                assert found.margins[operator][row, level, draw] == pytest.approx(
                    reference.margin_of(p, own), rel=1e-5, abs=1e-6
                )


def test_a_case_alone_fares_as_in_any_batch(data):
    whole = run(data)
    for row in range(9):
        assert_same(run(data, [row]), whole, [row])
    order = np.random.default_rng(2).permutation(9)[:6]
    assert_same(run(data, order), whole, order)


@pytest.mark.parametrize("chunk_bytes", [1, 200, 1000, 5000])
def test_the_size_of_chunks_does_not_matter(data, chunk_bytes):
    whole, cut = run(data), run(data, chunk_bytes=chunk_bytes)
    assert_same(cut, whole)
    assert cut.rows == whole.rows


def test_more_draws_and_other_severities_leave_the_first_as_they_are(data):
    whole = run(data)
    more = run(
        data,
        settings=StressSettings({"swap": (0.1, 0.4), "mask": (0.5,)}, {"swap": 20, "mask": 3}),
    )
    assert np.array_equal(more.margins["swap"][:, 1, :8], whole.margins["swap"][:, 0])
    assert np.array_equal(more.margins["mask"][:, 0], whole.margins["mask"][:, 1, :3])


def test_the_seed_and_the_case_id_matter(data):
    whole, other = run(data), run(data, seed=6)
    assert not np.array_equal(whole.margins["noise"], other.margins["noise"])
    data["case_ids"] = data["case_ids"] + 1
    moved = run(data)
    assert not np.array_equal(whole.margins["noise"], moved.margins["noise"])
    # the unstressed prediction has nothing to do with chance
    assert np.array_equal(whole.margin, moved.margin)


def test_score_and_label_channel_share_no_stream(data, monkeypatch):
    purposes = {"stress": set(), "certificate": set()}

    def spy(channel):
        def recording(seed, purpose, *rest):
            purposes[channel].add(purpose)
            return uniforms(seed, purpose, *rest)

        return recording

    monkeypatch.setattr(cfc.stress, "uniforms", spy("stress"))
    monkeypatch.setattr(cfc.certificate, "uniforms", spy("certificate"))
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    run(data)
    for operators in (("top1", "top3", "all", "prefix"), ("sign_noise",)):
        cfc.certificate.certify(
            data["X"],
            GROUPS,
            data["baseline"],
            Model(),
            Protocol(operators=operators),
            case_ids=data["case_ids"],
            noise_scale=SCALE,
        )
        if "sign_noise" not in operators:
            assert purposes["certificate"] == set()
    assert purposes["stress"] == set(OPERATORS)
    assert purposes["certificate"] == {"sign_noise"}
    assert not set(OPERATORS) & set(SCORE_OPERATORS)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def states_of(data, operator, severity, draws=4):
    model = Model()
    run(data, settings=StressSettings({operator: (severity,)}, {operator: draws}), model=model)
    return model.asked[1].reshape(9, draws, 6)


@pytest.mark.parametrize("operator", ["mask", "dropout"])
def test_severity_one_is_the_baseline(data, operator):
    assert (states_of(data, operator, 1.0) == data["baseline"]).all()


def test_severity_one_swap_is_a_donor(data):
    states = states_of(data, "swap", 1.0)
    same = (states[:, :, None, :] == data["donors"]).all(axis=-1)
    assert same.any(axis=-1).all()
    assert len(np.unique(same.argmax(axis=-1))) > 3


def test_swapped_values_come_from_one_donor_and_whole_groups(data):
    states = states_of(data, "swap", 0.5, draws=30)
    kept = states == data["X"][:, None, :]
    for members in MEMBERS:
        assert (kept[:, :, members] == kept[:, :, members[:1]]).all()
    from_donor = states[:, :, None, :] == data["donors"]
    explained = (from_donor | kept[:, :, None, :]).all(axis=-1)
    assert explained.any(axis=-1).all()
    assert not (states == data["baseline"]).any()


def test_masking_takes_whole_groups_and_dropout_single_coordinates(data):
    hit = states_of(data, "mask", 0.5, draws=40) == data["baseline"]
    for members in MEMBERS:
        assert (hit[:, :, members] == hit[:, :, members[:1]]).all()
    dropped = states_of(data, "dropout", 0.5, draws=40) == data["baseline"]
    assert (dropped[:, :, 1] != dropped[:, :, 4]).any()


def test_noise_moves_numeric_coordinates_only_and_within_bounds(data):
    shift = states_of(data, "noise", 0.5, draws=500) - data["X"][:, None, :]
    assert (shift[:, :, SCALE == 0] == 0).all()
    assert (np.abs(shift) <= 0.5 * SCALE + 1e-6).all()
    # it fills the range evenly: variance (2 * 0.5)² / 12 of a standard deviation
    flat = (shift[:, :, SCALE > 0] / SCALE[SCALE > 0]).ravel().astype(np.float64)
    assert abs(flat.mean()) < 5 * np.sqrt(1 / 12 / flat.size)
    assert flat.std() == pytest.approx(np.sqrt(1 / 12), rel=0.03)


def test_noise_without_any_numeric_coordinate_changes_nothing(data):
    found = run(
        data,
        settings=StressSettings({"noise": (0.5,)}, {"noise": 3}),
        noise_scale=np.zeros(6),
    )
    assert (found.labels["noise"][:, 0] == found.predicted[:, None]).all()
    assert found.margins["noise"][:, 0] == pytest.approx(
        np.repeat(found.margin[:, None], 3, axis=1), rel=1e-6
    )


@pytest.mark.parametrize("operator", ["mask", "dropout", "swap"])
@pytest.mark.parametrize("severity", [0.1, 0.3])
def test_the_rate_of_replacement_is_the_severity(data, operator, severity):
    states = states_of(data, operator, severity, draws=2000)
    changed = states != data["X"][:, None, :]
    units = range(6) if operator == "dropout" else [members[0] for members in MEMBERS]
    n = 9 * 2000
    for coordinate in units:
        rate = changed[:, :, coordinate].mean()
        assert abs(rate - severity) < 5 * np.sqrt(severity * (1 - severity) / n)


def test_donors_are_drawn_evenly(data):
    states = states_of(data, "swap", 1.0, draws=2000)
    chosen = (states[:, :, None, :] == data["donors"]).all(axis=-1).argmax(axis=-1)
    counts = np.bincount(chosen.ravel(), minlength=11)
    n, share = counts.sum(), 1 / 11
    assert (np.abs(counts - n * share) < 5 * np.sqrt(n * share * (1 - share))).all()


def test_rows_are_counted(data):
    # 7 draws x 2, 6, 5 x 2, 8
    assert SETTINGS.rows_per_case == 14 + 6 + 10 + 8
    assert run(data).rows == 9 * (1 + SETTINGS.rows_per_case)


def test_types_and_progress(data):
    seen = []
    found = run(data, progress=lambda done, cells: seen.append((done, cells)))
    assert seen == [(i, 6) for i in range(1, 7)]
    assert found.margin.dtype == np.float64
    assert found.predicted.dtype == np.int16
    assert all(m.dtype == np.float32 for m in found.margins.values())
    assert all(c.dtype == np.int16 for c in found.labels.values())
    assert found.model_seconds > 0


def test_no_case_is_no_problem(data):
    found = run(data, slice(0, 0))
    assert found.margins["mask"].shape == (0, 2, 7)
    assert found.predicted.shape == (0,)


def test_inputs_are_left_alone(data):
    before = {name: value.copy() for name, value in data.items()}
    run(data)
    assert all(np.array_equal(data[name], before[name]) for name in data)


def test_misfits_are_refused(data):
    with pytest.raises(CfcError, match="at least one training row"):
        run(data, donors=np.empty((0, 6), dtype=np.float32))
    data["X"] = data["X"][:, :5]
    with pytest.raises(CfcError, match="do not fit together"):
        run(data)


def test_settings_report_every_mistake():
    with pytest.raises(ConfigError) as caught:
        StressSettings(
            {"maks": (0.1,), "mask": (0.0, 1.5), "swap": (0.1, 0.1)}, {"mask": 0, "swap": 2}
        )
    message = str(caught.value)
    for part in ("'maks' is unknown; nearest known: mask", "severities of mask",
                 "severities of swap", "draws of mask: 0", "the same operators"):  # fmt: skip
        assert part in message
    assert StressSettings({"noise": (2.0,)}, {"noise": 1}).rows_per_case == 1
