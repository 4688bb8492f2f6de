"""Tokens: in memory, on disk, one request per sandbox."""

from __future__ import annotations

import asyncio
import json
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from prime_async import AsyncSandboxClient, CreateSandboxRequest, ProtocolError
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.expiry import expiry_of
from prime_async.sandboxes.models import GatewayAccess
from prime_async.sandboxes.tokenfile import MAX_STORED, TokenFile
from prime_async.sandboxes.tokens import TokenCache, account_of
from tests.sandbox_double import SandboxDouble


def _access(seconds: float = 3600, token: str = "t") -> GatewayAccess:
    ends = datetime.now(UTC) + timedelta(seconds=seconds)
    return GatewayAccess(
        gateway_url="http://127.0.0.1:1",
        user_ns="n",
        job_id="j",
        token=token,
        expires_at=ends.isoformat(),
    )


class _Platform:
    def __init__(self, seconds: float = 3600) -> None:
        self.asked: list[str] = []
        self.seconds = seconds
        self.pause = 0.0

    async def authorize(self, sandbox_id: str) -> GatewayAccess:
        self.asked.append(sandbox_id)
        await asyncio.sleep(self.pause)
        return _access(self.seconds, f"token-{sandbox_id}-{len(self.asked)}")


def _cache(platform: _Platform, file: TokenFile | None = None, account: str = "a") -> TokenCache:
    return TokenCache(platform.authorize, lambda: account, Background(), file)


async def test_one_request_per_sandbox_for_all_who_wait() -> None:
    """Waiters of one sandbox share a request; other sandboxes do not wait for it."""
    platform = _Platform()
    platform.pause = 0.05
    cache = _cache(platform)
    began = time.monotonic()
    found = await asyncio.gather(*(cache.get(f"s{n % 10}") for n in range(500)))
    assert time.monotonic() - began < 1
    assert sorted(platform.asked) == sorted({f"s{n}" for n in range(10)})
    assert len({access.token for access in found}) == 10


async def test_another_waiter_asks_when_the_first_one_leaves() -> None:
    """A cancelled request is nobody's answer."""
    platform = _Platform()
    platform.pause = 0.2
    cache = _cache(platform)
    first = asyncio.create_task(cache.get("s"))
    second = asyncio.create_task(cache.get("s"))
    await asyncio.sleep(0.01)
    first.cancel()
    assert (await second).token == "token-s-2"
    assert not cache._flights


async def test_tokens_are_renewed_before_they_end() -> None:
    """60 seconds before, a short-lived one in the last quarter of its life; never on every call."""
    platform = _Platform(seconds=50)
    cache = _cache(platform)
    for _ in range(5):
        await cache.get("s")
    assert platform.asked == ["s"]
    cache._held["s"].fresh_until = time.time() - 1
    await cache.get("s")
    assert platform.asked == ["s", "s"]
    cache.put("long", _access(3600))
    assert 3530 < cache._held["long"].fresh_until - time.time() < 3541


async def test_only_the_refused_token_is_dropped() -> None:
    """A late refusal of an old token does not take the new one away."""
    cache = _cache(_Platform())
    old = await cache.get("s")
    cache.put("s", _access(token="new"))
    cache.drop("s", old.token)
    assert (await cache.get("s")).token == "new"
    cache.drop("s", "new")
    assert (await cache.get("s")).token == "token-s-2"


async def test_a_token_without_an_end_is_an_error() -> None:
    """It would never be renewed."""
    access = _access()
    access.expires_at = "soon"
    with pytest.raises(ProtocolError, match="expiry"):
        _cache(_Platform()).put("s", access)


async def test_the_file_is_private_and_whole(tmp_path: Path) -> None:
    """0600 in a 0700 folder, written once for many tokens, read by the next client."""
    file = TokenFile(tmp_path / ".prime" / "tokens.json")
    platform = _Platform()
    cache = _cache(platform, file)
    await asyncio.gather(*(cache.get(f"s{n}") for n in range(200)))
    await cache.flush()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert [path.suffix for path in file.path.parent.iterdir()].count(".tmp") == 0
    again = _cache(_Platform(), file)
    assert (await again.get("s7")).token == (await cache.get("s7")).token
    other = _Platform()
    assert (await _cache(other, file, account="b").get("s7")).token == "token-s7-1"
    await again.clear()
    assert json.loads(file.path.read_bytes()).get("a", {}) == {}


async def test_other_processes_tokens_stay(tmp_path: Path) -> None:
    """A write merges into what is there, drops what has ended, and never grows without end."""
    file = TokenFile(tmp_path / "tokens.json")
    now = time.time()
    wire: dict[str, Any] = dict(_access())
    file.merge("a", {"s1": wire}, now)
    file.merge("a", {"s2": wire}, now)
    file.merge("b", {"s3": wire, "old": dict(_access(-5))}, now)
    assert sorted(file.read("a", now)) == ["s1", "s2"]
    file.merge("a", {"s1": None}, now)
    assert sorted(file.read("a", now)) == ["s2"]
    assert sorted(file.read("b", now)) == ["s3"]
    file.merge("c", {f"n{n}": wire for n in range(MAX_STORED + 50)}, now)
    stored = json.loads(file.path.read_bytes())
    assert sum(map(len, stored.values())) == MAX_STORED


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"a": 3}', b'{"a": {"s": 1}}', b"\xff\0"])
async def test_a_broken_file_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    """Whatever is wrong with it, the platform is asked, and the file is written anew."""
    file = TokenFile(tmp_path / "tokens.json")
    file.path.write_bytes(content)
    platform = _Platform()
    cache = _cache(platform, file)
    await cache.get("s")
    await cache.flush()
    assert platform.asked == ["s"]
    assert sorted(file.read("a", time.time())) == ["s"]


async def test_a_file_that_cannot_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is reported, and tokens live in memory."""
    (tmp_path / "tokens.json").mkdir()
    cache = _cache(_Platform(), TokenFile(tmp_path / "tokens.json"))
    assert (await cache.get("s")).token
    await cache.flush()
    assert "not kept on disk" in caplog.text


async def test_clients_hand_tokens_on(double: SandboxDouble, home: Path) -> None:
    """A second client of the same account asks for no new token; the key is not in the file."""
    async with AsyncSandboxClient(api_key="sk-CANARY", base_url=double.url) as client:
        box = await client.create(CreateSandboxRequest(name="x", docker_image="i"))
        await client.execute_command(box.id, "true")
    text = (home / ".prime" / "sandbox_tokens.json").read_text()
    assert "CANARY" not in text
    async with AsyncSandboxClient(api_key="sk-CANARY", base_url=double.url) as client:
        await client.execute_command(box.id, "true")
        assert len(double.requests("POST", "/auth")) == 1
        await client.clear_auth_cache()
        await client.execute_command(box.id, "true")
        assert len(double.requests("POST", "/auth")) == 2
    async with AsyncSandboxClient(api_key="another", base_url=double.url) as client:
        await client.execute_command(box.id, "true")
        assert len(double.requests("POST", "/auth")) == 3


async def test_create_brings_the_first_token(
    client: AsyncSandboxClient, double: SandboxDouble
) -> None:
    """Where the platform hands it out with the sandbox, none is asked for."""
    double.gateway_auth = True
    box = await client.create(CreateSandboxRequest(name="x", docker_image="i"))
    await client.execute_command(box.id, "true")
    assert double.requests("POST", "/auth") == []
    assert "token" not in str(dict(box))


async def test_3000_tokens_cost_next_to_nothing(tmp_path: Path) -> None:
    """Nothing grows with the number of tokens but their number."""
    cache = _cache(_Platform(), TokenFile(tmp_path / "tokens.json"))
    began = time.process_time()
    await asyncio.gather(*(cache.get(f"s{n}") for n in range(3000)))
    await cache.flush()
    assert time.process_time() - began < 2  # the official client needs 49 s, on a quiet machine


def test_times_are_read_with_and_without_a_zone() -> None:
    """Z, an offset, or UTC; everything else is none."""
    assert expiry_of("2030-01-01T00:00:00Z") == expiry_of("2030-01-01T00:00:00")
    assert expiry_of("2030-01-01T02:00:00+02:00") == expiry_of("2030-01-01T00:00:00Z")
    assert expiry_of("soon") is expiry_of(None) is expiry_of(5) is None


def test_accounts_differ_by_address_and_key() -> None:
    """And their names tell neither."""
    names = {account_of(url, key) for url in ("u", "v") for key in ("sk-1", "sk-2", None)}
    assert len(names) == 6
    assert "sk-1" not in "".join(names)
