"""Volumes over real sandboxes: shared, kept, published, and never a way out."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.platform import KEY, running_platform
from tests.server.clocks import FakeClock
from tests.server.sandboxes.boxes import Boxes
from tests.server.sandboxes.test_checkpoints import settled
from tests.server.sandboxes.test_life import advance
from tests.server.sandboxes.usable import needs_bubblewrap
from tests.server.wire import Reply, Wire

pytestmark = [needs_bubblewrap, pytest.mark.asyncio(loop_scope="module")]

OTHER_KEY = "pit_test_other_0123456789abcdef0123456789"


def mount(name: str, path: str = "/data", *, read_only: bool = False) -> dict[str, Any]:
    """A volume in a request."""
    return {"name": name, "mount_path": path, "read_only": read_only}


async def volume(boxes: Wire, name: str = "v") -> dict[str, Any]:
    """Make a volume."""
    reply = await boxes.post("/sandbox/volumes", {"name": name})
    assert reply.status == 200, reply
    made: dict[str, Any] = reply.json
    return made


async def published(boxes: Boxes, box: str, name: str = "v", *, force: bool = False) -> Any:
    """Publish a volume; the checkpoint, which has to be durable."""
    reply = await boxes.post(f"/sandbox/{box}/volumes/{name}/publish", {"force": force})
    assert reply.status == 200, reply
    found = await settled(boxes, reply.json["id"])
    assert found["state"] == "DURABLE", found
    return found


async def test_a_volume_is_shared_and_outlives_its_sandboxes(isolated: Boxes) -> None:
    """What one writes another reads at once, in a folder of its choice, and later ones too."""
    made = await volume(isolated)
    assert (made["name"], made["head_checkpoint_id"], made["occupied_bytes"]) == ("v", None, 0)
    first = await isolated.running(volumes=[mount("v", "/data/deep")])
    second = await isolated.running(volumes=[mount("v", "/app/v", read_only=True)])
    await isolated.sh(first, "echo one > /data/deep/f; mkdir /data/deep/d")
    assert await isolated.sh(second, "cat /app/v/f; touch /app/v/x 2>&1 || true") == (
        "one\ntouch: cannot touch '/app/v/x': Read-only file system\n"
    )
    data = {"file": io.BytesIO(b"uploaded")}
    sent = await isolated.at("POST", first, "/upload", params={"path": "/data/deep/g"}, data=data)
    assert sent.status == 200
    window = await isolated.at("GET", second, "/read-file", params={"path": "/app/v/f"})
    assert window.json["content"] == "one\n"
    assert await isolated.sh(second, "cat /app/v/g") == "uploaded"
    for box in (first, second):
        await isolated.delete(f"/sandbox/{box}")
    third = await isolated.running(volumes=[mount("v", "/mnt/v")])
    assert await isolated.sh(third, "cat /mnt/v/f; rm -r /mnt/v/d; ls /mnt/v") == "one\nf\ng\n"


async def test_only_what_a_volume_is_not_in_use_by_is_deleted(isolated: Boxes) -> None:
    """In use it stays (409); deleted, its folder and versions go with it."""
    platform = isolated.platform
    made = await volume(isolated)
    box = await isolated.running(volumes=[mount("v")])
    await isolated.sh(box, "mkdir -p /data/a/b; echo 1 > /data/a/b/c")
    await published(isolated, box)
    await isolated.sh(box, "chmod 0 /data/a")
    reply = await isolated.delete("/sandbox/volumes/v")
    assert (reply.status, reply.code) == (409, "volume_in_use")
    assert box in reply.json["detail"]
    await isolated.delete(f"/sandbox/{box}")
    folder = platform.config.volumes_dir / made["id"]
    assert folder.is_dir()
    assert (await isolated.delete("/sandbox/volumes/v")).status == 204
    assert not folder.exists()
    assert list(platform.config.checkpoints_dir.iterdir()) == []
    assert (await isolated.delete("/sandbox/volumes/v")).status == 404
    assert (await volume(isolated))["id"] != made["id"], "its name is free again"


async def test_publishing_makes_versions(isolated: Boxes) -> None:
    """Each follows the last; the volume names the newest, and says what it takes."""
    await volume(isolated)
    box = await isolated.running(volumes=[mount("v")])
    await isolated.sh(box, "head -c 300000 /dev/urandom > /data/f")
    first = await published(isolated, box)
    second = await published(isolated, box)
    assert (second["parent_id"], second["depth"], first["depth"]) == (first["id"], 1, 0)
    found = (await isolated.get("/sandbox/volumes/v")).json
    assert found["head_checkpoint_id"] == second["id"]
    assert found["occupied_bytes"] == second["occupied_bytes"] >= 300000
    assert found["account_storage_used_bytes"] == second["occupied_bytes"]
    assert found["account_storage_limit_gb"] == 50
    listed = (await isolated.get("/sandbox/volumes")).json
    assert [one["id"] for one in listed["volumes"]] == [found["id"]]
    assert listed["volumes"][0]["occupied_bytes"] == found["occupied_bytes"]
    assert (listed["total"], listed["has_next"], listed["storage_limit_gb"]) == (1, False, 50)
    assert (await isolated.get(f"/sandbox/{box}/checkpoints")).json == {"checkpoints": []}
    head = await isolated.delete(f"/sandbox/checkpoints/{second['id']}")
    assert (head.status, head.code) == (409, "checkpoint_in_use")
    assert (await isolated.delete(f"/sandbox/checkpoints/{first['id']}")).status == 204
    reply = await isolated.post("/sandbox", {"name": "x", "checkpoint_id": second["id"]})
    assert (reply.status, reply.code) == (409, "checkpoint_of_volume")


async def test_publishing_is_refused_where_it_would_lose_or_cannot_be(isolated: Boxes) -> None:
    """Not mounted, read-only, a version that was not seen (unless forced), one in flight."""
    await volume(isolated)
    writer, other = [await isolated.running(volumes=[mount("v")]) for _ in range(2)]
    reader = await isolated.running(volumes=[mount("v", read_only=True)])
    stranger = await isolated.running()

    async def publish(box: str, name: str = "v", **body: Any) -> Reply:
        return await isolated.post(f"/sandbox/{box}/volumes/{name}/publish", body)

    for box, name in ((stranger, "v"), (writer, "nothing")):
        assert (await publish(box, name)).code == "volume_not_attached"
    assert ((await publish(reader)).status, (await publish(reader)).code) == (
        400,
        "volume_read_only",
    )
    await isolated.sh(writer, "head -c 30000000 /dev/urandom > /data/f")
    pending = await publish(writer)
    assert ((await publish(writer)).status, (await publish(other)).code) == (
        409,
        "checkpoint_pending",
    )
    assert (await settled(isolated, pending.json["id"]))["state"] == "DURABLE"
    moved = await publish(other)
    assert (moved.status, moved.code) == (409, "volume_moved")
    await published(isolated, other, force=True)
    await published(isolated, other)
    assert (await publish(writer)).code == "volume_moved"
    await isolated.delete(f"/sandbox/{writer}")
    assert (await publish(writer)).code == "sandbox_not_running"


async def test_a_link_in_a_volume_leads_nowhere(isolated: Boxes, tmp_path: Path) -> None:
    """Not through file calls, nor commands, nor publishing: it names files of the sandbox."""
    (tmp_path / "secret").write_text("of the host")
    await volume(isolated)
    box = await isolated.running(volumes=[mount("v")])
    await isolated.sh(box, f"ln -s {tmp_path}/secret /data/s; ln -s {tmp_path} /data/dir")
    for path in ("/data/s", "/data/dir/secret", f"/data/../..{tmp_path}/secret"):
        assert (await isolated.at("GET", box, "/download", params={"path": path})).status == 404
    assert await isolated.sh(box, "cat /data/s 2>/dev/null || echo none") == "none\n"
    made = await published(isolated, box)
    archive = isolated.platform.parts.sandboxes.checkpoints.archive(made["id"])
    assert b"of the host" not in archive.read_bytes()
    data = {"file": io.BytesIO(b"x")}
    sent = await isolated.at("POST", box, "/upload", params={"path": "/data/dir/new"}, data=data)
    assert sent.status != 200
    assert sorted(one.name for one in tmp_path.iterdir()) == ["secret"]


async def test_volumes_belong_to_an_account_or_a_team(isolated: Boxes) -> None:
    """The same name thrice; nobody sees or mounts what is not his."""
    keys = isolated.platform.parts.keys
    other_account = await keys.add_account("other", "Other", OTHER_KEY)
    mine = keys.caller(f"Bearer {KEY}").account.id
    team = await keys.add_team("both", "Both", {mine: "ADMIN", other_account.id: "MEMBER"})
    own = await volume(isolated)
    reply = await isolated.post("/sandbox/volumes", {"name": "v", "team_id": team})
    assert (reply.json["team_id"], reply.json["user_id"]) == (team, None)
    async with Wire(isolated.platform.url, OTHER_KEY) as other:
        assert (await other.get("/sandbox/volumes/v")).status == 404
        assert (await other.delete("/sandbox/volumes/v")).status == 404
        assert (await other.get("/sandbox/volumes")).json["total"] == 0
        body = {"name": "x", "docker_image": "ubuntu:1", "volumes": [mount("v")]}
        assert (await other.post("/sandbox", body)).code == "volume_not_found"
        theirs = await volume(other)
        shared = await other.get("/sandbox/volumes/v", params={"team_id": team})
        assert shared.json["id"] == reply.json["id"]
    assert len({own["id"], theirs["id"], reply.json["id"]}) == 3
    assert (await isolated.post("/sandbox/volumes", {"name": "v"})).code == "volume_exists"


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "../x", "a\0b", "x" * 201, "@a"])
async def test_names_that_cannot_be(isolated: Boxes, name: str) -> None:
    """They would not fit into a path."""
    assert (await isolated.post("/sandbox/volumes", {"name": name})).status == 422


@pytest.mark.parametrize(
    "paths",
    [
        ["data"], ["/"], ["/tmp"], ["/usr/x"], ["/proc"], ["/etc/x"], ["/a/../b"], ["/.prime/x"],
        ["/a", "/a"], ["/a/b", "/a"], ["/" + "x" * 300], ["//usr"], ["/dev/./shm"],
    ],
)  # fmt: skip
async def test_places_where_nothing_can_be_mounted(isolated: Boxes, paths: list[str]) -> None:
    """The platform's own, no place at all, two in one."""
    for name in ("v0", "v1"):
        await volume(isolated, name)
    volumes = [mount(f"v{number}", path) for number, path in enumerate(paths)]
    body = {"name": "x", "docker_image": "ubuntu:1", "volumes": volumes}
    reply = await isolated.post("/sandbox", body)
    assert (reply.status, reply.json["detail"][0]["loc"][:2]) == (422, ["body", "volumes"])


@pytest.mark.slow
async def test_a_volume_that_grows_too_large_ends_who_writes_to_it(tmp_path: Path) -> None:
    """With the reason; who only reads goes on."""
    clock = FakeClock()
    options = {"clock": clock, "limits": {"volume_bytes": 2_000_000}}
    async with running_platform(tmp_path, **options) as running, Boxes(running) as boxes:
        await volume(boxes)
        writer = await boxes.running(volumes=[mount("v")])
        reader = await boxes.running(volumes=[mount("v", read_only=True)])
        await boxes.sh(writer, "head -c 1000000 /dev/zero > /data/f")
        await advance(clock, 10, 5)
        assert (await boxes.get(f"/sandbox/{writer}")).json["status"] == "RUNNING"
        await boxes.sh(writer, "head -c 2000000 /dev/zero > /data/g")
        await advance(clock, 10, 5)
        found = await boxes.until(writer, "ERROR")
        assert (found["errorType"], found["terminationReason"]) == ("DISK_FULL", "DISK_FULL")
        assert "its volumes took more" in found["errorMessage"]
        assert (await boxes.get(f"/sandbox/{reader}")).json["status"] == "RUNNING"
        await boxes.end_all()


async def test_what_a_crash_left_of_volumes_is_removed(tmp_path: Path) -> None:
    """A folder without a volume goes at the next start; the others keep what is in them."""
    async with running_platform(tmp_path) as running, Boxes(running) as boxes:
        made = await volume(boxes)
        folder = running.config.volumes_dir
        (folder / made["id"] / "f").write_text("kept")
        (folder / "cleftover" / "d").mkdir(parents=True)
    async with running_platform(tmp_path) as running, Boxes(running) as boxes:
        assert [one.name for one in running.config.volumes_dir.iterdir()] == [made["id"]]
        with anyio.fail_after(20):
            box = await boxes.running(volumes=[mount("v")])
            assert await boxes.sh(box, "cat /data/f") == "kept"
        await boxes.end_all()


@pytest.mark.slow
async def test_the_runtime_without_isolation(tmp_path: Path) -> None:
    """It keeps checkpoints, and says that it mounts nothing."""
    options = {"sandbox_runtime": "process"}
    async with running_platform(tmp_path, **options) as running, Boxes(running) as boxes:
        await volume(boxes)
        made = await boxes.create(volumes=[mount("v")])
        found = await boxes.until(made, "ERROR")
        assert "mounts no volumes" in found["errorMessage"]
        box = await boxes.running()
        await boxes.sh(box, "pwd; echo kept > f")
        kept = (await boxes.post(f"/sandbox/{box}/checkpoints")).json["id"]
        assert (await settled(boxes, kept))["state"] == "DURABLE"
        again = await boxes.running(docker_image=None, checkpoint_id=kept)
        assert await boxes.sh(again, "cat f") == "kept\n"
        await boxes.end_all()
