"""``sandbox checkpoint``: the files of a sandbox, kept to make others from."""

from __future__ import annotations

from typing import Any

import asyncclick

from prime_async_cli.command import Entry, Group, command
from prime_async_cli.commands.sandbox.create import show_new
from prime_async_cli.commands.sandbox.rows import CHECKPOINTS, set_fields
from prime_async_cli.commands.sandbox.wishes import make_options, make_request
from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.options import Identifier, argument, output_option, yes_option
from prime_async_cli.prompts import confirm
from prime_async_cli.session import Session, pass_session

__all__ = ["create", "delete", "get", "group", "list_checkpoints", "restore"]

group = Group(
    "checkpoint",
    {
        "create": Entry("sandbox.checkpoint:create", "Keep the files of a sandbox."),
        "list": Entry("sandbox.checkpoint:list_checkpoints", "List the checkpoints of a sandbox."),
        "ls": Entry(
            "sandbox.checkpoint:list_checkpoints",
            "List the checkpoints of a sandbox.",
            alias_of="list",
        ),
        "get": Entry("sandbox.checkpoint:get", "Show one checkpoint."),
        "restore": Entry("sandbox.checkpoint:restore", "Create a sandbox from a checkpoint."),
        "delete": Entry("sandbox.checkpoint:delete", "Delete checkpoints."),
    },
    help="Keep the files of a sandbox, and make others from them.",
)

_checkpoint_id = argument(
    "checkpoint_id", type=Identifier(), metavar="ID", help="The id of the checkpoint."
)
_sandbox_id = argument(
    "sandbox_id", type=Identifier(), metavar="SANDBOX", help="The id of the sandbox."
)


@command("create", examples="prime-async sandbox checkpoint create ID --wait")
@_sandbox_id
@asyncclick.option("--wait", is_flag=True, help="Come back when sandboxes can be made from it.")
@output_option
@pass_session
async def create(session: Session, sandbox_id: str, wait: bool) -> None:
    """Keep the files of a sandbox.

    The sandbox goes on running. JSON: the checkpoint as the platform sends it.
    """
    async with session.sandboxes() as client:
        made = await client.checkpoint(sandbox_id)
        if wait:
            session.facts = {"checkpoint_id": made.id}
            made = await client.wait_for_checkpoint(made.id)
    _show(session, made)
    session.output.note(f"use it: prime-async sandbox checkpoint restore {made.id}")


@command("list", examples="prime-async sandbox checkpoint list ID --output json")
@_sandbox_id
@output_option
@pass_session
async def list_checkpoints(session: Session, sandbox_id: str) -> None:
    """List the checkpoints of a sandbox, the oldest first.

    JSON: {"checkpoints": [...]}.
    """
    async with session.sandboxes() as client:
        found = await client.list_checkpoints(sandbox_id)
    rows = [dict(checkpoint.to_wire()) for checkpoint in found]
    if session.output.json:
        session.output.document({"checkpoints": rows})
    elif rows:
        session.output.table(rows, CHECKPOINTS)
    else:
        session.output.note(f"sandbox {sandbox_id} has no checkpoints")


@command("get")
@_checkpoint_id
@output_option
@pass_session
async def get(session: Session, checkpoint_id: str) -> None:
    """Show one checkpoint.

    JSON: the checkpoint as the platform sends it.
    """
    async with session.sandboxes() as client:
        _show(session, await client.get_checkpoint(checkpoint_id))


@command(
    "restore",
    examples="""
    prime-async sandbox checkpoint restore CHECKPOINT --wait
    prime-async sandbox checkpoint restore CHECKPOINT --memory-gb 4 --label again
    """,
)
@_checkpoint_id
@make_options
@asyncclick.option("--wait", is_flag=True, help="Come back when it can be used.")
@output_option
@pass_session
async def restore(session: Session, /, checkpoint_id: str, wait: bool, **wishes: Any) -> None:
    """Create a sandbox from a checkpoint.

    Image and disk are those of the checkpoint. JSON: the sandbox as the platform sends it, the
    values of its environment hidden.
    """
    request = make_request(session, None, checkpoint=checkpoint_id, **wishes)
    await show_new(session, request, wait=wait)


@command(
    "delete",
    examples="""
    prime-async sandbox checkpoint delete CHECKPOINT
    prime-async sandbox checkpoint delete --sandbox ID --yes
    """,
)
@argument(
    "checkpoint_ids",
    type=Identifier(),
    nargs=-1,
    required=False,
    metavar="[ID...]",
    help="The ids of the checkpoints.",
)
@asyncclick.option(
    "-s",
    "--sandbox",
    "sandbox_id",
    type=Identifier(),
    metavar="ID",
    help="All of this sandbox.",
)
@yes_option
@output_option
@pass_session
async def delete(
    session: Session, checkpoint_ids: tuple[str, ...], sandbox_id: str | None, yes: bool
) -> int:
    """Delete checkpoints.

    Each is tried; the exit code is 1 when one could not be deleted. JSON: {"deleted", "failed"}.
    """
    if bool(checkpoint_ids) == bool(sandbox_id):
        raise CommandError("say which: ids, or --sandbox", hint="one of the two", code=USAGE)
    what = f"all checkpoints of sandbox {sandbox_id}"
    if checkpoint_ids:
        what = f"checkpoint{'s' if len(checkpoint_ids) > 1 else ''} {', '.join(checkpoint_ids)}"
    if not confirm(f"Delete {what}", yes=yes):
        session.output.note("nothing was deleted")
        return 0
    if sandbox_id is not None:
        async with session.sandboxes() as client:
            outcome = await client.delete_sandbox_checkpoints(sandbox_id)
        failed = {each.checkpoint_id: each.message or each.code for each in outcome.errors}
        return _deleted(session, outcome.deleted, failed)
    return _deleted(session, *await _delete_each(session, checkpoint_ids))


async def _delete_each(
    session: Session, checkpoint_ids: tuple[str, ...]
) -> tuple[list[str], dict[str, str]]:
    from prime_async.errors import ConflictError, NotFoundError

    deleted: list[str] = []
    failed: dict[str, str] = {}
    async with session.sandboxes() as client:
        for checkpoint_id in dict.fromkeys(checkpoint_ids):
            try:
                await client.delete_checkpoint(checkpoint_id)
                deleted.append(checkpoint_id)
            except (ConflictError, NotFoundError) as error:
                failed[checkpoint_id] = str(error.detail or error.message)
    return deleted, failed


def _deleted(session: Session, deleted: list[str], failed: dict[str, str]) -> int:
    if session.output.json:
        session.output.document({"deleted": deleted, "failed": failed})
    for checkpoint_id in () if session.output.json else deleted:
        session.output.text(f"deleted {checkpoint_id}")
    if not deleted and not failed:
        session.output.note("there were no checkpoints")
    if failed:
        reasons = "\n".join(f"{name}: {reason}" for name, reason in failed.items())
        raise CommandError(
            f"{len(failed)} of {len(failed) + len(deleted)} checkpoints were not deleted\n"
            f"{reasons}",
            failed=sorted(failed),
        )
    return 0


def _show(session: Session, checkpoint: Any) -> None:
    row = dict(checkpoint.to_wire())
    if session.output.json:
        session.output.document(row)
    else:
        session.output.fields(set_fields(row))
