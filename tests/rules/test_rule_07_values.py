"""Rule 7: values. One table says how they are written: the same bytes from every face."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pydantic
import pytest

from prime_async import values
from tests.evals.pushing import write_jsonl
from tests.official_stub import EVALUATION, OfficialStub
from tests.rules.surfaces import CommandSurface, PythonSurface, Surface
from tests.rules.table import scenario

NAN, INF = float("nan"), float("inf")

FILE_HOLDS_JSON = "a file holds JSON, in which there is nothing of the kind"


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    note: str | None = None


class Wire(msgspec.Struct, rename="camel"):
    long_name: int


class Model(pydantic.BaseModel):
    path: Path


ODD = [
    {"floats": [0.1, -0.0, 1e-308, 5e-324, 2 / 3], "wholes": [2**53 + 1, -(2**63), 10**30]},
    {"text": 'naïve ☕ 👩‍👩‍👧 \x00 \x7f \u2028 "\\/', "keys": {"": 1, "a.b": 2, "☕": 3}},
    {"numpy": [np.float32(0.5), np.int8(-1), np.bool_(True), np.arange(3)], "bytes": b"ok\xff"},
    {"when": datetime.datetime(2025, 1, 2, 3, tzinfo=datetime.UTC), "id": uuid.UUID(int=1)},
    {"money": decimal.Decimal("1.10"), "path": Path("a/b"), "color": Color.RED, "set": {3}},
    {"point": Point(1), "wire": Wire(2), "model": Model(path=Path("p")), 3: "key", None: "none"},
    {"nan": NAN, "inf": [INF, -INF], "nothing": None, "yes": True, "half": "\ud800"},
]


def body_of(platform: OfficialStub) -> bytes:
    """The samples of the one push, as they arrived."""
    [push] = platform.seen("POST", ".*/samples")
    return push.body


@scenario(7)
async def test_the_same_bytes(surface: Surface, official: OfficialStub, tmp_path: Path) -> None:
    """Every kind of value, by the table; a file of the same lines gives the same request."""
    lines = [values.encode_record(sample) for sample in ODD]
    wanted = b'{"samples":[' + b",".join(lines) + b"]}"
    if isinstance(surface, CommandSurface):
        path = write_jsonl(tmp_path / "samples.jsonl", [line.decode() for line in lines])
        outcome = await surface.push_file(EVALUATION, path)
    else:
        outcome = await surface.push(EVALUATION, ODD)
    assert outcome.ok, outcome.said
    assert body_of(official) == wanted
    msgspec.json.decode(wanted)  # a strict parser takes it


@scenario(7)
async def test_what_the_standard_library_writes_is_taken(
    surface: Surface, official: OfficialStub, tmp_path: Path
) -> None:
    """A file by ``json.dump``, with its spaces, escapes, NaN and Infinity: read back as meant."""
    rows: list[dict[str, Any]] = [
        {"example_id": 0, "text": "é ☕", "reward": NAN, "metrics": {"a": INF, "b": 1.0}},
        {"example_id": 1, "text": "plain", "reward": 1.0, "info": [NAN, {"x": -INF}]},
    ]
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "ascii")
    outcome = await surface.push_file(EVALUATION, path)
    assert outcome.ok, outcome.said
    stored = msgspec.json.decode(body_of(official))["samples"]
    assert stored[0] == rows[0] | {"reward": None, "metrics": {"a": None, "b": 1.0}}
    assert stored[1] == rows[1] | {"info": [None, {"x": None}]}
    assert outcome.receipt is not None
    assert outcome.receipt["nonfinite"] == {"reward": 1, "metrics.a": 1}


@scenario(7, not_command="JSON typed as an option is a person's: NaN in it is a usage error")
async def test_scores_and_descriptions_too(surface: PythonSurface, official: OfficialStub) -> None:
    """Metrics and metadata are written by the same table: NaN is null there as well."""
    assert (await surface.create("n", metadata={"lr": NAN, "deep": [INF]})).ok
    assert (await surface.finalize(EVALUATION, {"accuracy": 0.5, "loss": NAN})).ok
    [create] = official.seen("POST", ".*/evaluations/")
    assert create.json()["metadata"] == {"lr": None, "deep": [None]}
    [finalize] = official.seen("POST", ".*/finalize")
    assert finalize.body == b'{"metrics":{"accuracy":0.5,"loss":null}}'


@scenario(7, not_command=FILE_HOLDS_JSON)
async def test_what_the_table_does_not_hold_is_refused_by_path(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """An object, a cycle, two keys of one text: that sample, by its path; the others go on."""
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    samples = [{"n": n} for n in range(5)]
    samples[1] |= {"info": {"model": object()}}  # type: ignore[dict-item]  # that is the point
    samples[2] |= {"info": [cycle]}  # type: ignore[dict-item]  # likewise
    samples[3] |= {"info": {1: "a", "1": "b"}}  # type: ignore[dict-item]  # likewise
    outcome = await surface.push(EVALUATION, samples)
    assert outcome.receipt is not None
    refused = {one["index"]: one["path"] for one in outcome.receipt["refused"]}
    assert refused == {
        1: "samples[1].info.model",
        2: "samples[2].info[0].self",
        3: "samples[3].info.1",
    }
    assert official.stored == [{"n": 0}, {"n": 4}]


@pytest.mark.parametrize("place", ["reward", "metrics"])
@scenario(7, not_command="it takes what a file says; --strict is not among its options")
async def test_strict_refuses_what_would_become_null(
    surface: PythonSurface, official: OfficialStub, place: str
) -> None:
    """``strict=True``: the sample is refused by path, and nothing is made null in silence."""
    odd: Any = NAN if place == "reward" else {"a": [1.0, INF]}
    path = "samples[1].reward" if place == "reward" else "samples[1].metrics.a[1]"
    samples = [{"n": 0}, {"n": 1, place: odd}, {"n": 2}]
    outcome = await surface.push(EVALUATION, samples, strict=True)
    assert outcome.receipt is not None
    assert [one["path"] for one in outcome.receipt["refused"]] == [path]
    assert [sample["n"] for sample in official.stored] == [0, 2]
