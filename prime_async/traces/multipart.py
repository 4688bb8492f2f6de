"""The body of an upload: a form of two parts, what is said of the lines, and the lines."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping

import msgspec

from prime_async.traces.compression import EncodedBody

__all__ = ["UploadBody"]


class UploadBody:
    """A form that can be sent any number of times, always the same, and is never joined.

    Args:
        lines: the bytes of the batch as they travel.
        schema_version: of the records.
        context: what is said of every record; an empty one is left out.
    """

    def __init__(
        self, lines: EncodedBody, *, schema_version: int = 1, context: Mapping[str, str] | None
    ) -> None:
        boundary = f"prime-{secrets.token_hex(16)}"
        self.content_type = f"multipart/form-data; boundary={boundary}"
        said = {"schema_version": schema_version, **({"context": dict(context)} if context else {})}
        coding = f"Content-Encoding: {lines.encoding}\r\n" if lines.encoding else ""
        self._head = (
            f"--{boundary}\r\n"
            'Content-Disposition: form-data; name="metadata"\r\n'
            "Content-Type: application/json\r\n\r\n"
            f"{msgspec.json.encode(said).decode()}\r\n"
            f"--{boundary}\r\n"
            'Content-Disposition: form-data; name="traces"; filename="traces.jsonl"\r\n'
            f"Content-Type: application/x-ndjson\r\n{coding}\r\n"
        ).encode()
        self._lines = lines
        self._tail = f"\r\n--{boundary}--\r\n".encode()

    @property
    def size(self) -> int:
        return len(self._head) + self._lines.size + len(self._tail)

    def pieces(self) -> Iterator[bytes]:
        yield self._head
        yield from self._lines.chunks
        yield self._tail
