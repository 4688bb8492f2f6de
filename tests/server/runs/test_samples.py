"""Files of samples of training runs: by presigned address, and inside requests."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from prime_async.runs.wire import SampleObject, SampleObjectPage
from tests.platform import RunningPlatform, running_platform
from tests.server.clocks import FakeClock
from tests.server.runs.people import training_run
from tests.server.wire import Reply, Wire

PARQUET = b"PAR1" + bytes(range(256)) * 40 + b"PAR1"


async def put(url: str, data: Any, **headers: str) -> Reply:
    """PUT as object stores are spoken to: no key, nothing of the platform's headers."""
    async with (
        aiohttp.ClientSession() as session,
        session.put(
            url, data=data, headers={"Content-Type": "application/parquet", **headers}
        ) as response,
    ):
        return Reply(response.status, response.headers, await response.read())


async def presigned(wire: Wire, run_id: str, step: int = 10) -> tuple[str, str]:
    reply = await wire.post("/rft/samples/presign", {"run_id": run_id, "step": step})
    assert reply.status == 200, reply
    data = reply.json["data"]
    # Older trainers read the same two at the top, in snake case.
    assert reply.json["presigned_url"] == data["presignedUrl"]
    assert reply.json["s3_key"] == data["s3Key"]
    assert data["expiresIn"] == 900
    return data["presignedUrl"], data["s3Key"]


async def confirm(wire: Wire, run_id: str, key: str, step: int = 10) -> Reply:
    body = {"run_id": run_id, "step": step, "s3_key": key, "sample_count": 3}
    return await wire.post("/rft/samples/confirm", body)


async def objects(wire: Wire, run_id: str, **query: Any) -> list[SampleObject]:
    reply = await wire.get(f"/rft/external-runs/{run_id}/samples", params=query)
    assert reply.status == 200, reply
    return SampleObjectPage.from_wire(reply.json).objects


async def test_presign_put_confirm_and_read_back(wire: Wire) -> None:
    """The address needs no key; the file is listed once confirmed and is what was sent."""
    run_id = await training_run(wire)
    url, key = await presigned(wire, run_id)
    early = await confirm(wire, run_id, key)
    assert (early.status, early.code) == (409, "not_uploaded")
    assert (await put(url, PARQUET)).status == 200
    assert await objects(wire, run_id) == []
    for _ in range(2):
        assert (await confirm(wire, run_id, key)).status == 200
    (found,) = await objects(wire, run_id)
    assert (found.key, found.step, found.format) == (key, 10, "parquet")
    assert (found.size_bytes, found.sha256) == (len(PARQUET), hashlib.sha256(PARQUET).hexdigest())
    read = await wire.get(f"/rft/external-runs/{run_id}/samples/{key}")
    assert (read.status, read.body) == (200, PARQUET)
    assert read.headers["Content-Type"] == "application/vnd.apache.parquet"
    assert read.headers["Content-Disposition"] == f'attachment; filename="step-10-{key}.parquet"'
    head = await wire.send("HEAD", f"/rft/external-runs/{run_id}/samples/{key}")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(PARQUET))
    part = {"Range": "bytes=4-9"}
    read = await wire.get(f"/rft/external-runs/{run_id}/samples/{key}", headers=part)
    assert (read.status, read.body) == (206, PARQUET[4:10])


async def test_files_go_with_their_run(wire: Wire, platform: RunningPlatform) -> None:
    """From the disk too, also what was uploaded and not confirmed; those of other runs stay."""
    kept, gone = await training_run(wire), await training_run(wire)
    for number, run_id in enumerate((kept, gone, gone)):
        url, key = await presigned(wire, run_id)
        assert (await put(url, PARQUET + bytes([number]))).status == 200
        if number < 2:
            await confirm(wire, run_id, key)
    assert (await wire.delete(f"/rft/external-runs/{gone}")).status == 204
    (left,) = await objects(wire, kept)
    files = [one.name for one in platform.config.run_samples_dir.rglob("*") if one.is_file()]
    assert files == [left.sha256]


async def test_a_file_without_a_row_goes(wire: Wire, platform: RunningPlatform) -> None:
    """Of an address that took another one, and of a request that is refused at the end."""
    run_id = await training_run(wire)
    url, _ = await presigned(wire, run_id)
    await put(url, PARQUET)
    assert (await put(url, PARQUET + b"other")).status == 409
    keyed = {"headers": {"Idempotency-Key": "k"}}
    body = {"run_id": run_id, "step": 1, "samples": [{"a": 1}]}
    assert (await wire.post("/rft/samples", body, **keyed)).status == 200
    body["samples"] = [{"a": 2}]
    assert (await wire.post("/rft/samples", body, **keyed)).status == 409
    files = {one.name for one in platform.config.run_samples_dir.rglob("*") if one.is_file()}
    first = hashlib.sha256(PARQUET).hexdigest()
    assert files == {first, hashlib.sha256(b'[{"a": 1}]').hexdigest()}


async def test_a_file_that_is_lost_is_said(wire: Wire, platform: RunningPlatform) -> None:
    """In the words of any other refusal."""
    run_id = await training_run(wire)
    url, key = await presigned(wire, run_id)
    await put(url, PARQUET)
    await confirm(wire, run_id, key)
    for file in platform.config.run_samples_dir.rglob("*"):
        if file.is_file():
            file.unlink()
    lost = await wire.get(f"/rft/external-runs/{run_id}/samples/{key}")
    assert (lost.status, lost.code) == (404, "object_not_found")


async def test_an_address_takes_one_file(wire: Wire) -> None:
    """The same bytes again are fine, since an answer may get lost; other bytes are not."""
    run_id = await training_run(wire)
    url, key = await presigned(wire, run_id)
    for _ in range(2):
        assert (await put(url, PARQUET)).status == 200
    other = await put(url, PARQUET + b"!")
    assert (other.status, other.code) == (409, "upload_used")
    await confirm(wire, run_id, key)
    late = await put(url, b"other")
    assert (late.status, late.code) == (409, "upload_used")
    assert (await wire.get(f"/rft/external-runs/{run_id}/samples/{key}")).body == PARQUET


async def test_addresses_cannot_be_made_up(wire: Wire, clock: FakeClock) -> None:
    """Tokens are long and random, and good for 15 minutes; names fit their run and step only."""
    run_id, other = await training_run(wire), await training_run(wire)
    urls = [(await presigned(wire, run_id))[0] for _ in range(2)]
    tokens = [url.rpartition("/")[2] for url in urls]
    assert len(set(tokens)) == 2
    assert all(len(token) == 43 for token in tokens)
    forged = urls[0].replace(tokens[0], "x" * 43)
    assert (await put(forged, PARQUET)).code == "upload_not_found"
    url, key = await presigned(wire, run_id)
    await put(url, PARQUET)
    for run, step, name in ((other, 10, key), (run_id, 11, key), (run_id, 10, "cnothere")):
        refused = await confirm(wire, run, name, step)
        assert (refused.status, refused.code) == (404, "upload_not_found")
    clock.advance(901)
    late = await put(urls[0], PARQUET)
    assert (late.status, late.code) == (403, "upload_expired")
    assert (await confirm(wire, run_id, key)).status == 200


async def test_tokens_are_not_in_the_log(
    wire: Wire, platform: RunningPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the log nor the database has what an address is good for."""
    run_id = await training_run(wire)
    with caplog.at_level(logging.INFO):
        url, _ = await presigned(wire, run_id)
        await put(url, PARQUET)
    token = url.rpartition("/")[2]
    assert "/rft/uploads/{token}" in caplog.text
    assert token not in caplog.text
    for file in platform.config.data_dir.rglob("*"):
        assert not file.is_file() or token.encode() not in file.read_bytes()


async def test_uploads_are_limited(tmp_path: Path) -> None:
    """In size, told or found out, and a cut one leaves nothing behind."""
    limits = {"sample_object_bytes": 100_000}
    async with running_platform(tmp_path, limits=limits) as platform, Wire(platform.url) as wire:
        run_id = await training_run(wire)
        url, key = await presigned(wire, run_id)

        async def stream() -> Any:
            for _ in range(20):
                yield b"x" * 10_000

        for body in (b"x" * 100_001, stream()):
            refused = await put(url, body)
            assert (refused.status, refused.code) == (413, "body_too_large")
        packed = await put(url, PARQUET, **{"Content-Encoding": "gzip"})
        assert packed.status == 415
        assert (await confirm(wire, run_id, key)).code == "not_uploaded"
        left = [one for one in platform.config.run_samples_dir.rglob("*") if one.is_file()]
        assert left == []
        assert (await put(url, PARQUET)).status == 200


async def test_samples_inside_a_request(wire: Wire) -> None:
    """As the oldest trainers send them: kept as the text they are, a repeat once."""
    run_id = await training_run(wire)
    samples = [{"prompt": "p — 日本", "reward": 0.5, "big": 2**70}, {"reward": None}]
    body = {"run_id": run_id, "step": 3, "samples": samples}
    assert (await wire.post("/rft/samples", body)).json == {"stored": 1, "updated": 0}
    assert (await wire.post("/rft/samples", body)).json == {"stored": 0, "updated": 0}
    assert (await wire.post("/rft/samples", {**body, "step": 4})).json["stored"] == 1
    (found,) = await objects(wire, run_id, step=3)
    assert found.format == "json"
    read = await wire.get(f"/rft/external-runs/{run_id}/samples/{found.key}")
    assert json.loads(read.body) == samples
    assert [one.step for one in await objects(wire, run_id)] == [3, 4]
    for wrong in ({"samples": []}, {"samples": [1]}, {"samples": {}}, {}):
        refused = await wire.post("/rft/samples", {"run_id": run_id, "step": 1, **wrong})
        assert refused.status == 422, wrong


async def test_lists_of_files_are_paged(wire: Wire) -> None:
    """By step and arrival, every file once."""
    run_id = await training_run(wire)
    for step in (20, 10, 20, 0):
        body = {"run_id": run_id, "step": step, "samples": [{"n": len(str(step)), "at": step}]}
        body["samples"].append({"unique": await _number(wire, run_id)})
        assert (await wire.post("/rft/samples", body)).json["stored"] == 1
    steps: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        path = f"/rft/external-runs/{run_id}/samples"
        page = (await wire.get(path, params={"limit": 3, **cursor})).json
        steps += [one["step"] for one in page["objects"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert steps == [0, 10, 20, 20]


async def _number(wire: Wire, run_id: str) -> int:
    return len(await objects(wire, run_id))


async def test_files_survive_a_restart_and_strays_do_not(tmp_path: Path, clock: FakeClock) -> None:
    """Confirmed files stay; what was uploaded and never confirmed is gone after a day."""
    async with running_platform(tmp_path, clock=clock) as platform, Wire(platform.url) as wire:
        run_id = await training_run(wire)
        kept, stray = await presigned(wire, run_id), await presigned(wire, run_id)
        await put(kept[0], PARQUET)
        await confirm(wire, run_id, kept[1])
        await put(stray[0], PARQUET + b"stray")
        folder = platform.config.run_samples_dir
        (folder / "incoming" / "half").write_bytes(b"half")
    clock.advance(86_401)
    async with running_platform(tmp_path, clock=clock) as platform, Wire(platform.url) as wire:
        read = await wire.get(f"/rft/external-runs/{run_id}/samples/{kept[1]}")
        assert read.body == PARQUET
        files = [one.name for one in folder.rglob("*") if one.is_file()]
        assert files == [hashlib.sha256(PARQUET).hexdigest()]
        assert (await confirm(wire, run_id, stray[1])).code == "upload_not_found"
