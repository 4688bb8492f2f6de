"""Checkpoints, volumes, exposed ports and policies on the embedded platform, through both faces."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest

from prime_async import (
    AsyncSandboxClient,
    BadRequestError,
    ConflictError,
    CreateSandboxRequest,
    NotFoundError,
    NotImplementedByPlatformError,
    VolumeMount,
)
from tests.faces import Face, both_faces
from tests.platform import KEY, ProcessPlatform
from tests.server.sandboxes.usable import needs_bubblewrap

pytestmark = needs_bubblewrap

REQUEST = CreateSandboxRequest(name="box", docker_image="python:3.11")
SERVE = "nohup python3 -m http.server 8000 --directory /app >/dev/null 2>&1 & "
UP = "until python3 -c 'import socket; socket.create_connection((\"localhost\", 8000))'; do :; done"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPlatform]:
    """A platform in a process of its own, for all tests here."""
    with ProcessPlatform(tmp_path_factory.mktemp("platform")) as running:
        yield running


@both_faces
async def test_a_checkpoint_holds_what_was_there(face: Face, platform: ProcessPlatform) -> None:
    """Files and rights as they were; the sandbox goes on, and another begins from it."""
    async with face.AsyncSandboxClient(KEY, base_url=platform.url) as client:
        async with client.sandbox(REQUEST) as box:
            await client.execute_command(box.id, "printf one > a; chmod 700 a; mkdir -p /opt/x")
            kept = await client.wait_for_checkpoint((await client.checkpoint(box.id)).id)
            assert (kept.state, kept.sandbox_id) == ("DURABLE", box.id)
            await client.execute_command(box.id, "printf two > a")
            assert (await client.read_file(box.id, "/app/a")).content == "two"
            assert [each.id for each in await client.list_checkpoints(box.id)] == [kept.id]
            with pytest.raises(ConflictError):
                await client.delete_checkpoint(kept.id)
        again = CreateSandboxRequest(name="again", checkpoint_id=kept.id)
        async with client.sandbox(again) as restored:
            seen = await client.execute_command(restored.id, "cat a; stat -c %a a; ls /opt")
            assert seen.stdout == "one700\nx\n"
        outcome = await client.delete_sandbox_checkpoints(box.id)
        assert (outcome.deleted, outcome.errors) == ([kept.id], [])
        found = await client.get_checkpoints([kept.id])
        assert [error.code for error in found.errors] == ["NOT_FOUND"]


async def test_many_are_made_and_waited_for_side_by_side(platform: ProcessPlatform) -> None:
    """A checkpoint of each sandbox, and one more: each durable, the later after the earlier."""
    async with AsyncSandboxClient(KEY, base_url=platform.url) as client:
        boxes = [(await client.create(REQUEST)).id for _ in range(4)]
        await client.bulk_wait_for_creation(boxes)
        rounds = []
        for _ in range(2):
            begun = await asyncio.gather(*map(client.checkpoint, boxes))
            ids = [each.id for each in begun]
            rounds.append(await asyncio.gather(*map(client.wait_for_checkpoint, ids)))
        for box, first, second in zip(boxes, *rounds, strict=True):
            assert [each.id for each in await client.list_checkpoints(box)] == [first.id, second.id]
            assert second.parent_id == first.id
            await client.delete(box)


@both_faces
async def test_a_volume_is_shared_by_versions(face: Face, platform: ProcessPlatform) -> None:
    """What was published is seen by new sandboxes, to write or only to read."""
    name = f"data-{uuid.uuid4().hex[:8]}"
    mount = VolumeMount(name=name, mount_path="/data")
    only = VolumeMount(name=name, mount_path="/data", read_only=True)
    async with face.AsyncSandboxClient(KEY, base_url=platform.url) as client:
        await client.volumes.create(name)
        with pytest.raises(ConflictError):
            await client.volumes.create(name)
        request = CreateSandboxRequest(name="w", docker_image="python:3.11", volumes=[mount])
        reading = CreateSandboxRequest(name="r", docker_image="python:3.11", volumes=[only])
        async with client.sandbox(request) as writer:
            await client.upload_bytes(writer.id, "/data/f", b"first")
            version = await client.volumes.publish(writer.id, name)
            assert (await client.volumes.get(name)).head_checkpoint_id == version.id
            async with client.sandbox(reading) as reader:
                assert (await client.read_file(reader.id, "/data/f")).content == "first"
                with pytest.raises(BadRequestError):
                    await client.volumes.publish(reader.id, name)
            with pytest.raises(NotFoundError, match="there is no volume other"):
                await client.volumes.publish(writer.id, "other")
        assert name in [volume.name async for volume in client.volumes.iter(page_size=1)]
        await client.volumes.delete(name)
        with pytest.raises(NotFoundError, match=f"there is no volume {name}"):
            await client.volumes.get(name)


@both_faces
async def test_a_port_answers_outside(face: Face, platform: ProcessPlatform) -> None:
    """HTTP by its address; closed, it answers no more."""
    async with (
        face.AsyncSandboxClient(KEY, base_url=platform.url) as client,
        client.sandbox(REQUEST) as box,
    ):
        await client.upload_bytes(box.id, "/app/hello", b"from inside")
        await client.execute_command(box.id, SERVE + UP)
        exposed = await client.expose(box.id, 8000, "web")
        url = f"{exposed.url.rstrip('/')}/hello"
        assert await fetched(url) == "from inside"
        assert exposed in (await client.list_exposed_ports(box.id)).exposures
        assert exposed in (await client.list_all_exposed_ports()).exposures
        await client.unexpose(box.id, exposed.exposure_id)
        assert await fetched(url) != "from inside"


async def fetched(url: str) -> str:
    """What a program outside gets."""
    command = ("curl", "-s", "--max-time", "10", url)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return out.decode()


@both_faces
async def test_a_policy_is_in_force(face: Face, platform: ProcessPlatform) -> None:
    """Denied, allowed: the platform says when it applies."""
    async with (
        face.AsyncSandboxClient(KEY, base_url=platform.url) as client,
        client.sandbox(REQUEST) as box,
    ):
        closed = await client.set_network(box.id, deny=["*"])
        assert (closed.policy.allowlist, closed.policy.denylist) == ([], None)
        assert (await client.get_network(box.id)).applied
        reach = f"curl -s --max-time 5 {platform.url}/"
        assert (await client.execute_command(box.id, reach)).exit_code != 0


@both_faces
async def test_what_it_does_not_have_is_said(face: Face, platform: ProcessPlatform) -> None:
    """Networks, SSH and images: 501, typed, never ambiguous, with the way out."""
    async with face.AsyncSandboxClient(KEY, base_url=platform.url) as client:
        with pytest.raises(NotImplementedByPlatformError) as caught:
            await client.create_lan_network("n")
        assert not caught.value.ambiguous
        assert caught.value.hint
    async with face.AsyncImageClient(KEY, base_url=platform.url) as images:
        with pytest.raises(NotImplementedByPlatformError):
            await images.list()
