"""``traces get``: one trace, episode or run, or its exact document."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.commands.traces import rows
from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.options import Identifier, argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.value_types import FilePath

if TYPE_CHECKING:
    from prime_async.traces import AsyncTracesClient

__all__ = ["get"]

_MEMBERS = 20


@command(
    "get",
    examples="""
    prime-async traces get TRACE
    prime-async traces get TRACE --raw > trace.json
    prime-async traces get TRACE --dest trace.json
    prime-async traces get --runs TRACED
    """,
)
@argument("thing_id", type=Identifier(), metavar="ID", help="The id of the trace, episode or run.")
@asyncclick.option("--episodes", is_flag=True, help="It is an episode; shows its newest traces.")
@asyncclick.option("--runs", is_flag=True, help="It is a run; shows its steps too.")
@asyncclick.option("--raw", is_flag=True, help="Write the document exactly as it was uploaded.")
@asyncclick.option(
    "--dest", type=FilePath(), metavar="FILE", help="Write that document into this file instead."
)
@output_option
@pass_session
async def get(
    session: Session, thing_id: str, episodes: bool, runs: bool, raw: bool, dest: Path | None
) -> None:
    """Show one trace, episode or run.

    The document of an episode has the ids of its traces in their place.

    JSON: the object as the platform sends it, of a run with "steps": [...]; with --raw the
    document; with --dest {"dest", "bytes_written"}.
    """
    if episodes and runs:
        raise CommandError("--episodes and --runs exclude each other", code=USAGE)
    if runs and (raw or dest is not None):
        raise CommandError("a run has no document: no --raw or --dest with --runs", code=USAGE)
    async with session.traces() as client:
        if dest is not None:
            await _save(session, client, thing_id, dest, episodes=episodes)
        elif raw:
            await _write_raw(client, thing_id, episodes=episodes)
        elif runs:
            await _run(session, client, thing_id)
        elif episodes:
            await _episode(session, client, thing_id)
        else:
            await _trace(session, client, thing_id)


async def _save(
    session: Session, client: AsyncTracesClient, thing_id: str, dest: Path, *, episodes: bool
) -> None:
    if episodes:
        from prime_async.localfiles import AtomicFile

        document = await client.get_episode_raw(thing_id)
        async with AtomicFile(dest) as file:
            await file.write(document)
            await file.commit()
        written = len(document)
    else:
        written = await client.download_raw(thing_id, dest)
    if session.output.json:
        session.output.document({"dest": str(dest), "bytes_written": written})
    else:
        session.output.fields([("file", str(dest)), ("bytes", f"{written:,}")])


async def _write_raw(client: AsyncTracesClient, thing_id: str, *, episodes: bool) -> None:
    from prime_async_cli.rawio import Outlet

    read = client.get_episode_raw if episodes else client.get_raw
    document = await read(thing_id)
    with Outlet() as outlet:
        try:
            await outlet.write(1, document)
        except BrokenPipeError:  # whoever reads has seen enough
            return


async def _trace(session: Session, client: AsyncTracesClient, trace_id: str) -> None:
    trace = await client.get(trace_id)
    if session.output.json:
        session.output.document(trace)
    else:
        session.output.fields(rows.trace_fields(trace))


async def _episode(session: Session, client: AsyncTracesClient, episode_id: str) -> None:
    episode = await client.get_episode(episode_id)
    if session.output.json:
        session.output.document(episode)
        return
    session.output.fields(rows.episode_fields(episode))
    members = (await client.list_episode_traces(episode_id, limit=_MEMBERS)).items
    if members:
        session.output.text("")
        session.output.table(list(reversed(members)), rows.EPISODE_TRACES)
    if episode.traces.trace_count > len(members):
        session.output.note(f"the newest {len(members)} of {episode.traces.trace_count} traces")


async def _run(session: Session, client: AsyncTracesClient, run_id: str) -> None:
    run = await client.get_run(run_id)
    steps = (await client.list_run_steps(run_id)).items if run.step_count else []
    if session.output.json:
        session.output.document({**run.to_wire(), "steps": steps})
        return
    session.output.fields(rows.run_fields(run))
    if steps:
        session.output.text("")
        session.output.table(steps, rows.STEPS)
