"""Ways into sandboxes: exposed ports and SSH sessions."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from prime_async import (
    APIError,
    AsyncSandboxClient,
    CreateSandboxRequest,
    NotFoundError,
    SandboxNotFoundError,
    UsageError,
)
from tests.extras_double import ExtrasDouble
from tests.faces import Face, both_faces

REQUEST = CreateSandboxRequest(name="x", docker_image="python:3.11")
KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY\n-----END OPENSSH PRIVATE KEY-----"


@both_faces
async def test_the_life_of_an_exposed_port(face: Face, extras: ExtrasDouble) -> None:
    """Open, find, close; a name and a protocol are passed on."""
    async with face.AsyncSandboxClient("key", base_url=extras.url) as client:
        box = await client.create(REQUEST)
        web = await client.expose(box.id, 8000)
        tcp = await client.expose(box.id, 5432, "db", "TCP")
        assert web.url.startswith("https://")
        found = await client.list_exposed_ports(box.id)
        assert [(each.port, each.name) for each in found.exposures] == [(8000, None), (5432, "db")]
        assert (await client.list_all_exposed_ports()).exposures == found.exposures
        await client.unexpose(box.id, web.exposure_id)
        with pytest.raises(NotFoundError, match=f"there is no exposed port {web.exposure_id}"):
            await client.unexpose(box.id, web.exposure_id)
        assert list(extras.exposures) == [tcp.exposure_id]
    sent = [each.json for each in extras.requests("POST", "/expose")]
    assert sent == [
        {"port": 8000, "protocol": "HTTP"},
        {"port": 5432, "name": "db", "protocol": "TCP"},
    ]


async def test_an_unknown_outcome_opens_no_second_port(
    extras: ExtrasDouble, wide: AsyncSandboxClient
) -> None:
    """What is there afterwards is looked at, and nothing is sent twice."""
    box = await wide.create(REQUEST)
    extras.fault("POST", "/expose", does="reset")
    made = await wide.expose(box.id, 8000)
    assert list(extras.exposures) == [made.exposure_id]


@both_faces
async def test_the_life_of_an_ssh_session(face: Face, extras: ExtrasDouble) -> None:
    """A public key in, host and port out."""
    async with face.AsyncSandboxClient("key", base_url=extras.url) as client:
        box = await client.create(REQUEST)
        session = await client.create_ssh_session(box.id, f" {KEY} me@here\n", ttl_seconds=60)
        assert (session.host, session.port, session.ttl_seconds) == ("ssh.example.com", 2222, 60)
        await client.close_ssh_session(box.id, session.session_id)
        with pytest.raises(NotFoundError, match=f"there is no SSH session {session.session_id}"):
            await client.close_ssh_session(box.id, session.session_id)
    [sent] = extras.requests("POST", "/ssh-session")
    assert sent.json == {"public_key": f"{KEY} me@here", "ttl_seconds": 60}


async def test_an_ssh_session_is_not_asked_for_twice(
    extras: ExtrasDouble, wide: AsyncSandboxClient
) -> None:
    """There is no list of them to look at: the error says that it may be there."""
    box = await wide.create(REQUEST)
    extras.fault("POST", "/ssh-session", does="reset")
    with pytest.raises(APIError) as caught:
        await wide.create_ssh_session(box.id, KEY)
    assert caught.value.ambiguous
    assert len(extras.sessions) == 1


@pytest.mark.parametrize(
    "key",
    [
        PRIVATE,
        "",
        "ssh-ed25519",
        "ssh-ed25519 CANARY!",
        KEY.replace("ssh-ed25519", "ssh-rsa", 1),
        f"{KEY}\n{KEY}",
        "ssh-ed25519 " + base64.b64encode(b"\0\0\0\xffssh").decode(),
        7,
    ],
)
async def test_only_a_public_key_leaves_this_machine(
    extras: ExtrasDouble, wide: AsyncSandboxClient, key: Any
) -> None:
    """Everything else is refused unsent, and not repeated in the message."""
    with pytest.raises(UsageError) as caught:
        await wide.create_ssh_session("box", key)
    assert caught.value.field == "public_key"
    assert "CANARY" not in str(caught.value)
    assert extras.seen == []


@pytest.mark.parametrize(
    ("call", "arguments", "field"),
    [
        ("expose", ["", 80], "sandbox_id"),
        ("expose", ["box", 0], "port"),
        ("expose", ["box", 65536], "port"),
        ("expose", ["box", "80"], "port"),
        ("expose", ["box", True], "port"),
        ("expose", ["box", 80, "n", "UDP"], "protocol"),
        ("expose", ["box", 80, "n", None], "protocol"),
        ("unexpose", ["box", ""], "exposure_id"),
        ("list_exposed_ports", ["."], "sandbox_id"),
        ("create_ssh_session", ["box", KEY, 0], "ttl_seconds"),
        ("create_ssh_session", ["", KEY], "sandbox_id"),
        ("close_ssh_session", ["box", "a/b"], "session_id"),
    ],
)
async def test_bad_arguments_send_nothing(
    extras: ExtrasDouble, wide: AsyncSandboxClient, call: str, arguments: list[Any], field: str
) -> None:
    """Refused by name, before anything is sent."""
    with pytest.raises(UsageError) as caught:
        await getattr(wide, call)(*arguments)
    assert caught.value.field == field
    assert extras.seen == []


async def test_a_sandbox_that_is_not_there(wide: AsyncSandboxClient) -> None:
    """Says so, and which."""
    with pytest.raises(SandboxNotFoundError, match="there is no sandbox nobody"):
        await wide.list_exposed_ports("nobody")
