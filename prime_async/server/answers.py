"""Answers as bytes, so that an answer can be stored beside the data it reports."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

__all__ = ["Answer", "answer"]


class Answer(NamedTuple):
    """Status and JSON body; ``replayed`` when an earlier request with the same key gave it."""

    status: int
    body: bytes
    replayed: bool = False


def answer(value: Any, status: int = 200) -> Answer:
    """Encode a Struct, mapping or list as an answer."""
    return Answer(status, msgspec.json.encode(value))
