"""Leases with an injected clock: held, renewed, released, ended, and kept over a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from prime_async.server.leases import Lease, LeaseHeldError, LeaseLostError, Leases
from prime_async.server.store.database import Database
from tests.server.clocks import FakeClock

Open = Callable[[], AbstractAsyncContextManager[Leases]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def opened(tmp_path: Path, clock: FakeClock) -> Open:
    """Opens the leases of one database, as often as a test wants."""

    @asynccontextmanager
    async def open_leases() -> AsyncIterator[Leases]:
        database = Database(tmp_path / "leases.sqlite3")
        await database.open()
        try:
            yield Leases(database, clock)
        finally:
            await database.close()

    return open_leases


class Recorder:
    """An action that notes the leases it was run for."""

    def __init__(self, failures: int = 0) -> None:
        self.ended: list[Lease] = []
        self._failures = failures

    async def __call__(self, lease: Lease) -> None:
        if self._failures:
            self._failures -= 1
            raise RuntimeError("not yet")
        self.ended.append(lease)


async def test_a_lease_that_nobody_renews_runs_its_action_once(
    opened: Open, clock: FakeClock
) -> None:
    """The action gets the lease with its payload, at its end and not before."""
    async with opened() as leases:
        kill = Recorder()
        leases.register("kill", kill)
        await leases.acquire("sandbox", "s1", "client", 30.0, "kill", {"pid": 7})
        clock.advance(29.9)
        assert await leases.expire() == 0
        clock.advance(0.2)
        assert await leases.expire() == 1
        assert await leases.expire() == 0
        assert [(one.subject, one.payload) for one in kill.ended] == [("s1", b'{"pid":7}')]
        assert leases.get("sandbox", "s1") is None


async def test_a_renewed_lease_lives_on(opened: Open, clock: FakeClock) -> None:
    """Renewing moves the end; the old end passes without the action."""
    async with opened() as leases:
        kill = Recorder()
        leases.register("kill", kill)
        lease = await leases.acquire("run", "r1", "client", 30.0, "kill")
        clock.advance(20)
        lease = await leases.renew(lease, 30.0)
        clock.advance(20)
        assert await leases.expire() == 0
        assert lease.expires_at == clock.now() + 10
        clock.advance(10)
        assert await leases.expire() == 1


async def test_a_released_lease_does_nothing_at_its_end(opened: Open, clock: FakeClock) -> None:
    """Who gives a lease back has dealt with its subject."""
    async with opened() as leases:
        kill = Recorder()
        leases.register("kill", kill)
        lease = await leases.acquire("run", "r1", "client", 30.0, "kill")
        assert await leases.release(lease)
        assert not await leases.release(lease)
        clock.advance(31)
        assert await leases.expire() == 0
        assert kill.ended == []


async def test_an_ended_lease_cannot_be_revived(opened: Open, clock: FakeClock) -> None:
    """From its end on a lease is lost, even before its action ran."""
    async with opened() as leases:
        lease = await leases.acquire("run", "r1", "client", 30.0, "kill")
        clock.advance(30)
        with pytest.raises(LeaseLostError):
            await leases.renew(lease, 30.0)


async def test_only_one_owner_at_a_time(opened: Open, clock: FakeClock) -> None:
    """Another owner is refused, also between the end and the success of the action."""
    async with opened() as leases:
        await leases.acquire("run", "r1", "one", 30.0, "kill")
        with pytest.raises(LeaseHeldError, match="one"):
            await leases.acquire("run", "r1", "two", 30.0, "kill")
        await leases.acquire("run", "r2", "two", 30.0, "kill")
        clock.advance(31)
        with pytest.raises(LeaseHeldError):
            await leases.acquire("run", "r1", "two", 30.0, "kill")
        leases.register("kill", Recorder())
        assert await leases.expire() == 2
        await leases.acquire("run", "r1", "two", 30.0, "kill")


async def test_taking_a_lease_anew_makes_the_old_one_worthless(opened: Open) -> None:
    """The same owner gets a larger token; what still uses the old one is told that it lost."""
    async with opened() as leases:
        old = await leases.acquire("run", "r1", "client", 30.0, "kill")
        new = await leases.acquire("run", "r1", "client", 30.0, "kill")
        assert new.token > old.token
        with pytest.raises(LeaseLostError):
            await leases.renew(old, 30.0)
        assert not await leases.release(old)
        await leases.renew(new, 30.0)


async def test_a_failing_action_is_tried_again_with_growing_pauses(
    opened: Open, clock: FakeClock
) -> None:
    """Failures neither lose the lease nor keep the others waiting."""
    async with opened() as leases:
        flaky, good = Recorder(failures=2), Recorder()
        leases.register("flaky", flaky)
        leases.register("good", good)
        await leases.acquire("run", "r1", "client", 30.0, "flaky")
        await leases.acquire("run", "r2", "client", 30.0, "good")
        clock.advance(31)
        assert await leases.expire() == 1
        assert [one.subject for one in good.ended] == ["r2"]
        assert await leases.expire() == 0
        clock.advance(1)
        assert await leases.expire() == 0
        clock.advance(2)
        assert await leases.expire() == 1
        assert [one.failures for one in flaky.ended] == [2]


async def test_an_unknown_action_waits_for_its_registration(opened: Open, clock: FakeClock) -> None:
    """A lease of a part that is not loaded yet is kept until it is."""
    async with opened() as leases:
        await leases.acquire("run", "r1", "client", 30.0, "later")
        clock.advance(31)
        assert await leases.expire() == 0
        later = Recorder()
        leases.register("later", later)
        clock.advance(2)
        assert await leases.expire() == 1


async def test_leases_survive_a_restart(opened: Open, clock: FakeClock) -> None:
    """What ended while the server was down is dealt with at its next start; the rest goes on."""
    async with opened() as leases:
        await leases.acquire("run", "gone", "client", 30.0, "kill")
        alive = await leases.acquire("run", "alive", "client", 300.0, "kill")
    clock.advance(60)
    async with opened() as leases:
        kill = Recorder()
        leases.register("kill", kill)
        assert await leases.expire() == 1
        assert [one.subject for one in kill.ended] == ["gone"]
        assert (await leases.renew(alive, 300.0)).token == alive.token


async def test_many_ended_leases_are_all_dealt_with(opened: Open, clock: FakeClock) -> None:
    """More than one sweep's worth, in one call."""
    async with opened() as leases:
        kill = Recorder()
        leases.register("kill", kill)
        for number in range(50):
            await leases.acquire("run", f"r{number}", "client", 10.0, "kill")
        clock.advance(11)
        assert await leases.expire() == 50
        assert {one.subject for one in kill.ended} == {f"r{number}" for number in range(50)}


async def test_run_ends_leases_as_time_passes(opened: Open, clock: FakeClock) -> None:
    """The loop looks again whenever its clock says that a tick has passed."""
    async with opened() as leases:
        ended = anyio.Event()

        async def note(lease: Lease) -> None:
            ended.set()

        leases.register("note", note)
        await leases.acquire("run", "r1", "client", 5.0, "note")
        async with anyio.create_task_group() as group:
            group.start_soon(leases.run)
            with anyio.fail_after(20):
                while not ended.is_set():
                    await clock.slept()
                    clock.advance(1.0)
            group.cancel_scope.cancel()
