"""Ending a command and everything it started, whoever goes away."""

from __future__ import annotations

import uuid

import anyio

from prime_async.connect import Code
from prime_async.errors import PrimeError
from prime_async.sandboxes.gateway import Gateway
from prime_async.sandboxes.rpc import code_of, unary
from prime_async.sandboxes.wire import Rpc, SendSignalRequest, Session

__all__ = ["KILL_SECONDS", "kill_session"]

KILL_SECONDS = 3.0
"""Seconds to tell the sandbox that a command has to end, whatever goes wrong meanwhile."""

_SIGKILL = 9


async def kill_session(gateway: Gateway, sandbox_id: str, session: Session) -> bool:
    """Kill a session's whole group, even while the caller is being cancelled; False when the
    sandbox could not be told.
    """
    request = SendSignalRequest(session, _SIGKILL, str(uuid.uuid4())).encode()
    with anyio.move_on_after(KILL_SECONDS, shield=True):
        try:
            await unary(gateway, sandbox_id, Rpc.SEND_SIGNAL, request, timeout=KILL_SECONDS)
        except PrimeError as error:
            # Not found: it has ended by itself, or never began.
            return code_of(error) in (Code.NOT_FOUND, Code.FAILED_PRECONDITION)
        return True
    return False
