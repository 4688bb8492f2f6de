"""One page out of more: a row too many is asked for, to know whether there is a next page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from prime_async.server.answers import Answer, answer
from prime_async.server.endpoints import Call
from prime_async.server.traces.cursors import Position, write_cursor

__all__ = ["page_answer"]

Row = TypeVar("Row")


def page_answer(
    call: Call,
    rows: Sequence[Row],
    limit: int,
    show: Callable[[Row], dict[str, Any]],
    place: Callable[[Row], Position],
    **more: Any,
) -> Answer:
    """The answer of a page.

    Args:
        rows: up to one more than ``limit``.
        show: a row as the wire has it.
        place: where a row is in the order of the page.
        more: further members of the answer.
    """
    shown = rows[:limit]
    cursor = write_cursor(call, place(shown[-1])) if len(rows) > limit else None
    items = [show(row) for row in shown]
    return answer({"items": items, "next_cursor": cursor, **more})
