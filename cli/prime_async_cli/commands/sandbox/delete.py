"""``sandbox delete``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncclick
from asyncclick import Context, Parameter

from prime_async_cli.command import command
from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.options import Identifier, Word, argument, output_option, yes_option
from prime_async_cli.prompts import confirm
from prime_async_cli.session import Session, pass_session

if TYPE_CHECKING:
    from prime_async.sandboxes import AsyncSandboxClient

__all__ = ["delete"]

_AT_ONCE = 100


def _split(ctx: Context, param: Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Take ids apart that commas hold together, as the official command takes them."""
    parts = [part for text in texts for part in text.split(",")]
    return tuple(Identifier().convert(part, param, ctx) for part in parts)


@command(
    "delete",
    examples="""
    prime-async sandbox delete ID
    prime-async sandbox delete --label ci --yes
    """,
)
@argument(
    "sandbox_ids",
    type=Identifier(),
    callback=_split,
    nargs=-1,
    required=False,
    metavar="[ID...]",
    help="The ids of the sandboxes, with spaces or commas between them.",
)
@asyncclick.option(
    "-l",
    "--label",
    "labels",
    multiple=True,
    type=Word(),
    metavar="TEXT",
    help="All that have it; again: all of them.",
)
@asyncclick.option("-a", "--all", "everything", is_flag=True, help="All that are alive.")
@yes_option
@output_option
@pass_session
async def delete(
    session: Session,
    sandbox_ids: tuple[str, ...],
    labels: tuple[str, ...],
    everything: bool,
    yes: bool,
) -> int:
    """Delete sandboxes and what is in them.

    Each is tried; the exit code is 1 when one could not be deleted. JSON: {"deleted", "failed"}.
    """
    if sum(map(bool, (sandbox_ids, labels, everything))) != 1:
        raise CommandError(
            "say which: ids, --label or --all", hint="one of the three, not several", code=USAGE
        )
    async with session.sandboxes() as client:
        ids = list(dict.fromkeys(sandbox_ids)) or await _alive(client, labels)
        if not ids:
            session.output.note("no such sandbox is alive" if labels else "no sandboxes are alive")
            return _done(session, [], {})
        what = f"sandbox {ids[0]}" if len(ids) == 1 else f"{len(ids)} sandboxes"
        if not confirm(f"Delete {what} with all files", yes=yes):
            session.output.note("nothing was deleted")
            return 0
        return _done(session, *await _delete(client, ids))


async def _alive(client: AsyncSandboxClient, labels: tuple[str, ...]) -> list[str]:
    found = client.iter_sandboxes(labels=labels or None, exclude_terminated=True)
    return [sandbox.id async for sandbox in found]


async def _delete(client: AsyncSandboxClient, ids: list[str]) -> tuple[list[str], dict[str, str]]:
    if len(ids) == 1:
        await client.delete(ids[0])
        return ids, {}
    deleted: list[str] = []
    failed: dict[str, str] = {}
    for start in range(0, len(ids), _AT_ONCE):
        outcome = await client.bulk_delete(ids[start : start + _AT_ONCE])
        deleted += outcome.succeeded
        for entry in outcome.failed:
            sandbox_id = str(entry.get("sandbox_id") or entry.get("id") or "?")
            failed[sandbox_id] = str(entry.get("error") or entry.get("message") or "failed")
    return deleted, failed


def _done(session: Session, deleted: list[str], failed: dict[str, str]) -> int:
    if session.output.json:
        session.output.document({"deleted": deleted, "failed": failed})
    for sandbox_id in () if session.output.json else deleted:
        session.output.text(f"deleted {sandbox_id}")
    if failed:
        reasons = "\n".join(f"{name}: {reason}" for name, reason in failed.items())
        raise CommandError(
            f"{len(failed)} of {len(failed) + len(deleted)} sandboxes were not deleted\n{reasons}",
            failed=sorted(failed),
        )
    return 0
