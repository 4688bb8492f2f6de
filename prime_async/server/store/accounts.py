"""Accounts, their keys, teams and memberships: statements only, no rules."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from prime_async.server.identifiers import new_id
from prime_async.server.store.schema import accounts, api_keys, team_members, teams

__all__ = [
    "Account",
    "Membership",
    "account_of_key",
    "add_account",
    "add_key",
    "add_member",
    "add_team",
    "find_account",
    "is_taken",
    "memberships_of",
    "replace_key",
]


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the platform."""

    id: str
    slug: str
    name: str
    email: str


@dataclass(frozen=True, slots=True)
class Membership:
    """A team that an account belongs to; ``created_at`` is the team's, in epoch seconds."""

    team_id: str
    slug: str
    name: str
    role: str
    created_at: float


def find_account(connection: Connection, slug: str) -> Account | None:
    """The account with this slug."""
    columns = accounts.c.id, accounts.c.slug, accounts.c.name, accounts.c.email
    row = connection.execute(select(*columns).where(accounts.c.slug == slug)).first()
    return None if row is None else Account(*row)


def account_of_key(connection: Connection, digest: bytes) -> tuple[bytes, Account] | None:
    """The stored digest and the account of a key."""
    query = (
        select(api_keys.c.digest, accounts.c.id, accounts.c.slug, accounts.c.name, accounts.c.email)
        .join(accounts, accounts.c.id == api_keys.c.account_id)
        .where(api_keys.c.digest == digest)
    )
    row = connection.execute(query).first()
    return None if row is None else (row[0], Account(*row[1:]))


def memberships_of(connection: Connection, account_id: str) -> list[Membership]:
    """The teams of an account, oldest first."""
    query = (
        select(teams.c.id, teams.c.slug, teams.c.name, team_members.c.role, teams.c.created_at)
        .join(teams, teams.c.id == team_members.c.team_id)
        .where(team_members.c.account_id == account_id)
        .order_by(teams.c.created_at, teams.c.id)
    )
    return [Membership(*row) for row in connection.execute(query)]


def add_account(connection: Connection, slug: str, name: str, email: str, now: float) -> Account:
    """Make an account."""
    account = Account(new_id(), slug, name, email)
    row = {"id": account.id, "slug": slug, "name": name, "email": email, "created_at": now}
    connection.execute(insert(accounts).values(row))
    return account


def add_key(connection: Connection, account_id: str, digest: bytes, label: str, now: float) -> None:
    """Give an account one more key."""
    row = {"digest": digest, "account_id": account_id, "label": label, "created_at": now}
    connection.execute(insert(api_keys).values(row))


def replace_key(
    connection: Connection, account_id: str, digest: bytes, label: str, now: float
) -> None:
    """Make this the only key that an account has under a label."""
    same = (api_keys.c.account_id == account_id) & (api_keys.c.label == label)
    connection.execute(delete(api_keys).where(same & (api_keys.c.digest != digest)))
    known = connection.execute(select(api_keys.c.digest).where(api_keys.c.digest == digest)).first()
    if known is None:
        add_key(connection, account_id, digest, label, now)
    else:
        owner = update(api_keys).where(api_keys.c.digest == digest)
        connection.execute(owner.values(account_id=account_id, label=label))


def add_team(connection: Connection, slug: str, name: str, now: float) -> str:
    """Make a team and return its id."""
    team_id = new_id()
    row = {"id": team_id, "slug": slug, "name": name, "created_at": now}
    connection.execute(insert(teams).values(row))
    return team_id


def add_member(
    connection: Connection, team_id: str, account_id: str, role: str, now: float
) -> None:
    """Put an account into a team."""
    row = {"team_id": team_id, "account_id": account_id, "role": role, "created_at": now}
    connection.execute(insert(team_members).values(row))


def is_taken(connection: Connection, slug: str) -> bool:
    """Whether an account or a team has this slug."""
    account = select(accounts.c.id).where(accounts.c.slug == slug)
    team = select(teams.c.id).where(teams.c.slug == slug)
    return connection.execute(account.union_all(team)).first() is not None
