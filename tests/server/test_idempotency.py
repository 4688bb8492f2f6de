"""``Idempotency-Key``: a repeated POST answers what the first one did, and does nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.platform import RunningPlatform, running_platform
from tests.server.clocks import FakeClock
from tests.server.wire import Wire

WEEK = 7 * 24 * 3600.0
BODY = {"name": "n", "run_id": "r"}


def key(text: str) -> dict[str, str]:
    return {"Idempotency-Key": text}


async def count(wire: Wire) -> int:
    total: int = (await wire.get("/evaluations/")).json["total"]
    return total


async def test_a_repeated_create_makes_one_evaluation(wire: Wire) -> None:
    """The second answer is the first one's bytes, marked as replayed."""
    first = await wire.post("/evaluations/", BODY, headers=key("k1"))
    again = await wire.post("/evaluations/", BODY, headers=key("k1"))
    assert (first.status, first.body) == (again.status, again.body)
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert await count(wire) == 1


async def test_keys_at_the_same_moment_make_one_evaluation(wire: Wire) -> None:
    """Ten requests with one key in flight together: one is carried out, nine are replayed."""
    replies = await asyncio.gather(
        *(wire.post("/evaluations/", BODY, headers=key("k1")) for _ in range(10))
    )
    assert len({reply.body for reply in replies}) == 1
    assert sum("Idempotency-Replayed" in reply.headers for reply in replies) == 9
    assert await count(wire) == 1


async def test_another_request_with_the_same_key_is_a_conflict(wire: Wire) -> None:
    """Another body, path or query under a known key is a 409 and does nothing."""
    evaluation = await wire.evaluation()
    await wire.post("/evaluations/", BODY, headers=key("k1"))
    for path, body in (
        ("/evaluations/", {**BODY, "name": "other"}),
        (f"/evaluations/{evaluation}/finalize", BODY),
        ("/evaluations/?x=1", BODY),
    ):
        reply = await wire.post(path, body, headers=key("k1"))
        assert (reply.status, reply.code) == (409, "idempotency_conflict")
    assert await count(wire) == 2
    assert (await wire.get(f"/evaluations/{evaluation}")).json["status"] == "PENDING"


async def test_plain_sample_posts_can_be_repeated_under_a_key(wire: Wire) -> None:
    """A key makes even a post without ranges safe to send again."""
    evaluation = await wire.evaluation()
    path, body = f"/evaluations/{evaluation}/samples", {"samples": [{"a": 1}, {"a": 2}]}
    first = await wire.post(path, body, headers=key("k1"))
    again = await wire.post(path, body, headers=key("k1"))
    assert first.body == again.body
    assert await wire.samples(evaluation) == [{"a": 1}, {"a": 2}]


async def test_the_same_samples_for_other_indexes_are_another_request(wire: Wire) -> None:
    """The headers that say which samples these are belong to the request."""
    evaluation = await wire.evaluation()
    path, body = f"/evaluations/{evaluation}/samples", {"samples": [{}, {}]}
    span = {"X-Prime-Push": "p1", "X-Prime-Range": "0-2"}
    assert (await wire.post(path, body, headers={**span, **key("k1")})).status == 200
    span["X-Prime-Range"] = "2-4"
    reply = await wire.post(path, body, headers={**span, **key("k1")})
    assert (reply.status, reply.code) == (409, "idempotency_conflict")


async def test_a_failed_request_does_not_use_up_its_key(wire: Wire) -> None:
    """What changed nothing may be tried again under the same key, with a better body."""
    missing = {"name": "n", "environments": [{"id": "cnothere"}]}
    assert (await wire.post("/evaluations/", missing, headers=key("k1"))).status == 422
    assert (await wire.post("/evaluations/", BODY, headers=key("k1"))).status == 200
    assert await count(wire) == 1


async def test_keys_are_forgotten_after_a_week(wire: Wire, clock: FakeClock) -> None:
    """Until then they are replayed, afterwards the request is a new one."""
    await wire.post("/evaluations/", BODY, headers=key("k1"))
    clock.advance(WEEK - 1)
    await wire.post("/evaluations/", BODY, headers=key("k1"))
    assert await count(wire) == 1
    clock.advance(2)
    reply = await wire.post("/evaluations/", BODY, headers=key("k1"))
    assert "Idempotency-Replayed" not in reply.headers
    assert await count(wire) == 2


async def test_old_keys_are_swept(platform: RunningPlatform, wire: Wire, clock: FakeClock) -> None:
    """Each new key drops expired ones, so that the table does not grow for ever."""
    for number in range(40):
        await wire.post("/environmentshub/resolve", {"name": "e"}, headers=key(f"old-{number}"))
    clock.advance(WEEK + 1)
    for number in range(4):
        await wire.post("/environmentshub/resolve", {"name": "e"}, headers=key(f"new-{number}"))
    left = platform.parts.database.point(
        lambda reader: reader.exec_driver_sql("SELECT count(*) FROM idempotency_keys").scalar()
    )
    assert left == 4


async def test_keys_of_accounts_and_teams_do_not_meet(
    platform: RunningPlatform, wire: Wire
) -> None:
    """The same key of another account, or of a team, is another key."""
    keys = platform.parts.keys
    other = await keys.add_account("other", "Other", "pit_other_0123456789abcdef")
    team = await keys.add_team("lab", "Lab", {other.id: "member"})
    await wire.post("/evaluations/", BODY, headers=key("k1"))
    async with Wire(platform.url, "pit_other_0123456789abcdef") as second:
        mine = await second.post("/evaluations/", {**BODY, "name": "x"}, headers=key("k1"))
        teams = await second.post("/evaluations/", {**BODY, "team_id": team}, headers=key("k1"))
        assert (mine.status, teams.status) == (200, 200)
        assert await count(second) == 2


@pytest.mark.parametrize("text", ["", "x" * 201, "a\tb", "ä"])
async def test_an_unusable_key_is_refused(wire: Wire, text: str) -> None:
    """A key is 1 to 200 printable ASCII characters."""
    reply = await wire.post("/evaluations/", BODY, headers=key(text))
    assert reply.status == 422
    assert reply.json["detail"][0]["loc"] == ["header", "Idempotency-Key"]
    assert await count(wire) == 0


async def test_keys_survive_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Data and key are in one transaction, so a restart forgets neither."""
    folder = tmp_path_factory.mktemp("platform")
    async with running_platform(folder) as platform, Wire(platform.url) as wire:
        first = await wire.post("/evaluations/", BODY, headers=key("k1"))
    async with running_platform(folder) as platform, Wire(platform.url) as wire:
        again = await wire.post("/evaluations/", BODY, headers=key("k1"))
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.body == first.body
        assert await count(wire) == 1
