"""Figures drawn from tables on disk: equal bytes, every panel said, undefined shown as such."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import REPOSITORY
from synthetic_units import make_unit

from cfc.artifacts import read_table
from cfc.errors import ConfigError
from cfc.evaluate import EvaluationSettings, evaluate_unit
from cfc.figures import ALSO, FIGURES, draw_figure
from cfc.figures.capture_curve import shown
from cfc.figures.style import write_figure
from cfc.tables import build_table
from cfc.tables.base import TableContext
from cfc.tables.render import from_arrow, write_table_files

SETTINGS = EvaluationSettings(n_bootstrap=100, label_rules=("expected", "swap"))


@pytest.fixture(scope="module", params=[2, 7])
def folder(request, tmp_path_factory):
    """Tables of a run with 2 or 7 data sets, the last without any brittle case."""
    path = tmp_path_factory.mktemp(f"run{request.param}")
    names = [f"set_{i}" for i in range(request.param)]
    expected = [(d, m, 0) for d in names for m in ("lr", "rf")]
    units = {
        u: make_unit(*u, n=150, brittle_share=0 if u[0] == names[-1] else 0.3) for u in expected
    }
    rows = pa.concat_tables([evaluate_unit(*p, settings=SETTINGS) for p in units.values()])
    certificates = {u: parts[1].to_pandas() for u, parts in units.items()}
    certificates.pop((names[-1], "lr", 0))
    context = TableContext(
        "run",
        "paper",
        None,
        certificates.get,
        tables=lambda name: None,
        reference=REPOSITORY / "config/reference/cfc_paper.csv",
    )
    for table in {*FIGURES.values(), *(t for also in ALSO.values() for t in also.values())}:
        write_table_files(build_table(table, rows, expected, SETTINGS, context), path / table)
    return path, names


def _draw(name, folder):
    table = read_table(folder / f"{FIGURES[name]}.parquet")
    also = {
        argument: read_table(folder / f"{other}.parquet")
        for argument, other in ALSO.get(name, {}).items()
    }
    return draw_figure(name, table, run="run", preset="paper", also=also)


def _texts(figure):
    return [t.get_text() for axes in figure.axes for t in (*axes.texts, axes.title)] + [
        axes.get_title(loc="left") for axes in figure.axes
    ]


@pytest.mark.parametrize("name", FIGURES)
def test_equal_tables_give_equal_bytes_without_a_date(folder, name, tmp_path):
    for stem in ("a", "b"):
        write_figure(_draw(name, folder[0]), tmp_path / stem)
    for kind in ("svg", "png"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    assert "<dc:date>" not in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert (tmp_path / "a.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", FIGURES)
def test_figures_fit_one_column_and_name_run_and_preset(folder, name):
    figure = _draw(name, folder[0])
    wide = name in ("natural_and_structure", "paper_vs_ours")
    assert figure.get_size_inches()[0] == pytest.approx(7.2 if wide else 3.5)
    assert "run run · preset paper" in figure.get_supxlabel()


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_leaves_the_figure(folder, name):
    figure = _draw(name, folder[0])
    figure.canvas.draw()
    box = figure.get_tightbbox(figure.canvas.get_renderer())
    width, height = figure.get_size_inches()
    assert box.x0 >= -0.01
    assert box.y0 >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01


def test_brittle_ranking_counts_its_units(folder):
    path, names = folder
    defined, total = 2 * (len(names) - 1), 2 * len(names)
    titles = _texts(_draw("brittle_ranking", path))
    assert f"expected ({defined}/{total} units)" in titles
    assert f"swap ({defined}/{total} units)" in titles


def test_case_degradation_has_a_panel_a_data_set(folder):
    path, names = folder
    texts = _texts(_draw("case_degradation", path))
    assert set(names) <= set(texts)
    assert any(text.startswith("undefined") for text in texts)


@pytest.mark.parametrize("name", ["brittle_ranking", "capture_curve"])
def test_a_rule_without_any_value_is_said_to_be_undefined(folder, name):
    table = from_arrow(read_table(folder[0] / f"{FIGURES[name]}.parquet"))
    mask = table["label_rule"] == "swap"
    for column in ("value", "capture", "units_low", "units_high"):
        if column in table:
            table.loc[mask, column] = np.nan
    texts = _texts(draw_figure(name, table, run="r", preset="p"))
    assert any("undefined" in text for text in texts)


def test_the_curves_shown_hold_the_best_confidence_score_of_each_sign():
    rows = [
        ("max_softmax", "risk", 0.4),
        ("margin", "risk", 0.6),
        ("max_softmax", "paper", 0.5),
        ("margin", "paper", 0.3),
        ("fds", "risk", 0.9),
        ("rcma", "risk", np.nan),
    ]
    own = pd.DataFrame(rows, columns=["score", "sign", "capture"])
    assert shown(own) == [("margin", "risk"), ("max_softmax", "paper"), ("fds", "risk")]


def test_drawing_leaves_no_global_style(folder):
    before = dict(mpl.rcParams)
    _draw("capture_curve", folder[0])
    assert dict(mpl.rcParams) == before


def test_unknown_figure_names_the_nearest():
    with pytest.raises(ConfigError, match="nearest known: capture_curve"):
        draw_figure("capture_curves", pd.DataFrame(), run="r", preset="p")
