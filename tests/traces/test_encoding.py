"""Records as lines: by the table of values, encoded when they are taken."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import prime_traces.traces
import pytest

from prime_async.traces import SupportsToRecord, TracesValueError, encode_record
from tests.traces.records import episode, trace


class Rollout:
    """A record object as verifiers and prime-rl have them."""

    def __init__(self, record: Any) -> None:
        self._record = record

    def to_record(self) -> Mapping[str, Any]:
        if isinstance(self._record, Exception):
            raise self._record
        made: Mapping[str, Any] = self._record
        return made


@dataclass
class Trace:
    id: str
    rewards: dict[str, Any]


def test_plain_records_are_written_as_the_official_client_writes_them() -> None:
    """For text, whole numbers and nesting the line is the same, and so is its digest."""
    for record in (
        trace("t1", run="r"),
        episode("e1", trace("t2")),
        {"id": "☕", "n": [1, -2, True, None, {"deep": {}}]},
    ):
        official = prime_traces.traces._encode_record(record, 1)
        assert encode_record(record).line == official


def test_objects_say_what_their_record_is() -> None:
    """``to_record`` is asked; dataclasses are their fields."""
    assert isinstance(Rollout({}), SupportsToRecord)
    assert encode_record(Rollout({"id": "t"})) == (b'{"id":"t"}\n', 0)
    assert encode_record(Trace("t", {})).line == b'{"id":"t","rewards":{}}\n'


def test_what_producers_put_into_records() -> None:
    """numpy and datetimes are written as in docs/values.md; NaN becomes null."""
    record = {
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "logprobs": np.array([0.5, float("nan")]),
        "n": np.int64(7),
    }
    line = encode_record(record).line
    assert json.loads(line) == {"at": "2026-01-02T00:00:00Z", "logprobs": [0.5, None], "n": 7}
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


def test_scores_that_are_no_numbers_are_counted() -> None:
    """Rewards and metrics, of a trace and of the traces of an episode; nothing else."""
    nan, inf = float("nan"), float("inf")
    one = {"rewards": {"a": {"score": nan}, "b": None}, "metrics": {"m": inf, "ok": 1.0}}
    assert encode_record(one).non_finite == 2
    assert encode_record(episode("e", one, one) | {"reward": nan}).non_finite == 5
    assert encode_record(Rollout(one)).non_finite == 2
    assert encode_record(Trace("t", {"a": {"score": nan}})).non_finite == 1
    assert encode_record({"info": nan}).non_finite == 0


def test_strict_refuses_them_by_path() -> None:
    """With the path of the first one."""
    with pytest.raises(TracesValueError) as caught:
        encode_record({"rewards": {"a": {"score": float("nan")}}}, strict=True, root="records[4]")
    assert caught.value.path == "records[4].rewards.a.score"
    assert encode_record({"a": 1.0}, strict=True).line == b'{"a":1.0}\n'


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"info": {"x": object()}}, r"records\[4\]\.info\.x"),
        ([1, 2], "must be a mapping or implement to_record"),
        ("text", "must be a mapping or implement to_record"),
        (Rollout([1]), r"to_record\(\) must return a mapping"),
        (Rollout(KeyError("gone")), r"to_record\(\): KeyError: 'gone'"),
    ],
)
def test_what_cannot_be_written_is_named(record: Any, message: str) -> None:
    """As ``TypeError`` and ``ValueError``, which users of the official client catch."""
    with pytest.raises(TracesValueError, match=message) as caught:
        encode_record(record, root="records[4]")
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.path.startswith("records[4]")
