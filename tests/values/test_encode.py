"""values.encode against a model in plain Python: whatever goes in, this must be read back."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import sys
import uuid
from collections import OrderedDict, deque
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_async import values
from prime_async.errors import ValueEncodingError

PROPERTY = settings(max_examples=100, deadline=None)


class Shade(enum.Enum):
    """An enum of the kinds people use: text, number, neither."""

    TEXT = "text"
    NUMBER = 7
    PAIR = (1, 2)


@dataclasses.dataclass
class Note:
    """A dataclass that holds anything."""

    body: Any
    title: str = "t"


class Wire(msgspec.Struct, rename="camel", omit_defaults=True):
    """A Struct whose wire form differs from its attributes."""

    some_body: Any
    some_list: list[Any] = msgspec.field(default_factory=list)


def model(value: Any) -> Any:
    """What must be read back, written without any of the code under test."""
    match value:
        case enum.Enum():
            return model(value.value)
        case str():
            return scrubbed(value)
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            import base64

            return base64.b64encode(value).decode()
        case uuid.UUID() | Decimal() | PurePosixPath():
            return str(value)
        case datetime.datetime():
            return value.isoformat().replace("+00:00", "Z")
        case datetime.date():
            return value.isoformat()
        case Note():
            return {"body": model(value.body), "title": model(value.title)}
        case Wire():
            rest = {"someList": model(value.some_list)} if value.some_list else {}
            return {"someBody": model(value.some_body), **rest}
        case dict() | MappingProxyType():
            return {model_key(key): model(item) for key, item in value.items()}
        case _:
            return [model(item) for item in value]


def model_key(key: Any) -> str:
    """The text of a key: text is its own, anything else the text of its JSON."""
    if isinstance(key, enum.Enum):
        key = key.value
    written = model(key)
    return written if isinstance(written, str) else json.dumps(written, separators=(",", ":"))


def scrubbed(text: str) -> str:
    """Join surrogate pairs, replace halves, one character at a time."""
    out: list[str] = []
    for char in text:
        if 0xDC00 <= ord(char) < 0xE000 and out and 0xD800 <= ord(out[-1]) < 0xDC00:
            high = ord(out.pop())
            out.append(chr(0x10000 + ((high - 0xD800) << 10) + (ord(char) - 0xDC00)))
        else:
            out.append(char)
    return "".join("�" if 0xD800 <= ord(char) < 0xE000 else char for char in out)


ANY_TEXT = st.text(st.characters(codec=None), max_size=8)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**200), max_value=2**200),
    st.floats(),
    ANY_TEXT,
    st.text("\ud800\udc00\udbffa☕", max_size=6),
    st.binary(max_size=8),
    st.uuids(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(datetime.UTC)),
    st.sampled_from(Shade),
    st.builds(PurePosixPath, st.text("ab/", min_size=1, max_size=4)),
)
KEYS = st.one_of(
    ANY_TEXT,
    st.integers(),
    st.booleans(),
    st.none(),
    st.sampled_from([0.5, -2.25]),
    st.sampled_from(Shade),
    st.tuples(st.integers(), st.booleans()),
    st.builds(PurePosixPath, st.text("ab", min_size=1, max_size=2)),
)


def _boxes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    dicts = st.dictionaries(KEYS, inner, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        lists.map(deque),
        st.frozensets(st.integers(), max_size=3),
        dicts,
        dicts.map(OrderedDict),
        dicts.map(MappingProxyType),
        st.builds(Note, inner),
        st.builds(Wire, inner, lists),
    )


VALUES = st.recursive(LEAVES, _boxes, max_leaves=12)


def _same(got: Any, expected: Any) -> bool:
    """Compare with types: 1, 1.0 and True are three things here; a set has no order to keep."""
    if type(got) is not type(expected):
        return False
    if isinstance(got, dict):
        return list(got) == list(expected) and all(_same(got[k], expected[k]) for k in got)
    if isinstance(got, list):
        return len(got) == len(expected) and all(map(_same, got, expected))
    return bool(got == expected)


@PROPERTY
@given(VALUES)
def test_reads_back_as_the_model_says(value: Any) -> None:
    """What a strict reader gets is what the model says; only two keys of one text are refused."""
    if _collides(value):
        with pytest.raises(ValueEncodingError, match="two keys"):
            values.encode(value)
        return
    data = values.encode(value)
    assert _same(json.loads(data, parse_constant=_refuse), model(value))


def _refuse(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


def _collides(value: Any) -> bool:
    """Say whether two keys of one object inside are written with the same text."""
    match value:
        case enum.Enum() | str() | bytes():
            return False
        case Note():
            return _collides(value.body)
        case Wire():
            return _collides(value.some_body) or _collides(value.some_list)
        case dict() | MappingProxyType():
            texts = [model_key(key) for key in value]
            return len({*texts}) < len(texts) or any(map(_collides, value.values()))
        case list() | tuple() | deque():
            return any(map(_collides, value))
    return False


def _finite(value: Any) -> bool:
    """Say whether there is no NaN and no infinity inside (keys are text and do not count)."""
    match value:
        case float():
            return math.isfinite(value)
        case Note():
            return _finite(value.body)
        case Wire():
            return _finite(value.some_body) and _finite(value.some_list)
        case dict() | MappingProxyType():
            return all(map(_finite, value.values()))
        case list() | tuple() | deque():
            return all(map(_finite, value))
    return True


@PROPERTY
@given(VALUES)
def test_the_quick_and_the_slow_way_agree(value: Any) -> None:
    """A value is written the same whether or not something beside it must be mended."""
    if _collides(value):
        return
    alone = values.encode(value)
    beside = values.encode({"v": value, 0: 0})
    assert beside == b'{"v":' + alone + b',"0":0}'


@PROPERTY
@given(VALUES)
def test_strict_changes_nothing_about_finite_values(value: Any) -> None:
    """With strict the bytes are the same, or the path of a NaN or infinity is named."""
    if _collides(value):
        return
    if _finite(value):
        assert values.encode(value, strict=True) == values.encode(value)
        return
    with pytest.raises(ValueEncodingError, match="JSON cannot hold") as caught:
        values.encode(value, strict=True)
    assert caught.value.path.startswith("value")


@PROPERTY
@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=2), min_size=1, max_size=3))
def test_many_at_once_as_one_by_one(records: list[dict[Any, Any]]) -> None:
    """Records written with one call are the ones written one by one, or the call declines."""
    together = values.encode_plain_records(records)
    if together is not None:
        apart = b",".join(values.encode_record(record) for record in records)
        assert together == b"[" + apart + b"]"


def test_plain_records_decline_what_needs_a_closer_look() -> None:
    """No dict, an unknown value, a key that is not text: record by record then."""
    for odd in (["text"], [{"a": object()}], [{1: 2}], [{"a": {"b": [{None: 1}]}}], [Note(1)]):
        assert values.encode_plain_records([{"fine": 1}, *odd]) is None


CYCLES: dict[str, Any] = {}


def _make_cycles() -> None:
    knot: dict[str, Any] = {}
    knot["self"] = [1, {"again": knot}]
    ring: list[Any] = []
    ring.append((ring,))
    note = Note(None)
    note.body = {"note": note}

    class Slotted:
        __slots__ = ("me",)

        def model_dump(self) -> Any:
            return {"me": self.me}

    slotted = Slotted()
    slotted.me = slotted
    mapping: dict[str, Any] = {}
    mapping["view"] = MappingProxyType(mapping)
    CYCLES.update(dict=knot, list=ring, dataclass=note, slots=slotted, mapping=mapping)


_make_cycles()


@pytest.mark.parametrize("name", CYCLES)
@pytest.mark.parametrize("strict", [False, True])
def test_FR35_a_cycle_is_refused_by_path(name: str, strict: bool) -> None:
    """An object that holds itself fails at once, with the path at which it comes back."""
    with pytest.raises(ValueEncodingError, match="refers to itself") as caught:
        values.encode({"info": CYCLES[name]}, root="samples[7]", strict=strict)
    assert caught.value.path.startswith("samples[7].info")
    assert caught.value.__cause__ is None or not isinstance(caught.value.__cause__, RecursionError)


@pytest.mark.parametrize(
    ("name", "path"),
    [("dict", "v.self[1].again"), ("list", "v[0][0]"), ("dataclass", "v.body.note")],
)
def test_the_path_of_a_cycle_is_exact(name: str, path: str) -> None:
    """The path leads to the place where the object is met again."""
    with pytest.raises(ValueEncodingError) as caught:
        values.encode(CYCLES[name], root="v")
    assert caught.value.path == path


def test_the_same_object_twice_is_no_cycle() -> None:
    """Sharing is not holding oneself; the slow way knows that too."""
    shared = {"a": [1]}
    assert values.encode({"x": shared, "y": [shared, shared], 1: 0}) == (
        b'{"x":{"a":[1]},"y":[{"a":[1]},{"a":[1]}],"1":0}'
    )


def _nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@PROPERTY
@given(st.integers(min_value=0, max_value=values.MAX_DEPTH - 2), st.booleans())
def test_the_promised_depth_is_written(levels: int, mended: bool) -> None:
    """Up to the depth the table promises everything is written, the slow way too."""
    value = {"deep": _nested(levels), **({0: 0} if mended else {})}
    assert json.loads(values.encode(value))["deep"] == _nested(levels)


@pytest.mark.parametrize("levels", [2_000, 5_000, 200_000])
def test_FR35_deeper_than_anything_is_refused_quickly(levels: int) -> None:
    """No recursion error and no crash, however deep; the path is cut, not endless."""
    value = _nested(levels)
    if sys.version_info >= (3, 13) and levels < 10_000:  # it recurses further in C
        assert values.encode(value).count(b"[") == levels + 1
    else:
        with pytest.raises(ValueEncodingError, match="nested deeper than 100") as caught:
            values.encode(value)
        assert len(caught.value.path) < 40
    while value:  # taken down level by level, or the garbage collector recurses as deep
        value = value.pop()


class Hostile:
    """Every way an object can fail while it is read."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def tolist(self) -> Any:
        raise self.error


@pytest.mark.parametrize("error", [ValueError("no"), RuntimeError("no"), KeyError("no")])
def test_an_object_that_fails_is_named(error: Exception) -> None:
    """A fault of the user's object is a fault of the record, with its path and its own words."""
    with pytest.raises(ValueEncodingError, match=type(error).__name__) as caught:
        values.encode({"a": [Hostile(error)]})
    assert (caught.value.path, caught.value.value_type) == ("value.a[0]", "Hostile")


def test_an_object_that_answers_anything_ends() -> None:
    """A mock has every method and gives another mock: no endless descent."""
    from unittest.mock import MagicMock

    with pytest.raises(ValueEncodingError):
        values.encode({"a": MagicMock()})


def test_ctrl_c_inside_an_object_is_ctrl_c() -> None:
    """What ends a program is not taken for a fault of the record."""
    with pytest.raises(KeyboardInterrupt):
        values.encode({"a": Hostile(KeyboardInterrupt())})


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"info": {"logits": object()}}, "samples[7].info.logits"),
        ({"a": [1, {"b": (2, object())}]}, "samples[7].a[1].b[1]"),
        ({"a": Note(object())}, "samples[7].a.body"),
        ({"a": Wire(object())}, "samples[7].a.someBody"),
        ({object(): 1}, "samples[7].<object>"),
        ({1: "a", "1": "b"}, "samples[7].1"),
        ({"n": 10**5000}, "samples[7].n"),
        ({"m": memoryview(b"abcd")[::2]}, "samples[7].m"),
    ],
)
def test_the_path_names_the_value(value: Any, path: str) -> None:
    """The first thing that cannot be written is named by where it is."""
    with pytest.raises(ValueEncodingError) as caught:
        values.encode_record(value, root="samples[7]")
    assert caught.value.path == caught.value.field == path
    assert path in str(caught.value)
    assert "docs/values.md" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [0.0, float("nan")]}, "r.a[1]"),
        ({"m": {"x": float("inf")}}, "r.m.x"),
        ({"d": Decimal("NaN")}, "r.d"),
        ({"n": Note(float("-inf"))}, "r.n.body"),
    ],
)
def test_FR32_strict_names_the_path(value: Any, path: str) -> None:
    """With strict the first NaN or infinity is named by its path."""
    with pytest.raises(ValueEncodingError) as caught:
        values.encode_record(value, root="r", strict=True)
    assert caught.value.path == path


@pytest.mark.parametrize("value", [[1], "text", 5, None, Shade.TEXT, b"{}", Shade])
def test_a_record_is_an_object(value: Any) -> None:
    """Anything that is not written as an object is no record."""
    with pytest.raises(ValueEncodingError) as caught:
        values.encode_record(value, root="samples[0]")
    assert caught.value.path == "samples[0]"
