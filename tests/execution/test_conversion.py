"""Results become text: text as it is, else JSON, else str."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import math
from decimal import Decimal

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import StringConversionError
from toolkit.execution.conversion import capped, to_text


class Shade(enum.Enum):
    RED = "red"


class Level(enum.StrEnum):
    LOW = "low"


class Item(pydantic.BaseModel):
    name: str


@dataclasses.dataclass
class Box:
    size: int


class Described:
    def to_dict(self):
        return {"v": 1}


class Broken:
    def __str__(self):
        raise ValueError("no text")

    def to_dict(self):
        raise KeyError("x")


class Opaque:
    def __repr__(self):
        return "<Opaque>"


RING: list = []
RING.append(RING)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain é", "plain é"),
        ("", ""),
        ('{"a": 1}', '{"a": 1}'),
        (None, "null"),
        (True, "true"),
        (0, "0"),
        (2.5, "2.5"),
        ({"k": "é", "n": [1, None]}, '{"k": "é", "n": [1, null]}'),
        ((1, 2), "[1, 2]"),
        (float("nan"), "null"),
        ({"a": [math.inf, 1.5]}, '{"a": [null, 1.5]}'),
        ({1}, "{1}"),
        (b"\xff", r"b'\xff'"),
        (Opaque(), "<Opaque>"),
        ({"a": Opaque()}, "{'a': <Opaque>}"),
        ({"a": [Described()]}, '{"a": [{"v": 1}]}'),
        (Item(name="é"), '{"name": "é"}'),
        (Box(3), '{"size": 3}'),
        (Shade.RED, '"red"'),
        ({"s": Level.LOW}, '{"s": "low"}'),
        ({"d": dt.date(2026, 1, 2), "x": Decimal("1.50")}, '{"d": "2026-01-02", "x": "1.50"}'),
        (RING, "[[...]]"),
        (10**5000, None),
    ],
    ids=lambda v: type(v).__name__,
)
def test_values(value, text):
    try:
        got = to_text(value)
    except StringConversionError:
        got = None  # Python refuses to print so large a number
    assert got == text


def test_text_is_quoted_on_request():
    assert to_text("plain é", quote=True) == '"plain é"'
    assert to_text({"a": "é"}, quote=True) == '{"a": "é"}'


def test_a_value_without_text_is_one_kind_of_error():
    with pytest.raises(
        StringConversionError, match="object of type Broken, has no text: ValueError: no text"
    ) as caught:
        to_text(Broken())
    assert isinstance(caught.value.__cause__, ValueError)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text() | st.floats(), st.lists, max_leaves=8))
def test_everything_but_text_is_valid_json(value):
    text = to_text(value)
    assert text == value if isinstance(value, str) else json.loads(text, parse_constant=pytest.fail) is not ...


@given(st.text(), st.integers(0, 20))
def test_cut_text_says_so(text, limit):
    cut = capped(text, limit)
    assert cut == text if len(text) <= limit else cut.startswith(text[:limit]) and f"of {len(text):,} characters" in cut
