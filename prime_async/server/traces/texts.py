"""The texts of a trace that can be searched: content, reasoning and tool calls of its messages.

A field that is a string is text, decoded; anything else, and tool calls always, is the JSON that
was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from prime_async.server.traces.windows import in_windows
from prime_async.traces.codes import SearchField

__all__ = ["FIELDS", "LONGEST_QUERY", "PIECE_CHARACTERS", "Text", "pieces_of", "texts_of"]

FIELDS: tuple[SearchField, ...] = ("content", "reasoning_content", "tool_calls")

PIECE_CHARACTERS = 64 * 1024
"""Length of a piece of text that is indexed at once: small pieces tell more about their place."""

LONGEST_QUERY = 256
"""Pieces of one text overlap by this much, so that any query is whole in one of them."""

_ABSENT = msgspec.Raw(b"null")


class _Message(msgspec.Struct, gc=False):
    role: Any = None
    content: msgspec.Raw = _ABSENT
    reasoning_content: msgspec.Raw = _ABSENT
    tool_calls: msgspec.Raw = _ABSENT


class _Node(msgspec.Struct, gc=False):
    parent: Any = None
    message: _Message | None = None


class _Nodes(msgspec.Struct):
    nodes: list[_Node] | None = None


class _OddNodes(msgspec.Struct):
    nodes: list[msgspec.Raw] | None = None


_nodes = msgspec.json.Decoder(_Nodes)
_list = msgspec.json.Decoder(list[_Node])
_odd_nodes = msgspec.json.Decoder(_OddNodes)
_node = msgspec.json.Decoder(_Node)
_string = msgspec.json.Decoder(str)


@dataclass(frozen=True, slots=True)
class Text:
    """One field of one message."""

    node: int
    role: str
    field: SearchField
    representation: Literal["text", "json"]
    text: str


def texts_of(trace: bytes, fields: Iterable[SearchField] = FIELDS) -> Iterator[Text]:
    """The texts of a stored trace, in the order of its messages."""
    for index, message in enumerate(_messages(trace)):
        if message is None:
            continue
        role = message.role if isinstance(message.role, str) else ""
        for field in fields:
            raw: msgspec.Raw = getattr(message, field)
            if raw != _ABSENT:
                yield _text(index, role, field, raw)


def _messages(trace: bytes) -> list[_Message | None]:
    windows = in_windows(trace, "nodes", _list.decode)
    try:
        if windows is not None:
            last = _nodes.decode(windows.rest).nodes or []
            if last and last[0].parent == windows.mark:
                return [node.message for node in (*windows.elements, *last[1:])]
        nodes = _nodes.decode(trace).nodes or []
    except msgspec.ValidationError:
        return _odd_messages(trace)
    return [node.message for node in nodes]


def _odd_messages(trace: bytes) -> list[_Message | None]:
    """What can be read of a graph that has something in it which is no node."""
    try:
        texts = _odd_nodes.decode(trace).nodes or []
    except msgspec.ValidationError:
        return []
    return [_odd_message(text) for text in texts]


def _odd_message(text: msgspec.Raw) -> _Message | None:
    try:
        return _node.decode(text).message
    except msgspec.ValidationError:
        return None


def _text(index: int, role: str, field: SearchField, raw: msgspec.Raw) -> Text:
    recorded = bytes(raw)
    if field != "tool_calls" and recorded.startswith(b'"'):
        return Text(index, role, field, "text", _string.decode(recorded))
    return Text(index, role, field, "json", recorded.decode("utf-8"))


def pieces_of(texts: Iterable[Text]) -> Iterator[str]:
    """The texts as pieces to index: short ones together, long ones cut with an overlap."""
    waiting: list[str] = []
    size = 0
    for one in texts:
        for start in range(0, max(1, len(one.text) - LONGEST_QUERY), PIECE_CHARACTERS):
            piece = one.text[start : start + PIECE_CHARACTERS + LONGEST_QUERY]
            if size + len(piece) > PIECE_CHARACTERS and waiting:
                yield _joined(waiting)
                waiting, size = [], 0
            waiting.append(piece)
            size += len(piece)
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[str]) -> str:
    # A NUL would be the end for the index.
    return "\n".join(pieces).replace("\0", "\n")
