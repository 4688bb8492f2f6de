"""``sandbox list``, ``get`` and ``logs``."""

from __future__ import annotations

import asyncclick

from prime_async_cli import streams
from prime_async_cli.command import command
from prime_async_cli.commands.sandbox.rows import SANDBOXES, masked, sandbox_fields
from prime_async_cli.options import (
    Identifier,
    Number,
    Word,
    argument,
    output_option,
    page_options,
)
from prime_async_cli.session import Session, pass_session
from prime_async_cli.text import harmless, without_colour
from prime_async_cli.value_types import Seconds

__all__ = ["get", "list_sandboxes", "logs"]

_STATUSES = ("PENDING", "PROVISIONING", "RUNNING", "PAUSED", "ERROR", "TERMINATED", "TIMEOUT")


@command(
    "list",
    examples="""
    prime-async sandbox list --label ci
    prime-async sandbox list --all --output json | jq -r '.sandboxes[].id'
    """,
)
@asyncclick.option(
    "--status",
    type=asyncclick.Choice(_STATUSES, case_sensitive=False),
    help="Only those with this status.",
)
@asyncclick.option(
    "-l",
    "--label",
    "labels",
    multiple=True,
    type=Word(),
    metavar="TEXT",
    help="Only those with it; again: with all.",
)
@asyncclick.option("--all", "everything", is_flag=True, help="Those that have ended too.")
@page_options(limit=50, most=100)
@output_option
@pass_session
async def list_sandboxes(
    session: Session,
    status: str | None,
    labels: tuple[str, ...],
    everything: bool,
    page: int,
    limit: int,
) -> None:
    """List sandboxes, the newest first.

    JSON: {"sandboxes": [...], "total", "page", "limit"}; the values of environments hidden.
    """
    async with session.sandboxes() as client:
        found = await client.list(
            status=status,
            labels=labels or None,
            page=page,
            per_page=limit,
            exclude_terminated=None if everything or status else True,
        )
    rows = [masked(sandbox) for sandbox in found.sandboxes]
    if session.output.json:
        session.output.document(
            {"sandboxes": rows, "total": found.total, "page": page, "limit": limit}
        )
        return
    if rows:
        session.output.table(rows, SANDBOXES)
    elif found.total:
        session.output.note(f"no sandboxes on page {page}; there are {found.total}")
    else:
        session.output.note("no sandboxes" + ("" if everything or status else " are alive"))
    if found.has_next:
        session.output.note(f"{len(rows)} of {found.total} sandboxes; next: --page {page + 1}")


@command("get")
@argument("sandbox_id", type=Identifier(), metavar="ID", help="The id of the sandbox.")
@output_option
@pass_session
async def get(session: Session, sandbox_id: str) -> None:
    """Show one sandbox.

    JSON: the object as the platform sends it, the values of its environment hidden.
    """
    async with session.sandboxes() as client:
        row = masked(await client.get(sandbox_id))
    if session.output.json:
        session.output.document(row)
    else:
        session.output.fields(sandbox_fields(row))


@command("logs", examples="prime-async sandbox logs ID --follow")
@argument("sandbox_id", type=Identifier(), metavar="ID", help="The id of the sandbox.")
@asyncclick.option(
    "-n",
    "--tail",
    type=Number(0, 1_000_000),
    default=1000,
    show_default=True,
    help="How many of the last lines to begin with.",
)
@asyncclick.option("-f", "--follow", is_flag=True, help="Go on until the sandbox ends.")
@asyncclick.option(
    "--poll-interval",
    type=Seconds(0.1, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Pause between two looks, with --follow.",
)
@output_option
@pass_session
async def logs(
    session: Session, sandbox_id: str, tail: int, follow: bool, poll_interval: float
) -> None:
    """Show what its start command writes.

    JSON: {"sandbox_id", "logs"}; not with --follow.
    """
    if follow and session.output.json:
        raise asyncclick.UsageError("--follow writes lines as they come, not one JSON document")
    async with session.sandboxes() as client:
        if follow:
            await _follow(session, client, sandbox_id, tail, poll_interval)
            return
        lines = (await client.get_logs(sandbox_id)).splitlines(keepends=True)
        shown = "".join(lines[len(lines) - min(tail, len(lines)) :])
        if session.output.json:
            session.output.document({"sandbox_id": sandbox_id, "logs": shown})
        else:
            _show(shown, follow=False)


async def _follow(
    session: Session, client: object, sandbox_id: str, tail: int, pause: float
) -> None:
    from anyio import sleep

    from prime_async.evals.hosted_logs import LogLines
    from prime_async.sandboxes import AsyncSandboxClient
    from prime_async.sandboxes.models import ENDED_STATUSES

    assert isinstance(client, AsyncSandboxClient)
    lines = LogLines(tail)
    while not streams.reader_has_gone():
        # Status first: what is written between the two calls is then still fetched.
        status = (await client.get(sandbox_id)).status
        ended = status in ENDED_STATUSES
        fresh = lines.take(await client.get_logs(sandbox_id), ended=ended)
        _show("".join(f"{line}\n" for line in fresh), follow=True)
        if ended:
            session.output.note(f"sandbox {sandbox_id} ended: {status}")
            return
        await sleep(pause)


def _show(text: str, *, follow: bool) -> None:
    if text:
        clean = harmless(without_colour(text), lines=True)
        streams.write(clean if follow or clean.endswith("\n") else clean + "\n")
