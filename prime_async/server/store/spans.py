"""Spans in the store, by owner, trace and id, and the account of each trace that is made of them.

What one request costs depends on the spans in it, never on how many its traces have already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, bindparam, select, update
from sqlalchemy.dialects.sqlite import insert

from prime_async.server.store.schema import otlp_spans as table
from prime_async.server.store.schema import otlp_traces as totals

__all__ = [
    "Kept",
    "Room",
    "SpanRow",
    "Waiting",
    "give_up",
    "of_trace",
    "put",
    "set_made",
    "waiting",
]

Item = TypeVar("Item")

_AT_ONCE = 500
"""Values in one ``IN (…)``."""


class SpanRow(NamedTuple):
    """One span; ``data`` is its JSON text."""

    trace_id: str
    span_id: str
    started_at: float
    data: bytes


class Room(NamedTuple):
    """What one trace may have: spans, and bytes of their texts."""

    spans: int
    bytes: int


class Kept(NamedTuple):
    """What became of the spans of a request: why some are not kept, and which traces have grown so
    much that it is worth to make them anew now.
    """

    over: list[str]
    grown: list[str]


class Waiting(NamedTuple):
    """A trace with spans it is not made of yet, as it was at one moment."""

    number: int
    trace_id: str
    user_id: str
    spans: int
    bytes: int
    pending: int


_WAITING = tuple(totals.c[name] for name in Waiting._fields)

# Statements on the way of every request are built once: building one costs more than running it.
_ADD = insert(table)
_ADD = _ADD.on_conflict_do_update(
    index_elements=(table.c.owner, table.c.trace_id, table.c.span_id),
    set_={"started_at": _ADD.excluded.started_at, "data": _ADD.excluded.data},
)
_COUNT = insert(totals)
_COUNT = _COUNT.on_conflict_do_update(
    index_elements=(totals.c.owner, totals.c.trace_id),
    set_={name: _COUNT.excluded[name] for name in ("user_id", "spans", "bytes", "pending")},
)
_TOTALS = select(
    totals.c.trace_id, totals.c.spans, totals.c.bytes, totals.c.made, totals.c.pending
).where(
    totals.c.owner == bindparam("owner"),
    totals.c.trace_id.in_(bindparam("ids", expanding=True)),
)
_KNOWN = select(table.c.span_id, table.c.data).where(
    table.c.owner == bindparam("owner"),
    table.c.trace_id == bindparam("trace_id"),
    table.c.span_id.in_(bindparam("ids", expanding=True)),
)
_OF_TRACE = (
    select(table.c.data)
    .where(table.c.owner == bindparam("owner"), table.c.trace_id == bindparam("trace_id"))
    .order_by(table.c.started_at, table.c.span_id)
)


class _Total:
    """The account of one trace while spans are added to it."""

    def __init__(self, spans: int = 0, size: int = 0, made: int = 0, pending: int = 0) -> None:
        self.spans = spans
        self.bytes = size
        self.made = made
        self.pending = pending

    def take(self, row: SpanRow, known: bytes | None, room: Room) -> str | None:
        """Count a span that is new or changed; return why it does not fit."""
        if known is None and self.spans >= room.spans:
            return f"span {row.span_id}: its trace has {room.spans} spans already"
        size = self.bytes + len(row.data) - len(known or b"")
        if size > room.bytes:
            return f"span {row.span_id}: the spans of its trace would have over {room.bytes} bytes"
        self.spans += known is None
        self.bytes = size
        self.pending += 1
        return None

    @property
    def grown(self) -> bool:
        # Twice as many spans as the last time: so that all making anew takes no longer than the
        # spans are many, however many requests bring them.
        return 0 < self.pending >= self.made


def put(
    connection: Connection, owner: str, user_id: str, rows: Sequence[SpanRow], room: Room
) -> Kept:
    """Keep spans, a later one in place of an earlier one with its id.

    Args:
        user_id: the account that sends them.
        room: what is left out because a trace has no more of it is named in the answer.
    """
    latest = {(row.trace_id, row.span_id): row for row in rows}
    accounts = _accounts(connection, owner, {row.trace_id for row in rows})
    known = _known(connection, owner, latest)
    over: list[str] = []
    changed: list[SpanRow] = []
    for key, row in latest.items():
        if known.get(key) == row.data:
            continue
        reason = accounts[row.trace_id].take(row, known.get(key), room)
        if reason is None:
            changed.append(row)
        else:
            over.append(reason)
    touched = dict.fromkeys(row.trace_id for row in changed)
    if changed:
        connection.execute(_ADD, [{"owner": owner, **row._asdict()} for row in changed])
        counted = [_counted(owner, user_id, one, accounts[one]) for one in touched]
        connection.execute(_COUNT, counted)
    return Kept(over, [one for one in touched if accounts[one].grown])


def _accounts(connection: Connection, owner: str, ids: Collection[str]) -> dict[str, _Total]:
    accounts = {trace_id: _Total() for trace_id in ids}
    for some in _slices(list(ids)):
        for row in connection.execute(_TOTALS, {"owner": owner, "ids": some}):
            accounts[row[0]] = _Total(*row[1:])
    return accounts


def _counted(owner: str, user_id: str, trace_id: str, total: _Total) -> dict[str, Any]:
    return {
        "owner": owner,
        "trace_id": trace_id,
        "user_id": user_id,
        "spans": total.spans,
        "bytes": total.bytes,
        "made": total.made,
        "pending": total.pending,
    }


def _known(
    connection: Connection, owner: str, keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], bytes]:
    """The texts of those spans that are kept already."""
    by_trace: dict[str, list[str]] = {}
    for trace_id, span_id in keys:
        by_trace.setdefault(trace_id, []).append(span_id)
    known: dict[tuple[str, str], bytes] = {}
    for trace_id, ids in by_trace.items():
        for some in _slices(ids):
            names = {"owner": owner, "trace_id": trace_id, "ids": some}
            for row in connection.execute(_KNOWN, names):
                known[trace_id, row.span_id] = row.data
    return known


def _slices(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def waiting(
    connection: Connection, owner: str, trace_ids: Sequence[str] | None = None
) -> list[Waiting]:
    """The traces with spans they are not made of yet: all of an owner, or those of some ids."""
    query = select(*_WAITING).where(totals.c.owner == owner, totals.c.pending > 0)
    if trace_ids is None:
        return [Waiting(*row) for row in connection.execute(query)]
    found: list[Waiting] = []
    for some in _slices(trace_ids):
        rows = connection.execute(query.where(totals.c.trace_id.in_(some)))
        found += [Waiting(*row) for row in rows]
    return found


def of_trace(connection: Connection, owner: str, trace_id: str) -> Iterator[bytes]:
    """The texts of all spans of a trace, in the order they began."""
    yield from connection.execute(_OF_TRACE, {"owner": owner, "trace_id": trace_id}).scalars()


def set_made(connection: Connection, made: Sequence[Waiting]) -> bool:
    """Note that traces are made of the spans they had; False, and nothing, when one has been
    deleted since.
    """
    numbers = [one.number for one in made]
    for some in _slices(numbers):
        query = select(totals.c.number).where(totals.c.number.in_(some))
        if len(connection.execute(query).all()) != len(some):
            return False
    for one in made:
        left = {"made": one.spans, "pending": totals.c.pending - one.pending}
        connection.execute(update(totals).where(totals.c.number == one.number).values(left))
    return True


def give_up(connection: Connection, one: Waiting) -> None:
    """Leave a trace as it is until further spans arrive."""
    set_made(connection, [one])
