"""``traces list``: pages of traces, episodes or runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.commands.traces import rows
from prime_async_cli.commands.traces.options import (
    chosen,
    cursor_option,
    filter_options,
)
from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.options import Number, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.tables import Column

if TYPE_CHECKING:
    from prime_async.traces import AsyncTracesClient

__all__ = ["list_traces", "page_at", "say_where"]

_OF_TRACES = (
    "run_id",
    "upload_id",
    "upload_context",
    "environment_id",
    "task_id",
    "model_id",
    "outcome",
    "has_error",
    "reward_min",
    "reward_max",
    "created_after",
    "created_before",
    "sort",
)
_OF_AN_EPISODE = tuple(name for name in _OF_TRACES if name not in ("upload_id", "sort"))
_OF_EPISODES = (
    "run_id",
    "upload_id",
    "upload_context",
    "environment_id",
    "outcome",
    "has_error",
    "run_step",
    "created_after",
    "created_before",
)
_OF_RUNS = ("run_type", "created_after", "created_before")
_ALL = tuple(dict.fromkeys((*_OF_TRACES[:4], "episode_id", *_OF_TRACES, *_OF_EPISODES, *_OF_RUNS)))

Fetch = Callable[..., Awaitable[Any]]


@command(
    "list",
    examples="""
    prime-async traces list --run-id TRACED --reward-min 0.5
    prime-async traces list --episodes --env gsm8k
    prime-async traces list --runs --run-type train
    prime-async traces list -c source=nightly -o json | jq -r '.items[].trace_id'
    """,
)
@asyncclick.option("--episodes", is_flag=True, help="List episodes instead of traces.")
@asyncclick.option("--runs", is_flag=True, help="List runs, their traces added up.")
@filter_options(*_ALL)
@asyncclick.option(
    "-n",
    "--limit",
    type=Number(1, 100),
    default=20,
    show_default=True,
    help="Rows of one page, at most 100.",
)
@asyncclick.option(
    "-p",
    "--page",
    type=Number(1, 100_000),
    help="Which page, from 1. All before it are read too: --cursor is quicker.",
)
@cursor_option
@output_option
@pass_session
async def list_traces(
    session: Session,
    /,
    episodes: bool,
    runs: bool,
    page: int | None,
    cursor: str | None,
    limit: int,
    **given: Any,
) -> None:
    """List traces, episodes or runs.

    Traces and episodes come newest first, runs by their latest upload.

    JSON: {"items": [...], "next_cursor"}, as the platform sends them.
    """
    if page is not None and cursor is not None:
        raise CommandError("--page and --cursor exclude each other", code=USAGE)
    what, filters = _wanted(given, episodes=episodes, runs=runs)
    async with session.traces() as client:
        fetch = _fetch(client, what, filters)
        found = await page_at(fetch, page or 1, cursor, limit)
    if session.output.json:
        session.output.document(found)
        return
    if found.items:
        session.output.table(found.items, _columns(session, what, filters))
    say_where(session, what, found.items, page, found.next_cursor)


def _wanted(given: dict[str, Any], *, episodes: bool, runs: bool) -> tuple[str, dict[str, Any]]:
    """Say what is listed and by which filters."""
    if episodes and runs:
        raise CommandError("--episodes and --runs exclude each other", code=USAGE)
    allowed: tuple[str, ...]
    if runs:
        what, allowed, spoken = "runs", _OF_RUNS, "--runs"
    elif episodes:
        what, allowed, spoken = "episodes", _OF_EPISODES, "--episodes"
    elif given["episode_id"]:
        what, allowed, spoken = "traces", (*_OF_AN_EPISODE, "episode_id"), "--episode-id"
    else:
        what, allowed, spoken = "traces", _OF_TRACES, "a list of traces"
    return what, chosen(given, allowed, spoken)


def _fetch(client: AsyncTracesClient, what: str, filters: dict[str, Any]) -> Fetch:
    if what == "runs":
        method: Fetch = client.list_runs
    elif what == "episodes":
        method = client.list_episodes
    elif "episode_id" in filters:
        method = client.list_episode_traces
    else:
        method = client.list

    async def fetch(limit: int, cursor: str | None) -> Any:
        return await method(limit=limit, cursor=cursor, **filters)

    return fetch


async def page_at(fetch: Fetch, number: int, cursor: str | None, limit: int) -> Any:
    """Return a page by its number, which takes as many requests, or the one at a cursor."""
    found = await fetch(limit, cursor)
    for _ in range(1, number):
        if found.next_cursor is None:
            return type(found)(items=[], next_cursor=None)
        found = await fetch(limit, found.next_cursor)
    return found


def _columns(session: Session, what: str, filters: dict[str, Any]) -> Sequence[Column]:
    if what == "runs":
        return rows.RUNS
    if what == "episodes":
        return rows.EPISODES
    if "episode_id" in filters:
        return rows.EPISODE_TRACES
    return rows.TEAM_TRACES if session.settings().team_id else rows.TRACES


def say_where(
    session: Session, things: str, items: Sequence[Any], page: int | None, cursor: str | None
) -> None:
    """Tell what is on this page and how to get the next."""
    if not items and cursor is None:
        session.output.note(f"no {things}" + (f" on page {page}" if page else ""))
    elif cursor is not None:
        session.output.note(f"{len(items)} {things}; next: --cursor {cursor}")
