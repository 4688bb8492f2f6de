"""The door of a sandbox: who may pass, and what is said when nobody is behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from prime_async.connect import Code
from prime_async.sandboxes.models import ENDED_STATUSES
from prime_async.server.endpoints import Call, Reply
from prime_async.server.failures import RequestError, invalid
from prime_async.server.sandboxes.fleet import Live
from prime_async.server.sandboxes.refusals import GatewayError, gone, refusal, translated
from prime_async.server.store import sandboxes as store

__all__ = ["guarded"]

Inside = Callable[[Call, Live], Awaitable[Reply]]


def guarded(*, rpc: bool) -> Callable[[Inside], Callable[[Call], Awaitable[Reply]]]:
    """Make a handler of something that is done with a live sandbox.

    Args:
        rpc: whether errors are those of the Connect protocol.
    """

    def wrap(inside: Inside) -> Callable[[Call], Awaitable[Reply]]:
        async def handle(call: Call) -> Reply:
            sandbox_id = call.path["sandbox_id"]
            live = _enter(call, sandbox_id, rpc=rpc)
            try:
                return await inside(call, live)
            except Exception as error:
                ended = live.running.end
                if ended is not None and not isinstance(error, ConnectionError | RequestError):
                    raise gone(sandbox_id, ended.message, rpc=rpc) from error
                known = translated(error, sandbox_id, rpc=rpc)
                if known is None or known is error:
                    raise
                raise known from error

        handle.__name__, handle.__doc__ = inside.__name__, inside.__doc__
        handle.__module__ = inside.__module__
        return handle

    return wrap


def _enter(call: Call, sandbox_id: str, *, rpc: bool) -> Live:
    """Check the token and find the sandbox.

    Raises:
        RequestError: 401; the sandbox has ended, or does not run yet.
    """
    parts = call.platform.sandboxes
    if not parts.tokens.fits(call.request.headers.get("Authorization"), sandbox_id):
        raise refusal(Code.UNAUTHENTICATED, "the token is not for this sandbox, or has ended")
    named = call.request.query.get("sandbox_id", sandbox_id)
    if named != sandbox_id:
        raise invalid(["query", "sandbox_id"], "is not the sandbox of this address")
    live = parts.fleet.use(sandbox_id)
    if live is None:
        raise _absent(call, sandbox_id, rpc=rpc)
    if live.running.end is not None:
        raise gone(sandbox_id, live.running.end.message, rpc=rpc)
    return live


def _absent(call: Call, sandbox_id: str, *, rpc: bool) -> RequestError:
    row = call.platform.database.point(lambda reader: store.find_any(reader, sandbox_id))
    if row is None or row["status"] in ENDED_STATUSES:
        why = None if row is None else row["error_message"] or row["termination_reason"]
        return gone(sandbox_id, why, rpc=rpc)
    message = f"sandbox {sandbox_id} does not run yet ({row['status']})"
    if rpc:
        return refusal(Code.UNAVAILABLE, message)
    return GatewayError(409, "sandbox_not_ready", message)
