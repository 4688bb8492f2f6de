"""Field reports, group J: large pushes, and pushes that succeed in part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_async.errors import PartialPushError
from prime_async.evals import AsyncEvalsClient, PushReceipt
from tests.cli.harness import Ran, run_command
from tests.official_stub import EVALUATION, OfficialStub
from tests.stub import Answer, Request, stub_in_thread

MIB = 2**20


@pytest.fixture
def platform() -> Iterator[OfficialStub]:
    """A platform that keeps samples by index, in a thread of its own."""
    with stub_in_thread(OfficialStub(features=True)) as server:
        assert isinstance(server, OfficialStub)
        yield server


async def _push(platform: OfficialStub, samples: Any, **options: Any) -> PushReceipt:
    async with AsyncEvalsClient("key", base_url=platform.url) as client:
        return await client.push_samples(EVALUATION, samples, **options)


def _command(platform: OfficialStub, *arguments: str) -> Ran:
    env = {"PRIME_API_KEY": "key", "PRIME_API_BASE_URL": platform.url}
    return run_command("eval", "push", *arguments, env=env)


def _write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _rows(count: int, *, size: int, large: int | None = None, large_size: int = 0) -> Iterator[Any]:
    for number in range(count):
        width = large_size if number == large else size
        yield {"example_id": number, "text": f"{number:06d}" * (width // 6)}


async def test_FR36_a_run_of_93_mb(platform: OfficialStub) -> None:
    """4,441 rows of 21 KB, one of 4 MB, at most 25 MiB a request: all arrive, in order, once."""
    platform.largest = 25 * MIB
    rows = _rows(4_441, size=21_000, large=2_000, large_size=4_000_000)
    receipt = await _push(platform, list(rows))
    assert receipt.complete
    assert platform.ids == list(range(4_441))
    assert len(platform.stored[platform.ids.index(2_000)]["text"]) >= 3_999_000
    assert len(platform.seen("POST", ".*/samples")) < 200


async def test_FR36_the_platform_lowers_its_limit(platform: OfficialStub) -> None:
    """A batch that became too large is split until it fits; what never fits is refused by index."""
    platform.largest = MIB // 4
    rows = _rows(200, size=21_000, large=100, large_size=400_000)
    receipt = await _push(platform, list(rows))
    assert receipt.samples_pushed == 199
    assert [(sample.index, sample.status) for sample in receipt.refused] == [(100, 413)]
    assert platform.ids == [n for n in range(200) if n != 100]


async def test_FR37_one_sample_is_too_large(platform: OfficialStub) -> None:
    """The client pushes nine, and the receipt names the one with its size."""
    receipt = await _push(
        platform,
        list(_rows(10, size=100, large=7, large_size=5_000)),
        max_payload_bytes=2_000,
    )
    assert (receipt.samples_pushed, receipt.samples_skipped) == (9, 1)
    [refused] = receipt.refused
    assert refused.index == 7
    assert refused.size is not None
    assert refused.size > 4_900
    assert not receipt.complete


@pytest.fixture
def too_large(tmp_path: Path) -> Path:
    """A file of ten samples; number 7 is larger than the 25 MiB a request may have."""
    rows = list(_rows(10, size=100, large=7, large_size=27_000_000))
    return _write(tmp_path / "samples.jsonl", rows)


def test_FR37_the_command_stops_before_anything_is_created(
    platform: OfficialStub, too_large: Path
) -> None:
    """Sample 7, its size and the limit are named; nothing was sent."""
    ran = _command(platform, str(too_large), "--name", "run", "--env", "owner/env")
    assert ran.code not in (0, 2), str(ran)
    assert "sample 7, line 8: 27,000," in ran.err
    assert "26,214," in ran.err  # 25 MiB, less what stands around the samples
    assert not [r for r in platform.requests if r.method == "POST"]


def test_FR37_the_command_skips_when_told(platform: OfficialStub, too_large: Path) -> None:
    """With --skip nine are pushed, the tenth is named, and the exit code is not 0."""
    ran = _command(platform, str(too_large), "--eval-id", EVALUATION, "--skip", "--output", "json")
    assert ran.code == 1, str(ran)
    assert platform.ids == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert [sample["index"] for sample in _refused(json.loads(ran.out))] == [7]


def _refused(printed: Any) -> list[Any]:
    if isinstance(printed, dict):
        if "refused" in printed:
            return list(printed["refused"])
        printed = list(printed.values())
    return [found for part in printed if isinstance(part, dict | list) for found in _refused(part)]


def _partly(platform: OfficialStub, status: int) -> None:
    """Refuse record 3 for good and record 5 once, by their place in the request."""
    seen: list[list[int]] = []

    def answer(request: Request, samples: list[Any]) -> Answer:
        seen.append([sample["example_id"] for sample in samples])
        first = len(seen) == 1
        bad = [{"id": 3, "status": 400}, {"id": 5, "status": 503}] if first else []
        gone = {entry["id"] for entry in bad}
        platform.stored += [s for place, s in enumerate(samples) if place not in gone]
        return Answer(status, json={"errors": bad})

    platform.answer = answer


@pytest.mark.parametrize("status", [200, 207])
async def test_FR38_errors_inside_a_success(platform: OfficialStub, status: int) -> None:
    """8 arrive at once, 5 is sent again alone and arrives, 3 is refused and not sent again."""
    _partly(platform, status)
    receipt = await _push(platform, list(_rows(10, size=60)))
    assert sorted(platform.ids) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert receipt.samples_pushed == 9
    assert [(sample.index, sample.status) for sample in receipt.refused] == [(3, 400)]
    bodies = [request.json()["samples"] for request in platform.seen("POST", ".*/samples")]
    assert [[sample["example_id"] for sample in body] for body in bodies] == [list(range(10)), [5]]


def test_FR38_the_command_says_so(platform: OfficialStub, tmp_path: Path) -> None:
    """The exit code is 1 when a sample was refused."""
    _partly(platform, 207)
    file = _write(tmp_path / "samples.jsonl", list(_rows(10, size=60)))
    ran = _command(platform, str(file), "--eval-id", EVALUATION)
    assert ran.code == 1, str(ran)
    assert len(platform.stored) == 9


@pytest.mark.parametrize("kind", ["list", "file"])
async def test_FR39_a_push_is_resumed(platform: OfficialStub, tmp_path: Path, kind: str) -> None:
    """Stopped after 6 of 10, resumed, pushed again: the same set, once, as without the stop."""
    rows = list(_rows(10, size=60))
    source: Any = rows if kind == "list" else _write(tmp_path / "samples.jsonl", rows)
    accept = platform.push
    platform.route(
        "POST",
        ".*/samples",
        lambda r: accept(r) if len(platform.stored) < 6 else Answer(401, json={"detail": "gone"}),
    )
    options: dict[str, Any] = {"max_payload_bytes": 200, "max_concurrent": 1}
    with pytest.raises(PartialPushError) as caught:
        await _push(platform, source, push_id="resumed", **options)
    stopped = caught.value.receipt
    assert 6 <= stopped.samples_pushed < 10

    platform.route("POST", ".*/samples", accept)
    receipt = await _push(platform, source, resume=stopped.resume_token, **options)
    assert receipt.complete
    assert platform.stored == rows
    again = await _push(platform, source, push_id="resumed", **options)
    assert again.complete
    assert platform.stored == rows
