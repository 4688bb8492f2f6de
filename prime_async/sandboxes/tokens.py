"""Tokens for sandboxes: in memory, one request per sandbox at a time, renewed before they end."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from prime_async.errors import ProtocolError
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.expiry import expiry_of
from prime_async.sandboxes.models import GatewayAccess
from prime_async.sandboxes.tokenfile import TokenFile

__all__ = ["EARLY", "TokenCache", "account_of"]

EARLY = 60.0
"""Seconds before its end that a token is renewed; a short-lived one in the last quarter of its
life.
"""

_LEAST = 1.0
_WRITE_DELAY = 0.5
_PRUNE_ABOVE = 4096


@dataclass(slots=True)
class _Held:
    access: GatewayAccess
    fresh_until: float


class _Flight:
    """A lock that its waiters count, so that it can be dropped after the last one."""

    __slots__ = ("lock", "waiting")

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.waiting = 0


def account_of(base_url: str, api_key: str | None) -> str:
    """Name the pair of address and key without telling the key."""
    return hashlib.sha256(f"{base_url}\n{api_key or ''}".encode()).hexdigest()[:32]


class TokenCache:
    """The tokens of one client.

    Args:
        fetch: asks the platform for the access to one sandbox.
        account: names address and key; see :func:`account_of`.
        background: owns the task that writes the file.
        file: where tokens are kept between processes, or None.
    """

    def __init__(
        self,
        fetch: Callable[[str], Awaitable[GatewayAccess]],
        account: Callable[[], str],
        background: Background,
        file: TokenFile | None,
    ) -> None:
        self._fetch = fetch
        self._account = account
        self._background = background
        self._file = file
        self._held: dict[str, _Held] = {}
        self._flights: dict[str, _Flight] = {}
        self._changed: dict[str, dict[str, Any] | None] = {}
        self._loaded = file is None
        self._loading: anyio.Event | None = None

    async def get(self, sandbox_id: str) -> GatewayAccess:
        """Return a token that is still good for a while, asking for a new one where needed."""
        access = self._fresh(sandbox_id)
        if access is not None:
            return access
        if not self._loaded:
            await self._load()
        flight = self._flights.setdefault(sandbox_id, _Flight())
        flight.waiting += 1
        try:
            async with flight.lock:
                access = self._fresh(sandbox_id)
                if access is None:
                    access = await self._fetch(sandbox_id)
                    self.put(sandbox_id, access)
                return access
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                self._flights.pop(sandbox_id, None)

    def put(self, sandbox_id: str, access: GatewayAccess) -> None:
        """Keep a token that the platform handed out.

        Raises:
            ProtocolError: it does not say when it ends.
        """
        ends = expiry_of(access.expires_at)
        if ends is None:
            raise ProtocolError(f"the token of sandbox {sandbox_id} has no time of expiry")
        now = time.time()
        fresh_until = max(ends - min(EARLY, (ends - now) / 4), now + _LEAST)
        self._held[sandbox_id] = _Held(access, fresh_until)
        if len(self._held) > _PRUNE_ABOVE and len(self._held) % 1024 == 0:
            self._held = {name: held for name, held in self._held.items() if held.fresh_until > now}
        self._note(sandbox_id, msgspec.to_builtins(access))

    def drop(self, sandbox_id: str, token: str | None = None) -> None:
        """Forget a token; with `token` only if it is still that one."""
        held = self._held.get(sandbox_id)
        if held is None or token not in (None, held.access.token):
            return
        del self._held[sandbox_id]
        self._note(sandbox_id, None)

    async def clear(self) -> None:
        """Forget every token of this account, on disk too."""
        self._held.clear()
        self._changed.clear()
        if self._file is not None:
            await anyio.to_thread.run_sync(self._file.clear, self._account())

    async def flush(self) -> None:
        """Write what has not been written."""
        changed, self._changed = self._changed, {}
        if changed and self._file is not None:
            await anyio.to_thread.run_sync(
                self._file.merge, self._account(), changed, time.time(), abandon_on_cancel=False
            )

    def _fresh(self, sandbox_id: str) -> GatewayAccess | None:
        held = self._held.get(sandbox_id)
        return held.access if held is not None and held.fresh_until > time.time() else None

    def _note(self, sandbox_id: str, stored: dict[str, Any] | None) -> None:
        if self._file is None:
            return
        self._changed[sandbox_id] = stored
        self._background.run("token file", self._write)

    async def _write(self) -> None:
        """The one writer: collects changes for a moment and writes them together."""
        while self._changed:
            await anyio.sleep(_WRITE_DELAY)
            await self.flush()

    async def _load(self) -> None:
        """Read the file, once; all wait for that, and go on together."""
        while not self._loaded:
            if self._loading is not None:
                await self._loading.wait()
                continue
            loading = self._loading = anyio.Event()
            try:
                await self._read_file()
                self._loaded = True
            finally:
                self._loading = None
                loading.set()

    async def _read_file(self) -> None:
        assert self._file is not None
        stored = await anyio.to_thread.run_sync(self._file.read, self._account(), time.time())
        for sandbox_id, wire in stored.items():
            try:
                access = GatewayAccess.from_wire(wire)
            except msgspec.ValidationError:
                continue  # from another version, or damaged: asked for anew
            ends = expiry_of(access.expires_at)
            if ends is not None and sandbox_id not in self._held:
                self._held[sandbox_id] = _Held(access, ends - EARLY)
