"""Who is asking: API keys, the account behind a key, and the teams it may act for."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from prime_async.errors import LocalPlatformError
from prime_async.server.clock import Clock
from prime_async.server.failures import RequestError
from prime_async.server.store import accounts
from prime_async.server.store.accounts import Account, Membership
from prime_async.server.store.database import Database

__all__ = ["Caller", "Keys", "ensure_key", "new_key"]

OWNER_SLUG = "local"
"""Slug of the account that the first start makes."""

_CONFIGURED = "configured"
_KNOWN_KEYS = 1024


@dataclass(frozen=True, slots=True)
class Caller:
    """The account a request acts for, with its teams by id."""

    account: Account
    teams: Mapping[str, Membership]

    def team(self, team_id: str | None) -> str | None:
        """The team to act for; None, blank and the account's own id mean the account itself: some
        clients do nothing without a team.

        Raises:
            RequestError: 404 ``team_not_found``: no such team, or the account is not in it (which
                of the two is not told).
        """
        if not team_id or team_id == self.account.id:
            return None
        if team_id not in self.teams:
            raise RequestError(404, "team_not_found", "no team with this id is yours")
        return team_id


class Keys:
    """Finds the caller of a key. Remembers what it found until an account, key or team changes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[bytes, Caller] = {}

    async def install(self, key: str) -> Account:
        """Make sure that the first account exists and that this is its configured key."""
        digest = _digest(key)

        def write(connection: Connection) -> Account:
            now = self._clock.now()
            account = accounts.find_account(connection, OWNER_SLUG)
            if account is None:
                account = accounts.add_account(
                    connection, OWNER_SLUG, "Local user", "local@localhost", now
                )
            accounts.replace_key(connection, account.id, digest, _CONFIGURED, now)
            return account

        account = await self._database.write(write)
        self._known.clear()
        return account

    async def add_account(self, slug: str, name: str, key: str) -> Account:
        """Make a further account with a key of its own."""

        def write(connection: Connection) -> Account:
            now = self._clock.now()
            account = accounts.add_account(connection, slug, name, f"{slug}@localhost", now)
            accounts.add_key(connection, account.id, _digest(key), _CONFIGURED, now)
            return account

        account = await self._database.write(write)
        self._known.clear()
        return account

    async def add_team(self, slug: str, name: str, members: Mapping[str, str]) -> str:
        """Make a team of accounts, given as account id to role, and return its id."""

        def write(connection: Connection) -> str:
            now = self._clock.now()
            team_id = accounts.add_team(connection, slug, name, now)
            for account_id, role in members.items():
                accounts.add_member(connection, team_id, account_id, role, now)
            return team_id

        team_id = await self._database.write(write)
        self._known.clear()
        return team_id

    def caller(self, authorization: str | None) -> Caller:
        """The caller of an ``Authorization`` header.

        Raises:
            RequestError: 401 when there is no bearer key or nobody has it.
        """
        scheme, _, key = (authorization or "").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key:
            raise _unauthorized("no API key was sent")
        digest = _digest(key)
        caller = self._known.get(digest)
        if caller is None:
            caller = self._find(digest)
            if len(self._known) >= _KNOWN_KEYS:
                self._known.clear()
            self._known[digest] = caller
        return caller

    def _find(self, digest: bytes) -> Caller:
        found = self._database.point(lambda reader: accounts.account_of_key(reader, digest))
        # Looking up a digest tells nothing about the key; the comparison that decides takes the
        # same time always.
        if found is None or not hmac.compare_digest(found[0], digest):
            raise _unauthorized("the API key is not known to this platform")
        account = found[1]
        teams = self._database.point(lambda reader: accounts.memberships_of(reader, account.id))
        return Caller(account, {team.team_id: team for team in teams})


def new_key() -> str:
    """Make an API key: ``pit_local_`` and 256 random bits."""
    return f"pit_local_{secrets.token_urlsafe(32)}"


def ensure_key(path: Path) -> str:
    """Read the key kept in a file, or make one and keep it there (mode 0600, written whole or not
    at all).

    Raises:
        LocalPlatformError: the file cannot be read or written, or holds no key.
    """
    try:
        key = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return _keep_new_key(path)
    except (OSError, UnicodeDecodeError) as error:
        raise LocalPlatformError(f"cannot read the platform's key file {path}: {error}") from error
    if not key:
        raise LocalPlatformError(
            f"the platform's key file {path} is empty",
            hint="delete it; the next start makes a new key",
        )
    return key


def _keep_new_key(path: Path) -> str:
    key = new_key()
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{key}\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise LocalPlatformError(f"cannot write the platform's key file {path}: {error}") from error
    return key


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _unauthorized(message: str) -> RequestError:
    return RequestError(401, "unauthorized", message, headers={"WWW-Authenticate": "Bearer"})
