"""``eval sync``: what is kept on this disk, to the platform."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.failures import CommandError
from prime_async_cli.options import output_option
from prime_async_cli.progress import progress
from prime_async_cli.session import Session, pass_session
from prime_async_cli.tables import Column

if TYPE_CHECKING:
    from prime_async.evals import InterruptedPush, SyncResult

__all__ = ["sync"]

_PUSHES = (
    Column("PUSH", "push_id", whole=True),
    Column("EVALUATION", "evaluation_id", whole=True),
    Column("FROM", "source", drop=3),
    Column("TO", "base_url", drop=2),
    Column("MISSING", "undelivered", drop=1, right=True),
    Column("STATE", "state"),
)
_RESULTS = (*_PUSHES[:3], Column("STATE", "state"))


@command(
    "sync",
    examples="""
    prime-async eval sync --list
    prime-async eval sync
    """,
)
@asyncclick.option("--list", "only_list", is_flag=True, help="Show what is kept; send nothing.")
@output_option
@pass_session
async def sync(session: Session, only_list: bool) -> int:
    """Deliver samples kept on this disk: what interrupted pushes left in ~/.prime/spool.

    Each goes to the platform it was meant for, never elsewhere. The exit code is 1 when something
    is still not delivered.

    JSON: {"results": [{"push_id", "evaluation_id", "file", "base_url", "undelivered", "problem",
    "receipt"}]}; with --list {"pushes": [...]}.
    """
    if only_list:
        await _list(session)
        return 0
    total = sum(push.undelivered for push in await _pushes())
    async with session.evals() as client:
        with progress(session.output) as bar:
            bar.begin("delivering", total)
            results = await client.sync_pushes(bar.advance)
    if session.output.json:
        session.output.document({"results": [_result(each) for each in results]})
    else:
        _show(session, results)
    left = [each for each in results if each.problem is not None]
    if left:
        raise CommandError(
            f"{len(left)} of {len(results)} pushes are not delivered\n"
            + "\n".join(f"{each.push.push_id}: {each.problem}" for each in left),
            left=[each.push.push_id for each in left],
        )
    return 0


async def _pushes() -> list[InterruptedPush]:
    from anyio import to_thread

    from prime_async.evals import interrupted_pushes

    return await to_thread.run_sync(interrupted_pushes)


async def _list(session: Session) -> None:
    pushes = await _pushes()
    if session.output.json:
        session.output.document({"pushes": [_push(each) for each in pushes]})
    elif pushes:
        rows = [{**_push(each), "state": _state_on_disk(each)} for each in pushes]
        session.output.table(rows, _PUSHES)
    else:
        session.output.note("nothing is kept on this disk")


def _show(session: Session, results: Sequence[SyncResult]) -> None:
    if not results:
        session.output.note("nothing is kept on this disk")
        return
    rows = [{**_push(each.push), "state": _state(each)} for each in results]
    session.output.table(rows, _RESULTS)
    delivered = {each.push.evaluation_id for each in results if each.problem is None}
    for evaluation_id in sorted(delivered):
        close = shlex.join([*session.program(), "eval", "finalize", evaluation_id])
        session.output.note(f"close it with: {close}")


def _state(result: SyncResult) -> str:
    return "delivered" if result.problem is None else "not delivered"


def _state_on_disk(push: InterruptedPush) -> str:
    if push.fault is not None:
        return push.fault
    if push.running:
        return "running"
    return "the file changed" if push.changed else "waiting"


def _push(push: InterruptedPush) -> dict[str, Any]:
    return {
        "push_id": push.push_id,
        "evaluation_id": push.evaluation_id,
        "file": str(push.file) if push.file else None,
        "source": str(push.file or "samples on this disk"),
        "base_url": push.base_url,
        "undelivered": push.undelivered,
        "running": push.running,
        "changed": push.changed,
        "fault": push.fault,
    }


def _result(result: SyncResult) -> dict[str, Any]:
    receipt = result.receipt.to_dict() if result.receipt else None
    return {**_push(result.push), "problem": result.problem, "receipt": receipt}
