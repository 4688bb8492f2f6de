"""The leases of runs: begun with a creation, renewed by the client while it lives."""

from __future__ import annotations

from sqlalchemy import Connection

from prime_async.runs.wire import LEASE_HEADER, LeaseBody, RunKind, RunLease
from prime_async.server.answers import answer
from prime_async.server.clock import timestamp
from prime_async.server.endpoints import Call, Endpoint, Header, Reply
from prime_async.server.failures import ErrorAnswer, RequestError, invalid
from prime_async.server.runs.leases import Grant, begin_lease
from prime_async.server.store import runs

__all__ = ["ENDPOINTS", "LEASE", "begin_with"]

_SHORTEST, _LONGEST = 1, 86_400

LEASE = Header(
    LEASE_HEADER,
    "Marks the run failed when nobody renews its lease for so many seconds",
    r"^[1-9][0-9]{0,4}$",
)


def begin_with(call: Call, connection: Connection, kind: RunKind, run_id: str) -> None:
    """Begin the lease that a creation asks for, in the transaction that makes the run.

    Raises:
        RequestError: 422, the header is no number of seconds.
    """
    text = call.request.headers.get(LEASE_HEADER)
    if text is None:
        return
    if not (text.isascii() and text.isdigit() and _SHORTEST <= int(text) <= _LONGEST):
        raise invalid(["header", LEASE_HEADER], f"must be {_SHORTEST} to {_LONGEST} seconds")
    grant = Grant(kind, run_id, call.caller.account.id, float(text))
    begin_lease(connection, grant, call.platform.clock.now())


async def renew_eval(call: Call) -> Reply:
    """Renew the lease of an evaluation, or begin one."""
    return await _renew(call, "eval")


async def renew_train(call: Call) -> Reply:
    """Renew the lease of a training run, or begin one."""
    return await _renew(call, "train")


async def _renew(call: Call, kind: RunKind) -> Reply:
    # Twice is the same as once: the key is checked and not needed.
    _ = call.key_text
    body: LeaseBody = call.body
    run_id = call.path["run_id"]
    found = call.platform.database.point(
        lambda reader: runs.subject(reader, kind, run_id, call.caller)
    )
    if found is None:
        raise RequestError(404, "run_not_found", f"no {kind} run {run_id}")
    grant = Grant(kind, run_id, call.caller.account.id, body.seconds)
    ends = await call.platform.runs.leases.renew(found, grant)
    if ends is None:
        raise RequestError(409, "run_closed", "the run is closed: it needs no lease")
    return answer(RunLease(run_id=run_id, expires_at=timestamp(ends), seconds=body.seconds))


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    Endpoint(
        "POST",
        f"/runs/{kind}/{{run_id}}/lease",
        renew,
        f"Renew the lease of {what}",
        {200: RunLease, 404: ErrorAnswer, 409: ErrorAnswer},
        body=LeaseBody,
        body_optional=True,
    )
    for kind, renew, what in (
        ("eval", renew_eval, "an evaluation"),
        ("train", renew_train, "a training run"),
    )
)
