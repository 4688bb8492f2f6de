"""Whose traces: those of the team in the header, else those of the account."""

from __future__ import annotations

from prime_async.server.endpoints import Call, Header
from prime_async.server.traces.refusals import refused
from prime_async.traces.codes import ErrorCode

__all__ = ["TEAM_HEADER", "owner_of"]

TEAM_HEADER = Header(
    "X-Prime-Team-ID",
    "The team whose traces are meant; empty for none",
    "^[A-Za-z0-9_-]{0,64}$",
)


def owner_of(call: Call) -> str:
    """The owner as the store names it.

    Raises:
        RequestError: 403, the account is not in that team, there is none, or the service is
            switched off for the account.
    """
    if call.caller.account.slug in call.platform.config.traces_off_for:
        raise refused(
            ErrorCode.SERVICE_NOT_ENABLED,
            "the traces service is switched off for this account",
            status=403,
        )
    team = call.request.headers.get(TEAM_HEADER.name)
    # Some clients do nothing without a team: the account's own id is one of its own.
    if not team or team == call.caller.account.id:
        return call.caller.account.id
    if team not in call.caller.teams:
        raise refused(ErrorCode.FORBIDDEN, "no team with this id is yours", status=403)
    return f"team/{team}"
