"""Runs that fall silent: failed after a while, taken back when their client turns up again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from prime_async.runs.wire import RunLease
from tests.platform import RunningPlatform, running_platform
from tests.server.clocks import FakeClock
from tests.server.runs.people import training_run
from tests.server.wire import Wire

SILENT = "crashed: no sign of life for 30 s"
Make = Callable[..., Awaitable[str]]


class Kind:
    """One kind of run behind one way of asking."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    async def make(self, wire: Wire, lease: str | None = "30") -> str:
        headers = {} if lease is None else {"X-Prime-Run-Lease": lease}
        if self.kind == "train":
            return await training_run(wire, headers=headers)
        body = {"name": "n", "run_id": "r"}
        reply = await wire.post("/evaluations/", body, headers=headers)
        assert reply.status == 200, reply
        made: str = reply.json["evaluation_id"]
        return made

    async def renew(self, wire: Wire, run_id: str, seconds: float = 30) -> Any:
        return await wire.post(f"/runs/{self.kind}/{run_id}/lease", {"seconds": seconds})

    async def state(self, wire: Wire, run_id: str) -> tuple[str, str | None]:
        if self.kind == "train":
            run = (await wire.get(f"/rft/external-runs/{run_id}")).json["run"]
            return run["status"], run["errorMessage"]
        run = (await wire.get(f"/evaluations/{run_id}")).json
        return run["status"], run["error_message"]

    async def complete(self, wire: Wire, run_id: str) -> Any:
        if self.kind == "train":
            return await wire.post("/rft/finalize", {"run_id": run_id})
        return await wire.post(f"/evaluations/{run_id}/finalize", {})

    async def fail(self, wire: Wire, run_id: str) -> Any:
        if self.kind == "train":
            path, status = f"/rft/external-runs/{run_id}/status", "failed"
        else:
            path, status = f"/evaluations/{run_id}", "FAILED"
        return await wire.put(path, {"status": status, "error_message": "ValueError: x"})


@pytest.fixture(params=["eval", "train"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return Kind(request.param)


async def lapse(platform: RunningPlatform, clock: FakeClock, seconds: float) -> None:
    """Let time pass, then end what is over, as the platform does every second."""
    clock.advance(seconds)
    await platform.parts.sandboxes.leases.expire()


async def test_a_silent_run_is_failed(
    wire: Wire, platform: RunningPlatform, clock: FakeClock, kind: Kind
) -> None:
    """Not before its lease is over; a run without a lease may be silent for ever."""
    run_id, other = await kind.make(wire), await kind.make(wire, None)
    opened = await kind.state(wire, run_id)
    await lapse(platform, clock, 29)
    assert await kind.state(wire, run_id) == opened
    await lapse(platform, clock, 2)
    assert await kind.state(wire, run_id) == ("FAILED", SILENT)
    await lapse(platform, clock, 1_000_000)
    assert (await kind.state(wire, other))[0] in ("PENDING", "RUNNING")


async def test_a_renewed_lease_keeps_a_run_open(
    wire: Wire, platform: RunningPlatform, clock: FakeClock, kind: Kind
) -> None:
    """As long as somebody renews it; the last renewal says how long silence may be."""
    run_id = await kind.make(wire)
    for _ in range(3):
        await lapse(platform, clock, 20)
        renewed = await kind.renew(wire, run_id, 60)
        assert renewed.status == 200
        lease = RunLease.from_wire(renewed.json)
        assert (lease.run_id, lease.seconds) == (run_id, 60)
    await lapse(platform, clock, 59)
    assert (await kind.state(wire, run_id))[0] in ("PENDING", "RUNNING")
    await lapse(platform, clock, 2)
    message = "crashed: no sign of life for 60 s"
    assert await kind.state(wire, run_id) == ("FAILED", message)


async def test_a_renewal_begins_a_lease(
    wire: Wire, platform: RunningPlatform, clock: FakeClock, kind: Kind
) -> None:
    """For runs that were made without one, as those of a launcher."""
    run_id = await kind.make(wire, None)
    assert (await kind.renew(wire, run_id)).status == 200
    await lapse(platform, clock, 31)
    assert await kind.state(wire, run_id) == ("FAILED", SILENT)


async def test_a_client_that_turns_up_again_is_believed(
    wire: Wire, platform: RunningPlatform, clock: FakeClock, kind: Kind
) -> None:
    """Renewing opens the run again, finishing it counts; what a client closed stays closed."""
    slept, done, broke = [await kind.make(wire) for _ in range(3)]
    await lapse(platform, clock, 31)
    assert (await kind.renew(wire, slept)).status == 200
    assert await kind.state(wire, slept) == ("RUNNING", None)
    assert (await kind.complete(wire, done)).status == 200
    assert await kind.state(wire, done) == ("COMPLETED", None)
    assert (await kind.fail(wire, broke)).status == 200
    assert await kind.state(wire, broke) == ("FAILED", "ValueError: x")
    for run_id in (done, broke):
        refused = await kind.renew(wire, run_id)
        assert (refused.status, refused.code) == (409, "run_closed")
    assert (await kind.fail(wire, broke)).code == "run_closed"
    await lapse(platform, clock, 31)
    assert await kind.state(wire, slept) == ("FAILED", SILENT)


async def test_a_closed_run_has_no_lease(
    wire: Wire, platform: RunningPlatform, clock: FakeClock, kind: Kind
) -> None:
    """Its end does not come over a run that its client has closed."""
    done, failed = await kind.make(wire), await kind.make(wire)
    await kind.complete(wire, done)
    await kind.fail(wire, failed)
    await lapse(platform, clock, 31)
    assert await kind.state(wire, done) == ("COMPLETED", None)
    assert await kind.state(wire, failed) == ("FAILED", "ValueError: x")


async def test_leases_survive_a_restart(tmp_path: Path, clock: FakeClock, kind: Kind) -> None:
    """The time in which the platform did not run is nobody's silence; after it, silence counts."""
    async with running_platform(tmp_path, clock=clock) as platform, Wire(platform.url) as wire:
        run_id = await kind.make(wire)
    clock.advance(10_000)
    async with running_platform(tmp_path, clock=clock) as platform, Wire(platform.url) as wire:
        await lapse(platform, clock, 29)
        assert (await kind.state(wire, run_id))[0] in ("PENDING", "RUNNING")
        await lapse(platform, clock, 2)
        assert await kind.state(wire, run_id) == ("FAILED", SILENT)


async def test_other_lengths_are_refused(wire: Wire, kind: Kind) -> None:
    """A lease has 1 to 86400 whole seconds; nothing is made otherwise."""
    path, body = (
        ("/rft/external-runs", {"base_model": "m"})
        if kind.kind == "train"
        else ("/evaluations/", {"name": "n", "run_id": "r"})
    )
    for text in ("", "0", "-1", "abc", "1.5", "86401", "9" * 30):
        refused = await wire.post(path, body, headers={"X-Prime-Run-Lease": text})
        assert refused.status == 422, text
        assert refused.json["detail"][0]["loc"] == ["header", "X-Prime-Run-Lease"]
    listed = (await wire.get(path)).json
    assert listed.get("runs", listed.get("evaluations")) == []
