"""``prime-async whoami``: whose key this is and what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prime_async_cli.command import command
from prime_async_cli.options import output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.tables import Column

__all__ = ["whoami"]

_SCOPES = (Column("AREA", "area"), Column("READ", "read"), Column("WRITE", "write"))
_LIMITS = (Column("LIMIT", "name"), Column("ACCOUNT", "account"), Column("KEY", "key"))


@command("whoami")
@output_option
@pass_session
async def whoami(session: Session) -> None:
    """Show the account, team and limits of the key in use."""
    async with session.api() as client:
        answer = await client.get("/user/whoami", {"teamId": client.team_id})
        settings = client.settings
    account = _object(answer.get("data", answer))
    place = {
        "context": settings.context or None,
        "base_url": settings.base_url,
        "team_id": settings.team_id,
    }
    if session.output.json:
        session.output.document({**account, **place})
        return
    fields = ("name", "email", "slug", "id")
    session.output.fields([*((name, account.get(name)) for name in fields), *place.items()])
    _tables(session, account)


def _tables(session: Session, account: Mapping[str, Any]) -> None:
    scope = _object(account.get("scope"))
    if scope:
        rows = [{"area": area, **_object(rights)} for area, rights in sorted(scope.items())]
        session.output.text("")
        session.output.table(rows, _SCOPES)
    of_account, of_key = _object(account.get("account_limits")), _object(account.get("key_limits"))
    if of_account or of_key:
        names = sorted({*of_account, *of_key})
        rows = [{"name": n, "account": of_account.get(n), "key": of_key.get(n)} for n in names]
        session.output.text("")
        session.output.table(rows, _LIMITS)


def _object(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
