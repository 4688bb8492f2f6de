"""Volumes: ``client.volumes`` on both faces, over the client's own connection."""

from __future__ import annotations

from typing import Any

import pytest

from prime_async import (
    AsyncSandboxClient,
    ConflictError,
    CreateSandboxRequest,
    NotFoundError,
    UsageError,
    VolumeMount,
)
from tests.extras_double import ExtrasDouble
from tests.faces import Face, both_faces

DATA = VolumeMount(name="data", mount_path="/data")
REQUEST = CreateSandboxRequest(name="x", docker_image="python:3.11", volumes=[DATA])


@both_faces
async def test_the_life_of_a_volume(face: Face, extras: ExtrasDouble) -> None:
    """Make, mount, publish and wait, find, delete."""
    async with face.AsyncSandboxClient("key", base_url=extras.url, team_id="t1") as client:
        made = await client.volumes.create("data")
        assert (made.name, made.team_id, made.head_checkpoint_id) == ("data", "t1", None)
        with pytest.raises(ConflictError):
            await client.volumes.create("data")
        box = await client.create(REQUEST)
        sent = extras.requests("POST", "/sandbox")[0].json
        assert sent["volumes"] == [{"name": "data", "mount_path": "/data", "read_only": False}]
        version = await client.volumes.publish(box.id, "data")
        assert version.state == "DURABLE"
        assert (await client.volumes.get("data")).head_checkpoint_id == version.id
        begun = await client.volumes.publish(box.id, "data", force=True, wait=False)
        assert begun.state == "PENDING"
        bodies = [each.json for each in extras.requests("POST", "/publish")]
        assert bodies == [{"force": False}, {"force": True}]
        await client.volumes.delete("data")
        with pytest.raises(NotFoundError, match="there is no volume data"):
            await client.volumes.get("data")


@both_faces
async def test_lists_are_read_page_by_page(face: Face, extras: ExtrasDouble) -> None:
    """Those of the client's team, of another, of none."""
    async with face.AsyncSandboxClient("key", base_url=extras.url, team_id="t1") as client:
        for name in ("a", "b", "c"):
            await client.volumes.create(name)
        await client.volumes.create("mine", team_id="")
        found = await client.volumes.list(per_page=2)
        assert ([each.name for each in found.volumes], found.has_next) == (["a", "b"], True)
        assert [each.name async for each in client.volumes.iter(page_size=2)] == ["a", "b", "c"]
        assert [each.name for each in (await client.volumes.list(team_id="")).volumes] == ["mine"]


async def test_an_unknown_outcome_is_looked_up(
    extras: ExtrasDouble, wide: AsyncSandboxClient
) -> None:
    """One volume, one version, and nothing is sent twice."""
    extras.fault("POST", "/volumes", does="reset")
    assert (await wide.volumes.create("data")).id == extras.volumes["data"]["id"]
    box = await wide.create(REQUEST)
    extras.fault("POST", "/publish", does="reset")
    version = await wide.volumes.publish(box.id, "data", wait=False)
    assert list(extras.checkpoints) == [version.id]
    with pytest.raises(NotFoundError, match=f"no volume other that sandbox {box.id} may write"):
        await wide.volumes.publish(box.id, "other")


async def test_data_that_are_still_being_removed(
    extras: ExtrasDouble, wide: AsyncSandboxClient
) -> None:
    """503 is waited out, and a volume that an earlier try deleted is gone."""
    await wide.volumes.create("data")
    extras.fault("DELETE", "/volumes/data", status=503)
    await wide.volumes.delete("data")
    await wide.volumes.create("data")
    extras.fault("DELETE", "/volumes/data", does="reset")
    await wide.volumes.delete("data")
    assert extras.volumes == {}


@pytest.mark.parametrize(
    ("call", "arguments", "options", "field"),
    [
        ("create", [""], {}, "name"),
        ("create", ["a/b"], {}, "name"),
        ("get", [".."], {}, "name"),
        ("delete", [7], {}, "name"),
        ("list", [], {"page": 0}, "page"),
        ("list", [], {"per_page": 101}, "per_page"),
        ("publish", ["", "data"], {}, "sandbox_id"),
        ("publish", ["box", ""], {}, "name"),
        ("publish", ["box", "data", "yes"], {}, "force"),
    ],
)
async def test_bad_arguments_send_nothing(
    extras: ExtrasDouble,
    wide: AsyncSandboxClient,
    call: str,
    arguments: list[Any],
    options: dict[str, Any],
    field: str,
) -> None:
    """Refused by name, before anything is sent."""
    with pytest.raises(UsageError) as caught:
        await getattr(wide.volumes, call)(*arguments, **options)
    assert caught.value.field == field
    assert extras.seen == []
