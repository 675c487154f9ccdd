from __future__ import annotations

import pytest

from toolkit.models.window import WindowAudit, length

PROSE = "The rain in Spain stays mainly in the plain. "  # 45 characters, about 11 tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("abc", 3), ("a" + " " * 1000, 5), ("=" * 500, 4), ("\n" * 9 + "x", 5), ("aaaaaaaa", 8)],
    ids=["empty", "short", "blanks", "rule", "newlines", "letters"],
)
def test_length_shortens_runs_that_are_few_tokens(text, expected):
    assert length(text) == expected


@pytest.mark.parametrize(
    ("repeats", "counted", "num_ctx", "cut"),
    [
        pytest.param(10, 120, 8192, False, id="fits"),
        pytest.param(1000, 4096, 4096, True, id="fills the window"),
        pytest.param(1000, 2050, 4096, True, id="half the window and two"),
        pytest.param(1000, 1024, 4096, True, id="a quarter: four slots"),
        pytest.param(180, 2050, 4096, False, id="near the half by chance"),
        pytest.param(1000, 6000, None, False, id="no window known"),
        pytest.param(1000, 300, None, True, id="impossibly dense"),
        pytest.param(1000, None, 4096, False, id="server does not count"),
        pytest.param(1000, 0, 4096, False, id="server counts none"),
    ],
)
def test_cut(repeats, counted, num_ctx, cut):
    assert bool(WindowAudit().cut(PROSE * repeats, counted, num_ctx)) is cut


def test_what_the_model_taught_sharpens_the_judgement():
    audit = WindowAudit()
    assert audit.cut(PROSE * 100, 520, 65536) == ""  # 8.7 characters a token: strange, yet possible
    audit = WindowAudit()
    for _ in range(3):
        audit.cut(PROSE * 20, 220, 65536)
    assert audit.chars_per_token == pytest.approx(4.1, abs=0.1)
    assert "read 520 tokens" in audit.cut(PROSE * 100, 520, 65536)


def test_dense_languages_do_not_raise_alarm():
    audit = WindowAudit()
    assert not any(audit.cut("今日は雨が降っています。" * n, 8 * n, 4096) for n in range(10, 40))
    assert audit.chars_per_token < 2


def test_tools_that_a_template_drops_are_no_cut():
    assert WindowAudit().cut("Hi", 10, 8192, tools="x" * 4000) == ""


def test_tools_count_where_a_limit_was_met():
    assert WindowAudit().cut("Hi " * 50, 2050, 4096, tools="name, " * 4000)


def test_only_prompts_that_surely_fit_teach():
    audit = WindowAudit()
    for _ in range(5):  # whole messages were dropped in front: the count lies anywhere below the window
        audit.cut("The rain in Spain stays mainly in the plain. " * 60, 500, 1024)
    assert not audit.ratios
    audit.cut("The rain in Spain stays mainly in the plain. " * 20, 200, 1024)
    assert len(audit.ratios) == 1
