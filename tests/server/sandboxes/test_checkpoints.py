"""Checkpoints over real sandboxes: what is in them, what they allow, what a crash leaves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_async.server.runtimes import snapshots
from tests.platform import RunningPlatform, running_platform
from tests.server.sandboxes.boxes import Boxes
from tests.server.sandboxes.usable import needs_bubblewrap
from tests.server.wire import Wire

pytestmark = [needs_bubblewrap, pytest.mark.asyncio(loop_scope="module")]

OTHER_KEY = "pit_test_other_0123456789abcdef0123456789"


async def settled(boxes: Wire, checkpoint_id: str) -> dict[str, Any]:
    """Wait until a checkpoint is no longer pending."""
    with anyio.fail_after(30):
        while True:
            found: dict[str, Any] = (await boxes.get(f"/sandbox/checkpoints/{checkpoint_id}")).json
            if found["state"] != "PENDING":
                return found
            await anyio.sleep(0.02)


async def checkpoint(boxes: Boxes, sandbox_id: str) -> dict[str, Any]:
    """Make a checkpoint that has to be durable."""
    reply = await boxes.post(f"/sandbox/{sandbox_id}/checkpoints")
    assert (reply.status, reply.json["state"]) == (200, "PENDING"), reply
    found = await settled(boxes, reply.json["id"])
    assert found["state"] == "DURABLE", found
    return found


async def restored(boxes: Boxes, checkpoint_id: str, **fields: Any) -> str:
    """A sandbox made from a checkpoint."""
    return await boxes.running(docker_image=None, checkpoint_id=checkpoint_id, **fields)


_CHANGES = """
set -e
echo app > /app/f; mkdir -p /app/d/e; chmod 700 /app/d; echo deep > /app/d/e/g
echo tmp > /tmp/t; echo home > /root/.profile; mkdir -p /workspace/w; echo w > /workspace/w/x
ln -s ../f /app/d/link; ln -s /etc/passwd /app/abs; ln /app/f /app/hard
truncate -s 100M /app/sparse; printf end >> /app/sparse
printf 'name with \\n and \\351' > "/app/$(printf 'odd\\nname\\351')"
chmod 4751 /app/f; touch -d @1000000000 /app/d/e/g; mkfifo /app/pipe; rm /etc/group; mkdir /srv
"""

_SEEN = """
cd /app; cat f d/e/g /tmp/t /root/.profile /workspace/w/x; readlink d/link abs
stat -c '%a %h %n' f hard; stat -c '%s %b' sparse; tail -c 3 sparse; echo
stat -c %Y d/e/g; stat -c %a d; ls -b | grep odd; test -p pipe; test ! -e /etc/group; test -d /srv
python -c 'import ssl; print("python")'; ls -ld /.prime >/dev/null
"""


async def test_all_that_its_user_changed_comes_back(isolated: Boxes) -> None:
    """Contents, modes, times, links, holes, odd names, what was deleted; image and disk size."""
    box = await isolated.running(disk_size_gb=2.0, docker_image="debian:12")
    await isolated.sh(box, _CHANGES)
    before = await isolated.sh(box, _SEEN)
    made = await checkpoint(isolated, box)
    assert (made["sandbox_id"], made["parent_id"], made["depth"]) == (box, None, 0)
    assert (made["docker_image"], made["disk_size_bytes"]) == ("debian:12", 2 * 1024**3)
    assert 0 < made["stored_bytes"] < 1024**2, "holes are kept as holes"
    await isolated.sh(box, "rm -rf /app/d; echo changed > /app/f")
    again = await restored(isolated, made["id"])
    assert await isolated.sh(again, _SEEN) == before
    found = (await isolated.get(f"/sandbox/{again}")).json
    assert (found["dockerImage"], found["diskSizeGB"]) == ("debian:12", 2.0)
    assert await isolated.sh(box, "cat /app/f") == "changed\n"


async def test_each_follows_the_one_before(isolated: Boxes) -> None:
    """Parents and depth, over a restore too; lists are oldest first, and can be narrowed."""
    box = await isolated.running()
    first, second = await checkpoint(isolated, box), await checkpoint(isolated, box)
    assert (second["parent_id"], second["depth"]) == (first["id"], 1)
    again = await restored(isolated, first["id"])
    third = await checkpoint(isolated, again)
    assert (third["parent_id"], third["depth"]) == (first["id"], 1)
    listed = (await isolated.get(f"/sandbox/{box}/checkpoints")).json["checkpoints"]
    assert listed == [first, second]
    params = {"checkpoint_id": second["id"]}
    listed = (await isolated.get(f"/sandbox/{box}/checkpoints", params=params)).json
    assert listed == {"checkpoints": [second]}
    body = {"checkpoint_ids": [third["id"], "nothing", first["id"]]}
    many = (await isolated.post("/sandbox/checkpoints:batchGet", body)).json
    assert many["checkpoints"] == [third, first]
    assert [(one["checkpoint_id"], one["code"]) for one in many["errors"]] == [
        ("nothing", "NOT_FOUND")
    ]


async def test_what_is_in_use_is_not_deleted(isolated: Boxes) -> None:
    """The newest of a running sandbox, and what a running one was made from; else they go."""
    platform: RunningPlatform = isolated.platform
    box = await isolated.running()
    first, tip = await checkpoint(isolated, box), await checkpoint(isolated, box)
    again = await restored(isolated, first["id"])
    for used in (first, tip):
        reply = await isolated.delete(f"/sandbox/checkpoints/{used['id']}")
        assert (reply.status, reply.code) == (409, "checkpoint_in_use")
    await isolated.delete(f"/sandbox/{again}")
    reply = await isolated.delete(f"/sandbox/{box}/checkpoints")
    assert reply.json["deleted"] == [first["id"]]
    assert [(one["checkpoint_id"], one["code"]) for one in reply.json["errors"]] == [
        (tip["id"], "CONFLICT")
    ]
    await isolated.delete(f"/sandbox/{box}")
    assert (await isolated.delete(f"/sandbox/checkpoints/{tip['id']}")).status == 204
    for gone in (first, tip):
        assert (await isolated.get(f"/sandbox/checkpoints/{gone['id']}")).status == 404
        assert (await isolated.delete(f"/sandbox/checkpoints/{gone['id']}")).status == 404
    assert list(platform.config.checkpoints_dir.iterdir()) == []


async def test_only_its_owner_sees_a_checkpoint(isolated: Boxes) -> None:
    """Another account can neither read, nor delete, nor restore it."""
    box = await isolated.running()
    made = await checkpoint(isolated, box)
    platform: RunningPlatform = isolated.platform
    await platform.parts.keys.add_account("other", "Other", OTHER_KEY)
    async with Wire(platform.url, OTHER_KEY) as other:
        assert (await other.get(f"/sandbox/checkpoints/{made['id']}")).status == 404
        assert (await other.delete(f"/sandbox/checkpoints/{made['id']}")).status == 404
        assert (await other.get(f"/sandbox/{box}/checkpoints")).status == 404
        assert (await other.post(f"/sandbox/{box}/checkpoints")).status == 404
        body = {"name": "theirs", "checkpoint_id": made["id"]}
        assert (await other.post("/sandbox", body)).code == "checkpoint_not_found"


_WRITER = """
import itertools, os
for n in itertools.count():
    for name in ("/app/zz", "/app/aa"):
        with open("/tmp/new", "w") as f:
            f.write(str(n))
        os.rename("/tmp/new", name)
"""


async def test_processes_stand_still_meanwhile_and_go_on(isolated: Boxes) -> None:
    """Two files that a process writes one after the other fit together in the checkpoint."""
    box = await isolated.running()
    await isolated.sh(box, "for n in $(seq 300); do head -c 20000 /dev/zero > /app/m$n; done")
    await isolated.sh(box, f"cat > /app/w.py <<'END'\n{_WRITER}END")
    await isolated.sh(
        box, "(python /app/w.py >/dev/null 2>&1 &); until test -e /app/aa; do :; done"
    )
    made = await checkpoint(isolated, box)
    seen = int(await isolated.sh(box, "cat /app/zz"))
    assert int(await isolated.sh(box, "sleep 0.05; cat /app/zz")) > seen, "it goes on"
    again = await restored(isolated, made["id"])
    first, second = (await isolated.sh(again, "cat /app/zz; echo; cat /app/aa")).split()
    assert int(first) - int(second) in {0, 1}


async def test_one_at_a_time_and_only_of_what_runs(isolated: Boxes) -> None:
    """A second one is refused while the first is made; an ended sandbox has no files."""
    box = await isolated.running()
    await isolated.sh(box, "head -c 30000000 /dev/urandom > /app/f")
    first = await isolated.post(f"/sandbox/{box}/checkpoints")
    second = await isolated.post(f"/sandbox/{box}/checkpoints")
    assert (second.status, second.code) == (409, "checkpoint_pending")
    pending = await isolated.delete(f"/sandbox/checkpoints/{first.json['id']}")
    assert (pending.status, pending.code) == (409, "checkpoint_in_use")
    assert (await settled(isolated, first.json["id"]))["state"] == "DURABLE"
    await isolated.delete(f"/sandbox/{box}")
    reply = await isolated.post(f"/sandbox/{box}/checkpoints")
    assert (reply.status, reply.code) == (409, "sandbox_not_running")


async def test_without_gnu_tar_it_is_refused_with_the_remedy(
    isolated: Boxes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At once, and nothing of it is stored; another program of that name is no help."""
    other = tmp_path / "tar"
    other.write_text("#!/bin/sh\necho 'tar (busybox) 1.36.1'\n")
    other.chmod(0o755)
    box = await isolated.running()
    monkeypatch.setattr(snapshots, "_TARS", (str(other), str(tmp_path / "none")))
    snapshots.find_tar.cache_clear()
    try:
        reply = await isolated.post(f"/sandbox/{box}/checkpoints")
    finally:
        snapshots.find_tar.cache_clear()
    assert (reply.status, reply.code) == (501, "tar_missing")
    assert "install the package tar" in reply.json["detail"]
    assert (await isolated.get(f"/sandbox/{box}/checkpoints")).json == {"checkpoints": []}


async def test_a_repeated_request_makes_one_checkpoint(isolated: Boxes) -> None:
    """Under an idempotency key."""
    box = await isolated.running()
    headers = {"Idempotency-Key": "one"}
    replies = [
        await isolated.post(f"/sandbox/{box}/checkpoints", headers=headers) for _ in range(2)
    ]
    assert replies[0].json == replies[1].json
    await settled(isolated, replies[0].json["id"])
    listed = (await isolated.get(f"/sandbox/{box}/checkpoints")).json["checkpoints"]
    assert [one["id"] for one in listed] == [replies[0].json["id"]]


async def test_a_sandbox_that_ends_meanwhile_leaves_a_failed_checkpoint(isolated: Boxes) -> None:
    """It says why, cannot be restored, and nothing of it is stored."""
    platform: RunningPlatform = isolated.platform
    box = await isolated.running()
    await isolated.sh(box, "head -c 200000000 /dev/zero > /app/f")
    made = (await isolated.post(f"/sandbox/{box}/checkpoints")).json["id"]
    await isolated.delete(f"/sandbox/{box}")
    found = await settled(isolated, made)
    assert (found["state"], found["error"]) == ("FAILED", "the sandbox ended while it was made")
    reply = await isolated.post("/sandbox", {"name": "again", "checkpoint_id": made})
    assert (reply.status, reply.code) == (409, "checkpoint_not_durable")
    assert list(platform.config.checkpoints_dir.iterdir()) == []
    assert (await isolated.delete(f"/sandbox/checkpoints/{made}")).status == 204


async def test_checkpoints_are_bounded(tmp_path: Path) -> None:
    """In bytes, with a failed one that says so, and in number."""
    limits = {"checkpoint_bytes": 3_000_000, "checkpoints": 2}
    async with running_platform(tmp_path, limits=limits) as running, Boxes(running) as boxes:
        box = await boxes.running()
        await boxes.sh(box, "head -c 2000000 /dev/urandom > /app/f")
        await checkpoint(boxes, box)
        made = (await boxes.post(f"/sandbox/{box}/checkpoints")).json["id"]
        found = await settled(boxes, made)
        assert found["state"] == "FAILED"
        assert "delete some" in found["error"]
        reply = await boxes.post(f"/sandbox/{box}/checkpoints")
        assert (reply.status, reply.code) == (429, "too_many_checkpoints")
        await boxes.end_all()


async def test_a_disk_that_is_nearly_full(isolated: Boxes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The floor under the free space holds for checkpoints too; the sandbox goes on."""
    box = await isolated.running()
    monkeypatch.setattr("prime_async.server.sandboxes.checkpoints.FREE_BYTES", 2**62)
    made = (await isolated.post(f"/sandbox/{box}/checkpoints")).json["id"]
    found = await settled(isolated, made)
    assert found["state"] == "FAILED"
    assert "the machine's disk has less than" in found["error"]
    monkeypatch.undo()
    await checkpoint(isolated, box)


@pytest.mark.slow
async def test_an_archive_that_was_spoilt_is_not_restored_by_half(isolated: Boxes) -> None:
    """Cut or missing: the sandbox ends with the reason, and nothing of it is left."""
    box = await isolated.running()
    await isolated.sh(box, "head -c 1000000 /dev/urandom > /app/f")
    made = (await checkpoint(isolated, box))["id"]
    parts = isolated.platform.parts.sandboxes
    os.truncate(parts.checkpoints.archive(made), 500_000)
    for _ in range(2):
        broken = await isolated.create(docker_image=None, checkpoint_id=made)
        found = await isolated.until(broken, "ERROR")
        assert found["errorType"] == "START_FAILED"
        assert "files" in found["errorMessage"]
        assert not (isolated.platform.config.sandboxes_dir / broken).exists()
        parts.checkpoints.archive(made).unlink(missing_ok=True)


async def test_a_restored_root_cannot_lead_the_platform_astray(
    isolated: Boxes, tmp_path: Path
) -> None:
    """Links in the places where the platform mounts, or a user's volume, are not followed."""
    target = tmp_path / "host"
    target.mkdir()
    target.chmod(0o777)
    box = await isolated.running()
    # From outside: inside, these places are busy.
    root = Path(isolated.platform.parts.sandboxes.fleet.live[box].running.record.folder) / "root"
    for name in ("proc", ".prime", "usr"):
        os.rmdir(root / name)
        (root / name).symlink_to(f"/oldroot{target}/{name}")
    (root / "data").symlink_to(target)
    made = await checkpoint(isolated, box)
    again = await restored(isolated, made["id"])
    assert await isolated.sh(again, "test -d /proc/self && readlink /data") == f"{target}\n"
    await isolated.post("/sandbox/volumes", {"name": "v"})
    volumes = [{"name": "v", "mount_path": "/data/in"}]
    refused = await isolated.create(docker_image=None, checkpoint_id=made["id"], volumes=volumes)
    found = await isolated.until(refused, "ERROR")
    assert "data is a link" in found["errorMessage"]
    assert list(target.iterdir()) == []


async def test_what_its_user_closed_to_himself(isolated: Boxes) -> None:
    """A server that is root reads it all the same; another one names it, and drops nothing."""
    box = await isolated.running()
    await isolated.sh(box, "mkdir /app/closed; echo in > /app/closed/f; chmod 0 /app/closed")
    made = (await isolated.post(f"/sandbox/{box}/checkpoints")).json["id"]
    found = await settled(isolated, made)
    if os.geteuid() != 0:
        assert found["state"] == "FAILED"
        assert "/app/closed: Cannot open: Permission denied" in found["error"]
        return
    again = await restored(isolated, made)
    seen = await isolated.sh(
        again, "stat -c %a /app/closed; chmod 700 /app/closed; cat /app/closed/f"
    )
    assert seen == "0\nin\n"


@pytest.mark.parametrize("ids", [[], ["a", "a"], [str(n) for n in range(101)], [""], ["x" * 65]])
async def test_bad_look_ups_are_refused(isolated: Boxes, ids: list[str]) -> None:
    """None, one twice, more than 100, names that are none."""
    reply = await isolated.post("/sandbox/checkpoints:batchGet", {"checkpoint_ids": ids})
    assert reply.status == 422
