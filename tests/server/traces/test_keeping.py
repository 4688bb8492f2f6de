"""What is kept and what is not: deletes, files nobody needs, restarts, kill -9, other owners."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import aiohttp

from prime_async.server.store.blobs import Blobs
from tests.platform import ProcessPlatform, RunningPlatform, running_platform
from tests.server.clocks import FakeClock
from tests.server.traces.uploads import NOW, episode, form, ids, key_of, lines, send, store, trace
from tests.server.wire import Wire


def files(folder: Path) -> set[str]:
    """The names of all files below a folder."""
    return {path.name for path in folder.rglob("*") if path.is_file()}


async def test_deleting_a_trace(wire: Wire, platform: RunningPlatform) -> None:
    """All copies; files go with the last trace in them; again: 404."""
    folder = platform.config.traces_dir
    first = await store(wire, trace("t1"), trace("t2"))
    second = await store(wire, trace("t1", text="new"))
    assert files(folder) == {first, second}
    reply = await wire.delete("/traces/t1")
    assert (reply.status, reply.json) == (202, {"deleted_traces": 1, "deleted_episodes": 0})
    assert await ids(wire) == ["t2"]
    assert files(folder) == {first}
    again = await wire.delete("/traces/t1")
    assert (again.status, again.code) == (404, "trace_not_found")
    await wire.delete("/traces/t2")
    assert files(folder) == set()


async def test_what_was_deleted_can_be_uploaded_again(wire: Wire) -> None:
    """Bytes of which something was deleted are no replay: all of them are stored."""
    data = lines(trace("t1"), trace("t2"))
    await send(wire, data)
    await wire.delete("/traces/t1")
    again = await send(wire, data)
    assert (again.status, again.json["replayed"]) == (201, False)
    assert sorted(await ids(wire)) == ["t1", "t2"]
    assert (await send(wire, data)).json["replayed"] is True


async def test_a_hint_of_the_begin_has_to_fit(wire: Wire) -> None:
    """As the wire shows it, or as the trace says it."""
    await store(wire, trace("t1", timing={"start": NOW - 1.2345}))
    shown = (await wire.get("/traces/t1")).json["created_at"]
    wrong = await wire.delete("/traces/t1?created_at=2027-01-15T07:59:58.000Z")
    assert (wrong.status, wrong.code) == (404, "trace_not_found")
    reply = await wire.send("DELETE", "/traces/t1", params={"created_at": shown})
    assert reply.status == 202


async def test_owners_do_not_see_each_other(wire: Wire, platform: RunningPlatform) -> None:
    """Accounts and teams: neither lists, ids, files, searches nor deletes cross over."""
    keys = platform.parts.keys
    me = (await wire.get("/user/whoami")).json["data"]["id"]
    await keys.add_account("other", "Other", "k" * 32)
    team = {"X-Prime-Team-ID": await keys.add_team("team", "Team", {me: "member"})}
    data = lines(trace("t1"))
    async with Wire(platform.url, "k" * 32) as theirs:
        for owner, headers in ((wire, None), (theirs, None), (wire, team)):
            reply = await send(owner, data, headers=headers)
            assert (reply.status, reply.json["replayed"]) == (201, False)
        await store(wire, episode("e1", [trace("mine")]), episodes=True)
        for path in ("/traces/mine", "/traces/mine/nodes", "/episodes/e1", "/traces/mine?raw=true"):
            assert (await theirs.get(path)).status == 404
            assert (await wire.get(path, headers=team)).status == 404
            assert (await wire.get(path)).status == 200
        assert await ids(theirs) == ["t1"]
        found = (await theirs.get("/runs/run-1/search?query=2%2B2")).json
        assert [item["trace_id"] for item in found["items"]] == ["t1"]
        assert (await theirs.get("/runs/run-1")).json["trace_count"] == 1
        assert (await theirs.delete("/traces/mine")).status == 404
        await theirs.delete("/traces/t1")
        # The file is shared by those who sent the same bytes, and stays for the others.
        assert (await wire.get("/traces/t1?raw=true")).body == data.strip()
        assert (await theirs.get("/traces", headers=team)).code == "forbidden"


async def test_a_key_is_needed(platform: RunningPlatform) -> None:
    """401 in the words of the traces wire."""
    async with Wire(platform.url, key=None) as nobody:
        for reply in (
            await nobody.get("/traces"),
            await nobody.get("/runs/r/search?query=abc"),
            await send(nobody, lines(trace("t1"))),
        ):
            assert (reply.status, reply.code) == (401, "unauthenticated")


async def test_a_restart_keeps_traces_and_removes_what_is_half_done(
    tmp_path: Path, clock: FakeClock
) -> None:
    """Drafts and files that no upload names are gone after the next start."""
    data = lines(trace("t1"))
    async with (
        running_platform(tmp_path, clock=clock) as platform,
        Wire(platform.url) as wire,
    ):
        kept = await store(wire, trace("t1"))
        folder = platform.config.traces_dir
    (folder / "incoming" / "draft").write_bytes(b"half")
    orphan = "ab" * 32
    (folder / "blobs" / "ab").mkdir(exist_ok=True)
    (folder / "blobs" / "ab" / orphan).write_bytes(b"whole, but without rows")
    async with (
        running_platform(tmp_path, clock=clock) as platform,
        Wire(platform.url) as wire,
    ):
        assert files(folder) == {kept}
        assert (await wire.get("/traces/t1?raw=true")).body == data.strip()
        assert (await send(wire, data)).json["replayed"] is True


async def test_kill_in_the_middle_of_uploads_keeps_what_was_answered(tmp_path: Path) -> None:
    """kill -9 while several are on their way: all of an upload is there, or nothing."""
    now = time.time()
    uploads = {
        name: lines(
            *(trace(f"{name}-{n}", timing={"start": now}, text="x" * 20_000) for n in range(40))
        )
        for name in "abcdef"
    }
    answered: set[str] = set()
    with ProcessPlatform(tmp_path) as platform:

        async def one(wire: Wire, name: str) -> None:
            try:
                reply = await send(wire, uploads[name])
            except aiohttp.ClientError:
                return
            assert reply.status == 201
            answered.add(name)

        async with Wire(platform.url) as wire:
            await one(wire, "a")
            async with asyncio.TaskGroup() as group:
                for name in "bcdef":
                    group.create_task(one(wire, name))
                while not any((tmp_path / "platform" / "traces" / "incoming").iterdir()):
                    await asyncio.sleep(0)
                platform.kill()
        platform.start()
        async with Wire(platform.url) as wire:
            groups = (await wire.get("/traces/aggregate?group_by=run_id")).json["groups"]
            replies = [await send(wire, data) for data in uploads.values()]
            assert all(reply.json["replayed"] for reply in replies[:1])
            known = sum(reply.json["replayed"] for reply in replies)
            assert len(answered) <= known
            assert [group["trace_count"] for group in groups] == [40 * known]
            groups = (await wire.get("/traces/aggregate?group_by=run_id")).json["groups"]
            assert [group["trace_count"] for group in groups] == [240]
        stored = files(tmp_path / "platform" / "traces")
        assert stored == {key_of(data).removeprefix("sha256:") for data in uploads.values()}


def test_a_sweep_leaves_alone_what_is_needed_or_on_its_way(tmp_path: Path) -> None:
    """Files that a row names, and those of uploads that are being read."""
    blobs = Blobs(tmp_path)
    blobs.open(lambda _: set())
    names = {letter: letter * 64 for letter in "abc"}
    for name in names.values():
        draft = blobs.new_draft()
        draft.write_bytes(b"x")
        blobs.keep(draft, name)
    with blobs.pinned(names["a"]), blobs.pinned(names["a"]):
        assert blobs.sweep(list(names.values()), lambda _: {names["b"]}) == 1
    assert files(tmp_path) == {names["a"], names["b"]}
    assert blobs.sweep([names["a"]], lambda _: set()) == 1


async def test_uploads_beyond_the_places_wait(tmp_path: Path, clock: FakeClock) -> None:
    """With one place, one after another is read, and all are stored."""
    async with (
        running_platform(tmp_path, clock=clock, limits={"trace_uploads": 1}) as platform,
        Wire(platform.url) as wire,
    ):
        data = [lines(trace(f"t{n}")) for n in range(5)]
        replies = await asyncio.gather(*(send(wire, one, body=form(one)) for one in data))
        assert [reply.status for reply in replies] == [201] * 5
        assert len(await ids(wire)) == 5
