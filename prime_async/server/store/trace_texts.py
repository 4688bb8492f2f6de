"""The full-text index over traces: groups of three characters, so that any part of a word is found.

It only ever says which traces may hold a text. Traces that are not indexed yet always may.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from prime_async.server.store.schema import trace_texts as texts
from prime_async.server.store.schema import trace_uploads as uploads
from prime_async.server.store.schema import traces

__all__ = [
    "Unindexed",
    "add_piece",
    "forget_texts",
    "may_hold",
    "refresh",
    "set_indexed",
    "unindexed",
]

GROUP = 3
"""Characters of a group."""

GROUPS = 64
"""Groups of one query that are looked up; further ones would hardly tell more."""

_STALE = 10_000
"""Pieces of traces that are gone, from which on it is worth to begin the index anew."""

_ADD_PIECE = insert(texts).returning(texts.c.number)
_ADD_WORDS = text("INSERT INTO trace_words (rowid, text) VALUES (:number, :text)")
_CLEAR_WORDS = text("INSERT INTO trace_words (trace_words) VALUES ('delete-all')")
_UNINDEXED = (
    select(traces.c.number, uploads.c.digest, traces.c.offset, traces.c.length)
    .join(uploads, uploads.c.number == traces.c.upload)
    .where(~traces.c.searchable)
    .order_by(traces.c.number)
    .limit(bindparam("count"))
)
_SET_INDEXED = update(traces).where(traces.c.number == bindparam("trace")).values(searchable=True)
_FORGET = delete(texts).where(texts.c.trace == bindparam("of_trace"))


@dataclass(frozen=True, slots=True)
class Unindexed:
    """A trace that waits to be indexed: its number and where its bytes are."""

    number: int
    digest: str
    offset: int
    length: int


def unindexed(connection: Connection, count: int) -> list[Unindexed]:
    """The traces that wait the longest."""
    rows = connection.execute(_UNINDEXED, {"count": count})
    return [Unindexed(*row) for row in rows]


def add_piece(connection: Connection, trace: int, piece: str) -> None:
    """Index a piece of the texts of a trace."""
    number = connection.execute(_ADD_PIECE, {"trace": trace}).scalar_one()
    connection.execute(_ADD_WORDS, {"number": number, "text": piece})


def forget_texts(connection: Connection, trace: int) -> None:
    """Drop what is indexed of a trace."""
    connection.execute(_FORGET, {"of_trace": trace})


def set_indexed(connection: Connection, trace: int) -> None:
    """All of a trace is indexed; what is indexed of one that is gone is dropped."""
    if not connection.execute(_SET_INDEXED, {"trace": trace}).rowcount:
        forget_texts(connection, trace)


def refresh(connection: Connection) -> bool:
    """Begin the index anew when most of it is about traces that are gone; say whether it did."""
    last = connection.execute(select(func.max(texts.c.number))).scalar() or 0
    kept = connection.execute(select(func.count()).select_from(texts)).scalar_one()
    if last - kept < max(_STALE, kept):
        return False
    connection.execute(_CLEAR_WORDS)
    connection.execute(delete(texts))
    connection.execute(text("DELETE FROM sqlite_sequence WHERE name = 'trace_texts'"))
    connection.execute(update(traces).where(traces.c.current).values(searchable=False))
    return True


def may_hold(query: str) -> ColumnElement[bool] | None:
    """The condition on traces that may hold a text; None when all of them may."""
    groups = dict.fromkeys(query[at : at + GROUP] for at in range(len(query) - GROUP + 1))
    # A NUL would end the expression.
    usable = [group for group in groups if "\0" not in group][:GROUPS]
    if not usable:
        return None
    expression = " AND ".join('"' + group.replace('"', '""') + '"' for group in usable)
    words = text("SELECT rowid FROM trace_words WHERE trace_words MATCH :words")
    found = select(texts.c.trace).where(texts.c.number.in_(words.bindparams(words=expression)))
    return or_(~traces.c.searchable, traces.c.number.in_(found))
