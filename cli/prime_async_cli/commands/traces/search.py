"""``traces search``: a text in the messages of a run, with what stands around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncclick
from asyncclick import Context, Parameter

from prime_async_cli import streams
from prime_async_cli.command import command
from prime_async_cli.commands.traces.options import cursor_option, filter_options
from prime_async_cli.options import Identifier, Number, Text, argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.tables import Column, fitted_table
from prime_async_cli.text import cell_width, counted, harmless, paint

if TYPE_CHECKING:
    from prime_async.traces import SearchField, TraceSearchMatch, TraceSearchPage

__all__ = ["search"]

_LEAST_ROOM = 20


class _Needle(Text):
    """What to search for: 3 to 256 characters, not all of them blank."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:
        text = super().convert(value, param, ctx)
        if not 3 <= len(text) <= 256:
            self.fail(f"it has {len(text):,} characters, not 3 to 256", param, ctx)
        if not text.strip():
            self.fail("it is blank", param, ctx)
        return text


@command(
    "search",
    examples="""
    prime-async traces search Traceback --run-id TRACED
    prime-async traces search "rm -rf" --run-id TRACED --field tool_calls
    prime-async traces search "I cannot" --run-id TRACED --role assistant --has-error
    """,
)
@argument("query", type=_Needle(), metavar="TEXT", help="The text, exactly as it is written.")
@asyncclick.option(
    "-r", "--run-id", type=Identifier(), required=True, help="The run to search in; required."
)
@asyncclick.option(
    "--field",
    type=asyncclick.Choice(["content", "reasoning_content", "tool_calls"]),
    default="content",
    show_default=True,
    help="The part of the messages; tool_calls are searched as JSON.",
)
@asyncclick.option(
    "--role",
    metavar="TEXT",
    help="Only messages of this role: system, user, assistant or tool.",
)
@filter_options("run_step", "has_error", "reward_min", "reward_max")
@asyncclick.option(
    "-n",
    "--limit",
    type=Number(1, 100),
    default=50,
    show_default=True,
    help="Matches of one page, at most 100.",
)
@cursor_option
@output_option
@pass_session
async def search(
    session: Session, /, query: str, run_id: str, field: SearchField, **given: Any
) -> None:
    """Find a text in the messages of a run.

    A match is one message; its first place is shown. Upper and lower case differ.

    JSON: {"items": [...], "next_cursor", "coverage"}, as the platform sends them.
    """
    async with session.traces() as client:
        page = await client.search(query, run_id=run_id, field=field, **given)
    if session.output.json:
        session.output.document(page)
        return
    if page.items:
        _show(session, page.items)
    _say_how_many(session, page)


def _say_how_many(session: Session, page: TraceSearchPage) -> None:
    matches, traces = len(page.items), len({match.trace_id for match in page.items})
    more = f"; next: --cursor {page.next_cursor}" if page.next_cursor else ""
    found = "1 match" if matches == 1 else f"{matches:,} matches"
    session.output.note(f"{found} in {counted(traces, 'trace')}{more}")
    coverage = page.coverage
    if coverage is None:
        return
    waiting = len(coverage.unindexed_trace_ids)
    if waiting:
        session.output.warn(f"{counted(waiting, 'trace')} or more cannot be searched yet")
    if coverage.partial_index:
        session.output.warn("some traces have more messages than can be searched")


def _show(session: Session, matches: Sequence[TraceSearchMatch]) -> None:
    """Write the table, on a terminal with the match in view and painted."""
    output = session.output
    if not output.drawn:
        output.table(_rows(matches, None), _COLUMNS)
        return
    width = streams.screen_width()
    excerpts = [_excerpt(match, _room(matches, width)) for match in matches]
    table, left_out = fitted_table(
        _rows(matches, excerpts), _COLUMNS, width, colour=output.coloured
    )
    heading, rule, *lines = table.splitlines(keepends=True)
    painted = [
        _highlighted(line, excerpt, colour=output.coloured)
        for line, excerpt in zip(lines, excerpts, strict=True)
    ]
    streams.write("".join([heading, rule, *painted]))
    if left_out:
        output.note(f"no room for {', '.join(left_out)}: widen the window, or use --plain")


class _Excerpt(NamedTuple):
    """Harmless text around a match, and the match within it."""

    text: str
    start: int
    end: int


_COLUMNS = (
    Column("TRACE ID", "trace_id", whole=True),
    Column("NODE", "node_idx", drop=2, right=True),
    Column("ROLE", "role", drop=3),
    Column("MATCH", "match", drop=1),
)


def _rows(
    matches: Sequence[TraceSearchMatch], excerpts: Sequence[_Excerpt] | None
) -> list[Mapping[str, Any]]:
    """The id of a trace stands at its first match only, where a person reads the table."""
    rows: list[Mapping[str, Any]] = []
    before = None
    for place, match in enumerate(matches):
        repeated = excerpts is not None and match.trace_id == before
        rows.append(
            {
                "trace_id": '"' if repeated else match.trace_id,
                "node_idx": match.node_idx,
                "role": match.role,
                "match": match.excerpt if excerpts is None else excerpts[place].text,
            }
        )
        before = match.trace_id
    return rows


def _room(matches: Sequence[TraceSearchMatch], width: int) -> int:
    """Return the columns that are left for the excerpts."""
    taken = sum(
        2 + max(cell_width(column.title), *(cell_width(column.text(match)) for match in matches))
        for column in _COLUMNS[:-1]
    )
    return max(_LEAST_ROOM, width - taken)


def _excerpt(match: TraceSearchMatch, room: int) -> _Excerpt:
    """Cut the excerpt so that the match is in the middle of the room it has."""
    start = match.match_start - match.excerpt_start
    end = match.match_end - match.excerpt_start
    hit = harmless(match.excerpt[start:end])
    before, after = harmless(match.excerpt[:start]), harmless(match.excerpt[end:])
    spare = max(0, room - cell_width(hit))
    left = _tail(before, max(spare // 2, spare - cell_width(after)))
    right = _head(after, spare - cell_width(left))
    return _Excerpt(left + hit + right, len(left), len(left) + len(hit))


def _tail(text: str, room: int) -> str:
    while cell_width(text) > room:
        text = text[1:]
    return text


def _head(text: str, room: int) -> str:
    while cell_width(text) > room:
        text = text[:-1]
    return text


def _highlighted(line: str, excerpt: _Excerpt, *, colour: bool) -> str:
    place = line.rfind(excerpt.text.rstrip())
    if place < 0:  # the table had no room for it
        return line
    start, end = place + excerpt.start, place + excerpt.end
    return line[:start] + paint(line[start:end], "yellow", colour) + line[end:]
