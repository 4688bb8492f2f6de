"""Tokens on disk: a cache between processes, private, written as a whole.

``~/.prime/sandbox_tokens.json`` (0600): ``{account: {sandbox id: access}}``, where the account is a
hash of address and key. Losing the file costs one request per sandbox; whatever is wrong with it,
it counts as empty.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from pathlib import Path
from typing import Any

import msgspec

from prime_async.config.files import PrimePaths, home_directory, make_private_directory
from prime_async.config.locks import FileLock
from prime_async.errors import ConfigError
from prime_async.sandboxes.expiry import expiry_of

__all__ = ["MAX_STORED", "TokenFile"]

MAX_STORED = 10_000
"""Tokens that are kept on disk; the ones that end last stay."""

_LARGEST = 64 * 2**20
_LOCK_SECONDS = 5.0
_LOGGER = logging.getLogger("prime_async.sandboxes")

Tokens = dict[str, dict[str, Any]]


class TokenFile:
    """The file; every method blocks and belongs off the event loop."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_user(cls) -> TokenFile | None:
        """Return the user's file, or None where there is no home directory."""
        try:
            home = home_directory()
        except ConfigError:
            return None
        return None if home is None else cls(PrimePaths(home).root / "sandbox_tokens.json")

    def read(self, account: str, now: float) -> Tokens:
        """Return the tokens of an account that have not expired."""
        tokens = self._read_all().get(account)
        return _alive(tokens, now) if isinstance(tokens, dict) else {}

    def merge(self, account: str, changed: dict[str, dict[str, Any] | None], now: float) -> None:
        """Write what changed into what is there; None takes a token out.

        Other processes' tokens stay. A file that cannot be written is reported, not raised.
        """
        try:
            make_private_directory(self.path.parent)
            with FileLock(self.path.with_suffix(".lock"), timeout=_LOCK_SECONDS):
                stored = {
                    name: alive
                    for name, tokens in self._read_all().items()
                    if isinstance(tokens, dict) and (alive := _alive(tokens, now))
                }
                mine = stored.setdefault(account, {})
                for sandbox_id, access in changed.items():
                    mine.pop(sandbox_id, None)
                    if access is not None:
                        mine[sandbox_id] = access
                self._replace(_newest(stored))
        except (ConfigError, OSError) as error:
            _LOGGER.warning("sandbox tokens are not kept on disk: %s", error)

    def clear(self, account: str) -> None:
        """Take every token of an account out."""
        now = float("-inf")
        self.merge(account, dict.fromkeys(self.read(account, now)), now)

    def _read_all(self) -> dict[str, Any]:
        try:
            with self.path.open("rb") as file:
                # As much as there is: a read allocates what it may take.
                raw = file.read(min(os.fstat(file.fileno()).st_size, _LARGEST) + 1)
            stored = msgspec.json.decode(raw) if len(raw) <= _LARGEST else None
        except (OSError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return {}
        return stored if isinstance(stored, dict) else {}

    def _replace(self, stored: dict[str, Tokens]) -> None:
        fresh = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        try:
            with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
                file.write(msgspec.json.encode(stored))
            fresh.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise


def _alive(tokens: dict[str, Any], now: float) -> Tokens:
    return {
        sandbox_id: access
        for sandbox_id, access in tokens.items()
        if isinstance(access, dict) and (expiry_of(access.get("expires_at")) or 0.0) > now
    }


def _newest(stored: dict[str, Tokens]) -> dict[str, Tokens]:
    total = sum(map(len, stored.values()))
    if total <= MAX_STORED:
        return stored
    entries = [
        (expiry_of(access["expires_at"]) or 0.0, account, sandbox_id)
        for account, tokens in stored.items()
        for sandbox_id, access in tokens.items()
    ]
    for _, account, sandbox_id in sorted(entries)[: total - MAX_STORED]:
        del stored[account][sandbox_id]
    return stored
