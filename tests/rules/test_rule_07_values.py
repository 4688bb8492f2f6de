"""Rule 7: values. One table says how they are written: the same bytes from every face."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pydantic
import pytest

from prime_async import AsyncRun, values
from prime_async.errors import ValueEncodingError
from tests.evals.pushing import write_jsonl
from tests.official_stub import EVALUATION, OfficialStub
from tests.rules.calls import ALL_CALLS, clients
from tests.rules.handles import opened, plain
from tests.rules.surfaces import CommandSurface, PythonSurface, Surface
from tests.rules.table import scenario
from tests.runs.platform_double import PlatformDouble
from tests.stub import Answer, Request

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


VALUES: dict[str, Any] = {
    "numpy": [np.float32(0.5), np.int8(-1), np.arange(3)],
    "when": datetime.datetime(2025, 1, 2, 3, tzinfo=datetime.UTC),
    "money": decimal.Decimal("1.10"),
    "color": Color.RED,
    "point": Point(1),
    "nan": [NAN, {"inf": INF}],
    3: {"path": Path("a/b"), "set": {3}},
}
WRITTEN = json.loads(values.encode_record(VALUES))
"""The values of one record of a user, and the JSON of the table for them."""

COMMITTED = {"upload_id": "u", "status": "committed"}

TAKES_VALUES: dict[str, str] = {
    "AsyncEvalsClient.create_evaluation": "metadata",
    "AsyncEvalsClient.update_evaluation": "metadata",
    "AsyncEvalsClient.finalize_evaluation": "metrics",
    "AsyncEvalsClient.create_hosted_evaluation": "eval_config",
    "AsyncEvalsClient.push_samples": "samples",
    "AsyncAPIClient.patch": "json",
    "AsyncAPIClient.post": "json",
    "AsyncAPIClient.put": "json",
    "AsyncAPIClient.request": "json",
    "AsyncTracesAPIClient.patch": "json",
    "AsyncTracesAPIClient.post": "json",
    "AsyncTracesAPIClient.put": "json",
    "AsyncTracesAPIClient.request": "json",
    "AsyncTracesClient.upload_records": "records",
}
"""Calls, and the argument that is written by the table."""


@scenario(7, shows=TAKES_VALUES, not_command=FILE_HOLDS_JSON)
async def test_every_call_writes_values_alike(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """Wherever a caller hands over values of its own; what the table does not hold is refused by
    its path, before anything is sent.
    """
    found = [call for call in ALL_CALLS if str(call) in TAKES_VALUES]
    assert len(found) == len(TAKES_VALUES)
    official.route("POST", ".*/traces", Answer(201, json=COMMITTED))
    async with clients(surface.face) as on:
        for call in found:
            name = TAKES_VALUES[str(call)]
            several = name in ("samples", "records")
            more = {"method": "POST"} if call.name == "request" else {}
            official.requests.clear()
            await call.on(on, **{name: [VALUES] if several else VALUES}, **more)
            bodies = [_sent(request) for request in official.requests if request.body]
            assert any(_holds(body, WRITTEN) for body in bodies), (call, bodies)
            bad = {"deep": [object()]}
            official.requests.clear()
            if call.name == "push_samples":
                told = repr(await call.on(on, samples=[bad]))
            else:
                with pytest.raises(ValueEncodingError) as caught:
                    await call.on(on, **{name: [bad] if several else bad}, **more)
                told = str(caught.value)
            assert "deep[0]" in told, call
            assert [request for request in official.requests if request.body] == [], call


def _sent(request: Request) -> Any:
    """The JSON of a request, or that of the lines in a form."""
    if request.body.startswith(b"--"):
        part = request.body.split(b'name="traces"')[1].partition(b"\r\n\r\n")[2]
        return json.loads(zlib.decompressobj(31).decompress(part))
    return request.json()


def _holds(body: Any, wanted: Any) -> bool:
    if body == wanted or (isinstance(body, dict) and wanted.items() <= body.items()):
        return True
    inside = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return any(_holds(part, wanted) for part in inside)


SCORES = (
    "AsyncRun.log_metrics",
    "AsyncRun.alog_metrics",
    "AsyncRun.log_distributions",
    "AsyncRun.update_summary",
)
LOGS = ("trace", "traces", "episode", "episodes", "samples")
LOG_CALLS = [f"AsyncRun.log_{name}" for name in LOGS]
ALOG_CALLS = [f"AsyncRun.alog_{name}" for name in ("traces", "episodes", "samples")]


@scenario(7, shows=[*LOG_CALLS, *ALOG_CALLS, *SCORES], not_command="a command opens no run")
async def test_everything_logged_is_written_alike(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """By the same table; scores that are no numbers are left out and counted; what cannot be
    written is refused by its path, alone.
    """
    async with opened(AsyncRun, surface.face, official, traces_opt_out=False) as run:
        double = PlatformDouble(official)
        names = [*LOGS, *(["atraces", "aepisodes", "asamples"] if surface.name == "async" else [])]
        for name in names:
            log = getattr(run, f"alog_{name[1:]}" if name[0] == "a" else f"log_{name}")
            whole = {"id": name, **VALUES} | ({"traces": []} if "episode" in name else {})
            for record in (whole, {"id": "x", "deep": [object()]}):
                await plain(log([record] if name.endswith("s") else record))
        await run.flush()
        stored = {line["id"]: line for line in double.records} | {
            line["id"]: line for line in double.samples
        }
        for name in names:
            assert _holds(stored[name], WRITTEN), name
        stats = await plain(run.stats())
        assert stats.counts.refused == len(names)
