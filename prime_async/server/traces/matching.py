"""Finds a query in the messages of a trace: exactly, with case, the first match of each message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from prime_async.server.traces.texts import texts_of
from prime_async.traces.codes import SearchField

__all__ = ["Match", "Query"]

AROUND = 64
"""Characters of the text before and after a match that are shown with it."""


@dataclass(frozen=True, slots=True)
class Match:
    """The first match in one message; places count code points of its field."""

    node: int
    role: str
    field: SearchField
    representation: Literal["text", "json"]
    start: int
    end: int
    excerpt: str
    excerpt_start: int


class Query:
    """A text to find in one field of messages, of one role if one is named."""

    def __init__(self, text: str, field: SearchField, role: str | None = None) -> None:
        self.text = text
        self._field = field
        self._role = role
        # Spelled as JSON, with as few escapes as possible and as it is.
        self._spellings = {json.dumps(text, ensure_ascii=False)[1:-1].encode(), text.encode()}

    def matches(self, trace: bytes, *, after: int = -1) -> Iterator[Match]:
        """The matches in a stored trace, in messages behind ``after``."""
        if not self._may_be_in(trace):
            return
        for one in texts_of(trace, (self._field,)):
            if one.node <= after or self._role not in {None, one.role}:
                continue
            start = one.text.find(self.text)
            if start < 0:
                continue
            end, first = start + len(self.text), max(0, start - AROUND)
            excerpt = one.text[first : end + AROUND]
            yield Match(
                one.node, one.role, one.field, one.representation, start, end, excerpt, first
            )

    def _may_be_in(self, trace: bytes) -> bool:
        """Whether it is worth to decode the trace: JSON has other spellings only by escapes."""
        escaped = b"\\u" in trace or ("/" in self.text and b"\\/" in trace)
        return escaped or any(spelling in trace for spelling in self._spellings)
