"""``traces sync``: what runs left on this disk, to the platform."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli import streams
from prime_async_cli.command import command
from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.options import output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.tables import Column
from prime_async_cli.text import counted, harmless
from prime_async_cli.value_types import FilePath, Seconds

if TYPE_CHECKING:
    from prime_async.runs import KeptRecords, SyncedRecords

__all__ = ["sync"]

_KEPT = (
    Column("RUN", "run_id", whole=True),
    Column("KIND", "kind", drop=1),
    Column("TO", "base_url", drop=3),
    Column("RECORDS", "records", right=True),
    Column("BYTES", "bytes", drop=4, right=True),
    Column("STATE", "state"),
)
_RESULTS = (
    *_KEPT[:3],
    Column("DELIVERED", "delivered", right=True),
    Column("REFUSED", "refused_count", drop=2, right=True),
    Column("STATE", "state"),
)


@command(
    "sync",
    examples="""
    prime-async traces sync --list
    prime-async traces sync
    """,
)
@asyncclick.option("--list", "only_list", is_flag=True, help="Show what is kept; send nothing.")
@asyncclick.option("--watch", is_flag=True, help="Go on, and deliver what comes, until Ctrl-C.")
@asyncclick.option(
    "--interval",
    type=Seconds(0.1, 3600),
    metavar="SECONDS",
    help="Pause between two looks with --watch, 0.1 to 3600. Default: 5.",
)
@asyncclick.option(
    "--from",
    "folder",
    type=FilePath(there=True),
    metavar="DIR",
    help="Take this folder in first, carried here from the spool of another machine.",
)
@output_option
@pass_session
async def sync(
    session: Session, only_list: bool, watch: bool, interval: float | None, folder: Path | None
) -> int:
    """Deliver what runs left on this disk: traces, metrics, samples and ends of runs.

    Each goes to the platform it was meant for, never elsewhere. Several may do this at the same
    time. The exit code is 1 when something is still not delivered, or was refused.

    JSON: {"results": [{"run_id", "kind", "base_url", "path", "records", "bytes", "delivered",
    "refused", "problem"}]}; with --list {"kept": [...]}; with --watch JSON Lines of results.
    """
    if only_list and (watch or folder is not None):
        raise CommandError("--list sends nothing: no --watch or --from with it", code=USAGE)
    if interval is not None and not watch:
        raise CommandError("--interval goes with --watch", code=USAGE)
    if only_list:
        await _list(session)
        return 0
    if watch:
        await _watch(session, folder, interval or 5.0)
        return 0
    return await _deliver(session, folder)


async def _list(session: Session) -> None:
    from anyio import to_thread

    from prime_async.config import PrimePaths, home_directory
    from prime_async.runs import kept_records
    from prime_async.spool import Spool

    home = home_directory()
    if home is None:
        raise CommandError("there is no home folder to look into", hint="set HOME", code=USAGE)
    spool = Spool(PrimePaths(home).root / "spool")
    kept = await to_thread.run_sync(kept_records, spool)
    if session.output.json:
        session.output.document({"kept": [_kept(each) for each in kept]})
    elif kept:
        rows = [{**_kept(each), "state": _state_on_disk(each)} for each in kept]
        session.output.table(rows, _KEPT)
    else:
        session.output.note("nothing is kept on this disk")


async def _deliver(session: Session, folder: Path | None) -> int:
    from prime_async.runs import sync_runs

    async with session.api() as api:
        results = await sync_runs(api, folder)
    if session.output.json:
        session.output.document({"results": [_result(each) for each in results]})
    elif results:
        session.output.table([_row(each) for each in results], _RESULTS)
    else:
        session.output.note("nothing is kept on this disk")
    _refuse(results)
    return 0


async def _watch(session: Session, folder: Path | None, interval: float) -> None:
    from prime_async.runs import sync_runs, watch_runs

    async with session.api() as api:
        if folder is not None:
            for synced in await sync_runs(api, folder):
                _say(session, synced)
        session.output.note("watching; Ctrl-C ends it")
        async for synced in watch_runs(api, interval=interval):
            _say(session, synced)
            if streams.reader_has_gone():
                return


def _say(session: Session, synced: SyncedRecords) -> None:
    if session.output.json:
        session.output.json_line(_result(synced))
        return
    kept = synced.kept
    line = f"{kept.run_id}  {kept.kind}  {counted(synced.delivered, 'record')}  {_state(synced)}"
    session.output.text(harmless(line))


def _refuse(results: Sequence[SyncedRecords]) -> None:
    """Fail for what is not delivered."""
    left = [each for each in results if each.problem is not None]
    refused = sum(len(each.refused) for each in results)
    told = [f"{each.kept.run_id} {each.kept.kind}: {each.problem}" for each in left]
    told += _first_refusals(results)
    if told:
        raise CommandError(
            f"{len(left)} of {len(results)} are not delivered, {counted(refused, 'record')} refused"
            + "".join(f"\n{line}" for line in told),
            hint=_what_next(left),
            left=[str(each.kept.path) for each in left],
        )


def _what_next(left: Sequence[SyncedRecords]) -> str | None:
    """Say how to reach another platform, and how to be rid of what nobody wants any more."""
    if not left:
        return None
    place = left[0].kept.path
    return (
        "each goes to the platform it was meant for: choose that one with --context; "
        f"what is not wanted any more is a folder to delete, such as {place}"
    )


def _first_refusals(results: Iterable[SyncedRecords]) -> list[str]:
    return [
        f"{each.kept.run_id} {each.kept.kind}: {each.refused[0].reason}"
        for each in results
        if each.refused
    ][:10]


def _state(synced: SyncedRecords) -> str:
    if synced.problem is not None:
        return "not delivered"
    return f"{len(synced.refused):,} refused" if synced.refused else "delivered"


def _state_on_disk(kept: KeptRecords) -> str:
    if kept.fault is not None:
        return kept.fault
    return "running" if kept.running else "waiting"


def _kept(kept: KeptRecords) -> dict[str, Any]:
    return {
        "run_id": kept.run_id,
        "kind": kept.kind,
        "base_url": kept.base_url,
        "path": str(kept.path),
        "records": kept.records,
        "bytes": kept.bytes,
        "running": kept.running,
        "fault": kept.fault,
    }


def _result(synced: SyncedRecords) -> dict[str, Any]:
    refused = [
        {"sink": each.sink, "reason": each.reason, "status": each.status} for each in synced.refused
    ]
    return {
        **_kept(synced.kept),
        "delivered": synced.delivered,
        "refused": refused,
        "problem": synced.problem,
    }


def _row(synced: SyncedRecords) -> dict[str, Any]:
    return {**_result(synced), "refused_count": len(synced.refused), "state": _state(synced)}
