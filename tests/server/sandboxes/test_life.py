"""How long sandboxes live: leases, idleness, and what a new server makes of what it finds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from prime_async.errors import ConfigError
from prime_async.server.store import sandboxes as store
from prime_async.server.store.sandboxes import StoredUpload
from tests.platform import platform_config, running_platform
from tests.server.clocks import FakeClock
from tests.server.sandboxes.boxes import Boxes, start
from tests.server.sandboxes.double import DoubleRuntime


@asynccontextmanager
async def served(tmp_path: Path, clock: FakeClock, **changes: Any) -> AsyncIterator[Boxes]:
    """A platform over the same data each time, with a runtime of its own each time."""
    runtime = DoubleRuntime(tmp_path / "double")
    async with (
        running_platform(tmp_path, clock=clock, runtime=lambda: runtime, **changes) as platform,
        Boxes(platform, runtime) as boxes,
    ):
        yield boxes


async def advance(clock: FakeClock, seconds: float, step: float = 1.0) -> None:
    """Let time pass in steps, with everybody who waits for it having a turn."""
    passed = 0.0
    while passed < seconds:
        await clock.slept()
        clock.advance(min(step, seconds - passed))
        passed += step
        await anyio.sleep(0.02)


async def test_a_sandbox_ends_when_its_time_is_over(boxes: Boxes, clock: FakeClock) -> None:
    """TIMEOUT, with the reason, and not before."""
    made = await boxes.running(timeout_minutes=2)
    await advance(clock, 118, 30)
    assert (await boxes.get(f"/sandbox/{made}")).json["status"] == "RUNNING"
    await advance(clock, 4)
    found = await boxes.until(made, "TIMEOUT")
    assert (found["terminationReason"], found["errorType"]) == ("TIMEOUT", "TIMEOUT")
    assert boxes.box(made).end is not None


async def test_no_limit_is_no_limit(boxes: Boxes, clock: FakeClock) -> None:
    """timeout_minutes 0 never ends it."""
    made = await boxes.running(timeout_minutes=0)
    await advance(clock, 10 * 24 * 3600, 24 * 3600)
    assert (await boxes.get(f"/sandbox/{made}")).json["status"] == "RUNNING"


async def test_an_idle_sandbox_ends_and_a_used_one_does_not(boxes: Boxes, clock: FakeClock) -> None:
    """Calls and running commands count as use."""
    idle = await boxes.running(idle_timeout_minutes=1)
    used = await boxes.running(idle_timeout_minutes=1)
    busy = await boxes.running(idle_timeout_minutes=1)
    async with boxes.stream(busy, "Start", start("sleep 100")) as followed:
        assert followed.response.status == 200
        for _ in range(12):
            await boxes.at("GET", used, "/list-files", params={"path": "/app"})
            await advance(clock, 15, 15)
        found = await boxes.until(idle, "TIMEOUT")
        assert found["terminationReason"] == "IDLE_TIMEOUT"
        for made in (used, busy):
            assert (await boxes.get(f"/sandbox/{made}")).json["status"] == "RUNNING"


async def test_a_client_that_stops_renewing_loses_its_sandbox(
    boxes: Boxes, clock: FakeClock
) -> None:
    """The lease begins with the create, is renewed by POST and given back by DELETE."""
    lost, kept, free = [await boxes.running(lease_seconds=90) for _ in range(3)]
    assert (await boxes.delete(f"/sandbox/{free}/lease")).status == 204
    for _ in range(4):
        reply = await boxes.post(f"/sandbox/{kept}/lease", {"seconds": 90})
        assert (reply.status, reply.json["seconds"]) == (200, 90)
        await advance(clock, 30, 10)
    found = await boxes.until(lost, "TERMINATED")
    assert found["terminationReason"] == "ABANDONED"
    for made in (kept, free):
        assert (await boxes.get(f"/sandbox/{made}")).json["status"] == "RUNNING"
    late = await boxes.post(f"/sandbox/{lost}/lease", {"seconds": 90})
    assert (late.status, late.code) == (404, "sandbox_not_running")
    assert (await boxes.post("/sandbox/none/lease", {"seconds": 90})).status == 404
    assert (await boxes.post(f"/sandbox/{kept}/lease", {"seconds": 0})).status == 422


async def test_leases_are_announced(boxes: Boxes) -> None:
    """Clients learn from every answer what they may rely on."""
    features = (await boxes.get("/sandbox")).headers["X-Prime-Features"].split(", ")
    assert {"sandbox-leases", "resumable-uploads", "file-info"} <= set(features)


async def test_a_new_server_adopts_what_runs(tmp_path: Path, clock: FakeClock) -> None:
    """Files, tokens and policy are what they were; the time that passed counts."""
    async with served(tmp_path, clock) as boxes:
        made = await boxes.running(timeout_minutes=10, network_allowlist=["pypi.org"])
        (boxes.box(made).folder / "app" / "f").write_text("kept")
        gone = await boxes.running()
        access = boxes._access
    (tmp_path / "double" / gone).rename(tmp_path / "elsewhere")
    clock.advance(300)
    async with served(tmp_path, clock) as boxes:
        boxes._access = access
        for held in access.values():
            held["gateway_url"] = f"{boxes.platform.url}/gateway"
        assert (await boxes.get(f"/sandbox/{made}")).json["status"] == "RUNNING"
        reply = await boxes.at("GET", made, "/read-file", params={"path": "/app/f"})
        assert reply.json["content"] == "kept"
        policy = boxes.box(made).policy
        assert policy is not None
        assert policy.allow == ("pypi.org",)
        lost = (await boxes.get(f"/sandbox/{gone}")).json
        assert (lost["status"], lost["errorType"]) == ("ERROR", "LOST")
        events, _ = await boxes.run(made, "cat f")
        assert len(events) == 3
        await advance(clock, 310, 100)
        await boxes.until(made, "TIMEOUT")


async def test_time_without_a_server_is_not_a_clients_silence(
    tmp_path: Path, clock: FakeClock
) -> None:
    """Nobody could renew: a client gets a grace, and then loses its sandbox if it is gone."""
    async with served(tmp_path, clock) as boxes:
        made = await boxes.running(lease_seconds=30, idle_timeout_minutes=1, timeout_minutes=0)
    clock.advance(3600)
    async with served(tmp_path, clock) as boxes:
        await advance(clock, 30, 10)
        assert (await boxes.get(f"/sandbox/{made}")).json["status"] == "RUNNING"
        await advance(clock, 40, 10)
        assert (await boxes.until(made, "TERMINATED"))["terminationReason"] == "ABANDONED"


async def test_what_was_being_started_or_ended_is_settled(tmp_path: Path, clock: FakeClock) -> None:
    """A sandbox that never ran is an error; one that was marked ended is ended."""
    async with served(tmp_path, clock) as boxes:
        ended = await boxes.running()
        database = boxes.platform.parts.database
        await database.write(
            lambda connection: store.change(
                connection, ended, {"status": "TERMINATED", "termination_reason": "DELETED"}
            )
        )
        assert boxes.runtime is not None
        boxes.runtime.gate.clear()
        starting = await boxes.create()
        await boxes.until(starting, "PROVISIONING")
    async with served(tmp_path, clock) as boxes:
        found = (await boxes.get(f"/sandbox/{starting}")).json
        assert (found["status"], found["errorType"]) == ("ERROR", "START_FAILED")
        assert not (tmp_path / "double" / ended).exists()
        assert (await boxes.get(f"/sandbox/{ended}")).json["terminationReason"] == "DELETED"


async def test_half_written_uploads_are_rolled_back(tmp_path: Path, clock: FakeClock) -> None:
    """A plain one at the next start; one that can be resumed after an hour."""
    async with served(tmp_path, clock) as boxes:
        made = await boxes.running(timeout_minutes=0)
        params = {"path": "/app/f", "offset": 0, "size": 10}
        part = await boxes.at("PUT", made, "/uploads/u1", params=params, data=b"12345")
        assert part.status == 202
        plain = StoredUpload("u2", made, b"/app/g", False, clock.now())
        database = boxes.platform.parts.database
        await database.write(lambda connection: store.put_upload(connection, plain))
        (boxes.box(made).folder / "app" / ".g.u2.part").write_bytes(b"half")
        access = boxes._access
    async with served(tmp_path, clock) as boxes:
        boxes._access = access
        for held in access.values():
            held["gateway_url"] = f"{boxes.platform.url}/gateway"
        folder = boxes.box(made).folder / "app"
        assert [file.name for file in folder.iterdir()] == [".f.u1.part"]
        assert (await boxes.at("GET", made, "/uploads/u1")).json == {"received": 5}
        await advance(clock, 4000, 250)
        assert list(folder.iterdir()) == []


async def test_a_server_that_ends_ends_its_streams_and_leaves_its_sandboxes(
    tmp_path: Path, clock: FakeClock
) -> None:
    """A client that follows a session is told to come back; the stop does not wait for it."""
    async with served(tmp_path, clock) as boxes:
        made = await boxes.running()
        uuid = "0f8fad5b-d9cb-469f-a165-70867728950e"
        async with boxes.stream(made, "Start", start("sleep 100", uuid=uuid)) as followed:
            with anyio.fail_after(8):
                async with anyio.create_task_group() as group:
                    group.start_soon(boxes.platform.server.stop)
                    await followed.all()
            assert followed.failure is not None
            assert followed.failure.code == "unavailable"
        assert (tmp_path / "double" / made).is_dir()


async def test_the_user_chooses_images_network_and_runtime(
    tmp_path: Path, clock: FakeClock
) -> None:
    """sandboxes.toml in the platform's folder; a broken one stops the start with its name."""
    file = platform_config(tmp_path).sandboxes_file
    file.parent.mkdir(parents=True)
    file.write_text('network = "none"\n[images]\n"ghcr.io/acme/*" = "has what it needs"\n')
    async with served(tmp_path, clock) as boxes:
        made = await boxes.running(docker_image="ghcr.io/acme/x")
        found = (await boxes.get(f"/sandbox/{made}")).json
        assert "has what it needs" in found["notes"][0]
        assert boxes.runtime is not None
        assert boxes.runtime.specs[made].egress.allow == ()
    for wrong in ("images = 3", 'network = "some"', 'runtime = "magic"', "else = 1", "="):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match=r"sandboxes\.toml"):
            async with served(tmp_path, clock):
                pass


async def test_a_platform_can_close_the_network_by_default(
    tmp_path: Path, clock: FakeClock
) -> None:
    """Without lists nothing is reachable then; a list is still what it says."""
    async with served(tmp_path, clock, sandbox_network="none") as boxes:
        closed = await boxes.running()
        listed = await boxes.running(network_allowlist=["pypi.org"])
        assert boxes.runtime is not None
        assert boxes.runtime.specs[closed].egress.allow == ()
        assert boxes.runtime.specs[listed].egress.allow == ("pypi.org",)


async def test_there_are_never_more_than_allowed(tmp_path: Path, clock: FakeClock) -> None:
    """429 with a code; an ended one makes room."""
    async with served(tmp_path, clock, limits={"sandboxes": 2}) as boxes:
        first = await boxes.running()
        await boxes.running()
        refused = await boxes.post("/sandbox", {"name": "x", "docker_image": "ubuntu:1"})
        assert (refused.status, refused.code) == (429, "too_many_sandboxes")
        await boxes.delete(f"/sandbox/{first}")
        await boxes.running()


async def test_a_client_that_goes_away_during_a_create_leaves_a_sandbox_that_runs(
    boxes: Boxes,
) -> None:
    """What is stored is started: its key finds it, its lease ends it."""
    body = {"name": "x", "docker_image": "ubuntu:1", "idempotency_key": "k"}
    for timeout in (0.001, 0.002, 0.004, 0.008):
        try:
            async with aiohttp.ClientSession(headers=boxes.platform.headers) as session:
                await session.post(
                    f"{boxes.platform.api}/sandbox",
                    json=body,
                    timeout=aiohttp.ClientTimeout(total=timeout),
                )
        except TimeoutError:
            continue
    made = (await boxes.post("/sandbox", body)).json["id"]
    await boxes.until(made, "RUNNING")


async def test_a_sandbox_whose_platform_never_comes_back_ends_too(
    boxes: Boxes, runtime: DoubleRuntime
) -> None:
    """The runtime is told its time and a minute: the platform comes first, if it is there."""
    hour = await boxes.running()
    asked = await boxes.running(timeout_minutes=5)
    endless = await boxes.running(timeout_minutes=0)
    told = [runtime.specs[box].timeout_seconds for box in (hour, asked, endless)]
    assert told == [3660.0, 360.0, None]
