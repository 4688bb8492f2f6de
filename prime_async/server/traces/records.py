"""From one line to its rows: what it must have, and what is read out of it.

Nothing here knows about the other lines of an upload, so that a long one can be read anywhere.
"""

from __future__ import annotations

import codecs
import math
from dataclasses import dataclass

import msgspec

from prime_async.server.traces.documents import (
    EpisodeDocument,
    TraceDocument,
    decode_episode,
    decode_trace,
)
from prime_async.server.traces.projection import (
    EpisodeRow,
    TraceRow,
    project_episode,
    project_trace,
)
from prime_async.traces.codes import ErrorCode, LineFormat
from prime_async.traces.lines import ID_CHARACTERS

__all__ = ["TRACES_PER_EPISODE", "Row", "UnfitError", "Window", "read_line"]

TRACES_PER_EPISODE = 1000

UTF8_BYTES = 1024 * 1024
"""Bytes of a line that are checked at once."""

_AGE_SECONDS = 365 * 24 * 3600.0
_AHEAD_SECONDS = 300.0

Row = TraceRow | EpisodeRow


@dataclass(frozen=True, slots=True)
class Window:
    """The times at which a trace may have begun: a year back, five minutes ahead.

    Attributes:
        age, ahead: seconds of either.
    """

    now: float
    age: float = _AGE_SECONDS
    ahead: float = _AHEAD_SECONDS

    @classmethod
    def unlimited(cls, now: float) -> Window:
        """A window that holds every time."""
        return cls(now, math.inf, math.inf)

    def holds(self, moment: float) -> bool:
        return self.now - self.age <= moment <= self.now + self.ahead


class UnfitError(Exception):
    """A line that cannot be stored."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def read_line(line: bytes, offset: int, line_format: LineFormat, window: Window) -> list[Row]:
    """The rows of a line: a trace, or an episode and its traces.

    Args:
        offset: where the line begins in its upload.

    Raises:
        UnfitError: it cannot be stored.
    """
    _check_utf8(line)
    try:
        if line_format is LineFormat.EPISODE:
            return _episode(line, offset, window)
        return _bare_trace(line, offset, window)
    except msgspec.ValidationError as error:
        raise UnfitError(ErrorCode.INVALID_TRACE, f"it has the wrong shape: {error}") from error
    except msgspec.DecodeError as error:
        raise UnfitError(ErrorCode.INVALID_TRACE, f"it is not valid JSON: {error}") from error
    except RecursionError as error:
        raise UnfitError(ErrorCode.INVALID_TRACE, "it is nested too deeply") from error


def _bare_trace(line: bytes, offset: int, window: Window) -> list[Row]:
    document = decode_trace(line)
    if document.traces is not msgspec.UNSET and document.timing is None:
        raise UnfitError(
            ErrorCode.LINE_FORMAT_MISMATCH,
            "it is an episode: send X-Prime-Line-Format: episode",
        )
    row = _trace(document, window)
    row.offset, row.length = offset, len(line)
    return [row]


def _episode(line: bytes, offset: int, window: Window) -> list[Row]:
    document = decode_episode(line)
    if document.traces is None:
        raise UnfitError(
            ErrorCode.LINE_FORMAT_MISMATCH, "it is no episode: it has no list of traces"
        )
    if len(document.traces) > TRACES_PER_EPISODE:
        raise UnfitError(
            ErrorCode.TOO_MANY_TRACES_IN_EPISODE,
            f"it has {len(document.traces)} traces, the limit is {TRACES_PER_EPISODE}",
        )
    episode = _envelope(document)
    episode.offset, episode.length = offset, len(line)
    members = _members(line, document, episode, window)
    if members:
        episode.created_at = min(row.created_at for row in members)
    return [episode, *members]


def _envelope(document: EpisodeDocument) -> EpisodeRow:
    _check_id(document.id, "id", ErrorCode.EPISODE_ID_TOO_LONG)
    row = project_episode(document)
    _check_length(row.environment_id, "env.id", ErrorCode.ENVIRONMENT_ID_TOO_LONG)
    _check_length(row.run_id, "run.id", ErrorCode.INVALID_TRACE)
    return row


def _members(
    line: bytes, document: EpisodeDocument, episode: EpisodeRow, window: Window
) -> list[TraceRow]:
    rows: list[TraceRow] = []
    place = 0
    for index, text in enumerate(document.traces or ()):
        try:
            row = _trace(decode_trace(text), window)
        except UnfitError as unfit:
            raise UnfitError(unfit.code, f"traces[{index}]: {unfit.message}") from unfit
        # The same text further ahead would do as well: it is the bytes that are kept.
        place = _find(line, memoryview(text), place)
        row.offset, row.length = episode.offset + place, len(memoryview(text))
        row.episode_id, row.environment_id = episode.episode_id, episode.environment_id
        rows.append(row)
        place += row.length
    return rows


def _trace(document: TraceDocument, window: Window) -> TraceRow:
    _check_id(document.id, "id", ErrorCode.INVALID_TRACE)
    _check_start(document.timing, window)
    row = project_trace(document)
    _check_length(row.run_id, "run.id", ErrorCode.INVALID_TRACE)
    _check_length(row.episode_id, "episode.id", ErrorCode.EPISODE_ID_TOO_LONG)
    return row


def _check_start(timing: object, window: Window) -> None:
    start = timing.get("start") if isinstance(timing, dict) else None
    if isinstance(start, bool) or not isinstance(start, int | float):
        raise UnfitError(ErrorCode.INVALID_TRACE, "timing.start must be a number of seconds")
    if not window.holds(start):
        raise UnfitError(
            ErrorCode.CREATED_AT_OUT_OF_WINDOW,
            f"timing.start is {start}, which is not within the last 365 days "
            f"(now: {window.now:.0f} s, 300 s ahead are allowed)",
        )


def _check_utf8(line: bytes) -> None:
    """Check all of a line: strings that the decoder skips are not checked by it."""
    place, whole = 0, memoryview(line)
    while place < len(line):
        piece = whole[place : place + UTF8_BYTES]
        try:
            _, taken = codecs.utf_8_decode(piece, "strict", place + len(piece) == len(line))
        except UnicodeDecodeError as error:
            at = place + error.start
            raise UnfitError(
                ErrorCode.MALFORMED_ENCODING, f"it is not UTF-8 at byte {at}"
            ) from error
        place += taken


def _check_id(value: object, name: str, too_long: ErrorCode) -> None:
    if not isinstance(value, str) or not value:
        raise UnfitError(ErrorCode.INVALID_TRACE, f"{name} must be a non-empty string")
    _check_length(value, name, too_long)


def _check_length(value: str | None, name: str, too_long: ErrorCode) -> None:
    if value is not None and len(value) > ID_CHARACTERS:
        raise UnfitError(
            too_long, f"{name} has {len(value)} characters, the limit is {ID_CHARACTERS}"
        )


def _find(line: bytes, text: memoryview, place: int) -> int:
    """Where a text that is in the line begins, from a place on."""
    head = bytes(text[:64])
    size = len(text)
    while True:
        place = line.index(head, place)
        if memoryview(line)[place : place + size] == text:
            return place
        place += 1
