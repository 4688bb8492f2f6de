"""The two parts of an upload: ``metadata``, a small JSON object, and ``traces``, the lines."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from prime_async.server.failures import RequestError
from prime_async.server.traces.inflating import ENCODINGS, BrokenPartError, Inflater, inflater
from prime_async.server.traces.multipart import MultipartError, MultipartReader
from prime_async.server.traces.refusals import refused
from prime_async.server.traces.staging import Staging
from prime_async.traces.codes import ErrorCode

__all__ = ["Metadata", "Parts"]

METADATA_BYTES = 64 * 1024
SCHEMA_VERSION = 1


class Metadata(msgspec.Struct, frozen=True):
    """What is said about all lines of an upload."""

    schema_version: int
    context: dict[str, str] = {}


_metadata = msgspec.json.Decoder(Metadata)


class Parts:
    """Reads the body of one upload into a :class:`Staging`. Blocks; called in threads."""

    def __init__(self, boundary: bytes, staging: Staging) -> None:
        self._multipart = MultipartReader(boundary, self)
        self._staging = staging
        self._seen: set[str] = set()
        self._text = bytearray()
        self._inflater: Inflater | None = None

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the body.

        Raises:
            RequestError: 400, the body is not two such parts, or the lines are over a limit.
        """
        try:
            self._multipart.feed(piece)
        except (MultipartError, BrokenPartError) as error:
            raise refused(ErrorCode.MALFORMED_ENCODING, str(error)) from error

    def close(self) -> Metadata:
        """No more bytes come: what the metadata says.

        Raises:
            RequestError: 400, the body is cut short, a part is missing, or the metadata is wrong.
        """
        try:
            self._multipart.close()
        except MultipartError as error:
            raise refused(ErrorCode.MALFORMED_ENCODING, str(error)) from error
        if "metadata" not in self._seen:
            raise refused(ErrorCode.INVALID_METADATA, "the part 'metadata' is missing")
        if "traces" not in self._seen:
            raise refused(ErrorCode.MALFORMED_ENCODING, "the part 'traces' is missing")
        return _decoded(bytes(self._text))

    # What the multipart reader tells:

    def begin(self, name: str, headers: Mapping[str, str]) -> None:
        if name in self._seen:
            raise _twice(name)
        if name == "traces":
            self._inflater = inflater(_encoding(headers))
        elif name != "metadata":
            raise refused(
                ErrorCode.INVALID_METADATA,
                f"there is a part {name[:80]!r}; an upload has the parts 'metadata' and 'traces'",
            )
        self._seen.add(name)

    def content(self, piece: bytes) -> None:
        if self._inflater is not None:
            for inflated in self._inflater.inflate(piece):
                self._staging.take(inflated)
            return
        self._text += piece
        if len(self._text) > METADATA_BYTES:
            raise refused(
                ErrorCode.INVALID_METADATA, f"the metadata may have {METADATA_BYTES} bytes"
            )

    def end(self) -> None:
        if self._inflater is not None:
            self._inflater.close()
            self._inflater = None


def _twice(name: str) -> RequestError:
    code = ErrorCode.INVALID_METADATA if name == "metadata" else ErrorCode.MALFORMED_ENCODING
    return refused(code, f"the part {name!r} is there twice")


def _encoding(headers: Mapping[str, str]) -> str:
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding not in ENCODINGS:
        raise refused(
            ErrorCode.MALFORMED_ENCODING,
            f"the part's Content-Encoding is {encoding[:40]!r}; this server reads "
            + ", ".join(ENCODINGS),
        )
    return encoding


def _decoded(text: bytes) -> Metadata:
    try:
        metadata = _metadata.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise refused(ErrorCode.INVALID_METADATA, f"the metadata is wrong: {error}") from error
    if metadata.schema_version != SCHEMA_VERSION:
        raise refused(
            ErrorCode.UNSUPPORTED_SCHEMA_VERSION,
            f"schema_version is {metadata.schema_version}; this server reads {SCHEMA_VERSION}",
        )
    return metadata
