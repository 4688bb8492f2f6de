"""The message graph of a trace, out of calls that each repeat everything said before.

A call's messages are a path from a root; the next call repeats the path and goes on. So messages
that are the same at the same place are one node, and where two calls part, the graph has branches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from prime_async.traces.genai.messages import Message

__all__ = ["Graph"]

Node = dict[str, Any]


class Graph:
    """The nodes so far, in the order of their arrival; a parent comes before its children."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: dict[tuple[int | None, bytes], int] = {}
        self._callers: dict[str, int] = {}
        self._answers: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def walk(self, messages: Iterable[Message], time: float) -> int | None:
        """Go along a path, adding what is new of it; return its last node."""
        place: int | None = None
        for message in messages:
            place = self.add(place, message, time, sampled=False)
        return place

    def add(self, parent: int | None, message: Message, time: float, *, sampled: bool) -> int:
        """Add a message behind another one, unless it is there; return its node."""
        known = (parent, _key(message))
        place = self._known.get(known)
        if place is None:
            place = len(self.nodes)
            node = {"parent": parent, "message": message, "sampled": sampled, "timestamp": time}
            self.nodes.append(node)
            self._known[known] = place
            if parent is not None and message["role"] == "tool":
                self._answers.setdefault(parent, place)
            for call in message.get("tool_calls") or ():
                if isinstance(call.get("id"), str):
                    self._callers[call["id"]] = place
        elif sampled:
            self.nodes[place]["sampled"] = True
        return place

    def answer(self, call_id: str | None, message: Message, time: float) -> int | None:
        """Add what a tool answered behind the message that called it; None when none did."""
        caller = self._callers.get(call_id or "")
        if caller is None:
            return None
        return self.add(self._behind(caller), message, time, sampled=False)

    def _behind(self, caller: int) -> int:
        """The last answer to a message's calls, which the next one follows."""
        # The chain of answers only ever grows at its end.
        place = self._ends.get(caller, caller)
        while place in self._answers:
            place = self._answers[place]
        self._ends[caller] = place
        return place


def _key(message: Message) -> bytes:
    """What makes a message the same one when it is repeated: reasoning is often left out then."""
    told = message.get("content") or None
    calls = message.get("tool_calls")
    if message["role"] == "tool" and message.get("tool_call_id"):
        told = message["tool_call_id"]
    return msgspec.json.encode([message["role"], told, calls])
