"""Field reports, group G: retries and expiring credentials of sandboxes."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from prime_async import (
    APIConnectionError,
    AsyncSandboxClient,
    CreateSandboxRequest,
    UnauthorizedError,
)
from tests.sandbox_double import SandboxDouble


async def test_FR27_create_is_one_sandbox(
    client: AsyncSandboxClient, double: SandboxDouble
) -> None:
    """The answer is lost: sent again with the same key, and one sandbox exists."""
    double.fault("POST", "/sandbox", does="reset")
    box = await client.create(CreateSandboxRequest(name="x", docker_image="i"))
    sent = double.requests("POST", "/sandbox")
    assert len(sent) == 2
    assert sent[0].json == sent[1].json
    assert list(double.sandboxes) == [box.id]


async def test_FR27_exec_is_sent_once(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """The answer is lost: not repeated, and the error says that it may have been carried out."""
    mark = tmp_path / "mark"
    double.lost_starts = 1
    with pytest.raises(APIConnectionError, match="may have been carried out") as caught:
        await client.execute_command(box, f"echo x >> {mark}")
    assert caught.value.ambiguous
    assert len(double.requests("POST", "/Start")) == 1
    assert mark.read_text() == "x\n"


async def test_FR27_exec_that_was_refused_is_sent_again(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """A 429 says that nothing was done."""
    double.fault("POST", "/Start", status=429, headers={"Retry-After": "0"})
    assert (await client.execute_command(box, "echo x")).stdout == "x\n"


async def test_FR27_exec_in_a_container_is_sent_once(
    client: AsyncSandboxClient, double: SandboxDouble, tmp_path: Path
) -> None:
    """The same over REST."""
    box = await client.create(CreateSandboxRequest(name="x", docker_image="i", vm=False))
    double.fault("POST", "/exec", does="reset")
    with pytest.raises(APIConnectionError, match="may have been carried out"):
        await client.execute_command(box.id, f"echo x >> {tmp_path / 'mark'}")
    assert (tmp_path / "mark").read_text() == "x\n"


async def test_FR27_uploads_and_deletes_may_repeat(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """The same bytes under the same name, and an end that is an end, may be sent again."""
    double.fault("POST", "/upload", does="reset")
    await client.upload_bytes(box, str(double.folder / "f"), b"abc")
    assert (double.folder / "f").read_bytes() == b"abc"
    double.fault("DELETE", box, does="reset")
    await client.delete(box)
    assert double.live == []


async def test_FR28_short_tokens_are_renewed(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """A token lives half a second, the work three: it finishes, with few renewals."""
    double.token_seconds = 0.5
    for _ in range(30):
        assert (await client.execute_command(box, "echo x")).exit_code == 0
        await asyncio.sleep(0.05)
    assert len(double.requests("POST", "/auth")) <= 12


async def test_FR28_one_renewal_for_50_waiters(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """A token that the gateway no longer takes is renewed once for everybody."""
    await client.execute_command(box, "true")
    double.refused_tokens.update(double.tokens)
    results = await asyncio.gather(*(client.execute_command(box, "echo x") for _ in range(50)))
    assert {result.stdout for result in results} == {"x\n"}
    assert len(double.requests("POST", "/auth")) == 2


async def test_FR28_a_second_refusal_is_an_error(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """Two refusals in a row: a clear error, no loop."""
    double.fault("POST", "/Start", status=401, json={"code": "unauthenticated"}, times=100)
    with pytest.raises(UnauthorizedError, match="made just now"):
        await client.execute_command(box, "true")
    assert len(double.requests("POST", "/Start")) == 2
    assert len(double.requests("POST", "/auth")) == 2


async def test_FR57_tokens_are_in_no_text(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """Neither reprs nor errors show a token or the key."""
    double.fault("POST", "/Start", status=403, json={"code": "permission_denied"})
    with pytest.raises(Exception, match="permission") as caught:
        await client.execute_command(box, "true")
    access = await client._gateway.tokens.get(box)
    link = await client._gateway.link(box)
    texts = [repr(thing) for thing in (client, access, link, caught.value, vars(caught.value))]
    assert not re.search(r"token-[0-9a-f]{8}|CANARY", " ".join([*texts, str(caught.value)]))
