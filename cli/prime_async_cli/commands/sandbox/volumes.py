"""``sandbox volumes``: folders that sandboxes share."""

from __future__ import annotations

from typing import Any

import asyncclick

from prime_async_cli.command import Entry, Group, command
from prime_async_cli.commands.sandbox.rows import VOLUMES, set_fields
from prime_async_cli.options import (
    Identifier,
    argument,
    output_option,
    page_options,
    yes_option,
)
from prime_async_cli.prompts import confirm
from prime_async_cli.session import Session, pass_session

__all__ = ["create", "delete", "get", "group", "list_volumes", "publish"]

group = Group(
    "volumes",
    {
        "create": Entry("sandbox.volumes:create", "Create an empty volume."),
        "list": Entry("sandbox.volumes:list_volumes", "List volumes."),
        "ls": Entry("sandbox.volumes:list_volumes", "List volumes.", alias_of="list"),
        "get": Entry("sandbox.volumes:get", "Show one volume."),
        "publish": Entry(
            "sandbox.volumes:publish", "Let new sandboxes see what one has in a volume."
        ),
        "delete": Entry("sandbox.volumes:delete", "Delete a volume and all its versions."),
    },
    help="Share folders between sandboxes.\n\n`sandbox create --volume NAME:/PATH` mounts one.",
)

_name = argument("name", metavar="NAME", help="The name of the volume.")


@command("create", examples="prime-async sandbox volumes create data")
@_name
@output_option
@pass_session
async def create(session: Session, name: str) -> None:
    """Create an empty volume.

    JSON: the volume as the platform sends it.
    """
    async with session.sandboxes() as client:
        _show(session, await client.volumes.create(name))
    session.output.note(f"mount it: prime-async sandbox create --volume {name}:/PATH")


@command("list", examples="prime-async sandbox volumes list --output json")
@page_options(limit=50, most=100)
@output_option
@pass_session
async def list_volumes(session: Session, page: int, limit: int) -> None:
    """List volumes.

    JSON: {"volumes": [...], "total", "page", "limit"}.
    """
    async with session.sandboxes() as client:
        found = await client.volumes.list(page=page, per_page=limit)
    rows = [dict(volume.to_wire()) for volume in found.volumes]
    if session.output.json:
        session.output.document(
            {"volumes": rows, "total": found.total, "page": page, "limit": limit}
        )
    elif rows:
        session.output.table(rows, VOLUMES)
    else:
        session.output.note("no volumes" + (f" on page {page}" if found.total else ""))
    if found.has_next:
        session.output.note(f"{len(rows)} of {found.total} volumes; next: --page {page + 1}")


@command("get")
@_name
@output_option
@pass_session
async def get(session: Session, name: str) -> None:
    """Show one volume.

    JSON: the volume as the platform sends it.
    """
    async with session.sandboxes() as client:
        _show(session, await client.volumes.get(name))


@command(
    "publish",
    examples="""
    prime-async sandbox volumes publish ID data
    prime-async sandbox volumes publish ID data --force --no-wait
    """,
)
@argument("sandbox_id", type=Identifier(), metavar="SANDBOX", help="A sandbox that mounts it.")
@_name
@asyncclick.option(
    "--force", is_flag=True, help="Also when somebody else has published since it was mounted."
)
@asyncclick.option("--no-wait", is_flag=True, help="Do not wait until the version is durable.")
@output_option
@pass_session
async def publish(session: Session, sandbox_id: str, name: str, force: bool, no_wait: bool) -> None:
    """Let new sandboxes see what one has in a volume.

    JSON: the version, a checkpoint as the platform sends it.
    """
    async with session.sandboxes() as client:
        _show(session, await client.volumes.publish(sandbox_id, name, force, not no_wait))


@command("delete", examples="prime-async sandbox volumes delete data --yes")
@_name
@yes_option
@output_option
@pass_session
async def delete(session: Session, name: str, yes: bool) -> None:
    """Delete a volume and all its versions.

    JSON: {"deleted": NAME}.
    """
    if not confirm(f"Delete volume {name} and all its versions", yes=yes):
        session.output.note("nothing was deleted")
        return
    async with session.sandboxes() as client:
        await client.volumes.delete(name)
    if session.output.json:
        session.output.document({"deleted": name})
    else:
        session.output.text(f"deleted {name}")


def _show(session: Session, record: Any) -> None:
    row = dict(record.to_wire())
    if session.output.json:
        session.output.document(row)
    else:
        session.output.fields(set_fields(row))
