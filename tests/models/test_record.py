"""Record: a typed view of a JSON object that loses nothing of the object."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_async.evals.models import Evaluation, EvaluationList, SamplePage
from prime_async.models import Record


class Leaf(Record):
    """A record inside another."""

    leaf_name: str | None = None


class Tree(Record):
    """Every form in which a field can hold records."""

    other_names: ClassVar[Mapping[str, tuple[str, ...]]] = {"tree_id": ("id", "uid")}

    tree_id: str | None = None
    one: Leaf | None = None
    many: list[Leaf] = msgspec.field(default_factory=list)
    spelled_out: int | None = msgspec.field(default=None, name="spelled-out")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
LEAVES = st.fixed_dictionaries(
    {}, optional={"leafName": st.none() | st.text(max_size=3), "more": JSON}
)
TREES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.text(max_size=3),
        "one": st.none() | LEAVES,
        "many": st.none() | st.lists(LEAVES, max_size=3),
        "spelled-out": st.none() | st.integers(-5, 5),
        "unknown": JSON,
    },
)


@settings(max_examples=200, deadline=None)
@given(TREES)
def test_nothing_of_the_wire_is_lost(wire: dict[str, Any]) -> None:
    """The object stays whole and equal: as a mapping, after copying and pickling, as JSON."""
    before = json.dumps(wire)
    record = Tree.from_wire(wire)
    assert record == wire
    assert dict(record) == wire
    assert len(record) == len(wire)
    for twin in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert isinstance(twin, Tree)
        assert twin == record
        assert twin.tree_id == record.tree_id
        assert twin.to_wire() == wire
    assert json.loads(json.dumps(dict(record))) == wire
    assert json.dumps(wire) == before


@settings(max_examples=200, deadline=None)
@given(TREES)
def test_attributes_are_the_typed_view(wire: dict[str, Any]) -> None:
    """Known fields are attributes under any spelling; inner objects are records of their own."""
    record = Tree.from_wire(wire)
    assert record.tree_id == wire.get("id")
    assert record.spelled_out == wire.get("spelled-out")
    assert [leaf.to_wire() for leaf in record.many] == (wire.get("many") or [])
    assert (record.one is None) == (wire.get("one") is None)
    if record.one is not None:
        assert record.one == wire["one"]
        assert record.one.leaf_name == wire["one"].get("leafName")


@pytest.mark.parametrize(
    "spelling", ["tree_id", "treeId", "id", "uid"], ids=lambda spelling: spelling
)
def test_every_spelling_is_read(spelling: str) -> None:
    """snake_case, camelCase and the further names of the model mean one field."""
    record = Tree.from_wire({spelling: "t1"})
    assert record.tree_id == "t1"
    assert record[spelling] == "t1"
    assert record["tree_id"] == "t1"


def test_unknown_keys_are_keys_only() -> None:
    """A field this version does not know is read by key; one that is not there is a KeyError."""
    record = Evaluation.from_wire({"evaluation_id": "e", "brandNew": [1]})
    assert record["brandNew"] == [1]
    assert "brandNew" in record
    assert record.get("nothing", 5) == 5
    with pytest.raises(KeyError):
        record["nothing"]
    with pytest.raises(AttributeError):
        getattr(record, "brandNew")  # noqa: B009 - no attribute, to mypy either


def test_a_known_field_that_was_not_sent_is_none_by_key() -> None:
    """Keys of the model can always be asked for; iterating gives what was sent."""
    record = Evaluation.from_wire({"id": "e"})
    assert record["name"] is None
    assert list(record) == ["id"]
    assert record.evaluation_id == "e"


def test_a_wrong_type_is_named() -> None:
    """A known field of another type is an error with its path, never a wrong attribute."""
    with pytest.raises(msgspec.ValidationError, match="evaluations"):
        EvaluationList.from_wire({"evaluations": "none"})
    with pytest.raises(msgspec.ValidationError, match="total"):
        SamplePage.from_wire({"total": "many"})


def test_numbers_as_text_are_taken() -> None:
    """Platforms write counts as text now and then."""
    assert EvaluationList.from_wire({"total": "5"}).total == 5


def test_made_here() -> None:
    """A record that was not read is the object of its fields that are set."""
    assert Leaf(leaf_name="a") == {"leaf_name": "a"}
    assert Leaf() == {}
    assert Leaf(leaf_name="a") != Leaf(leaf_name="b")
    assert Leaf() != "text"


def test_not_hashable_as_a_dict_is_not() -> None:
    """Two equal records may differ later."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(Leaf())
