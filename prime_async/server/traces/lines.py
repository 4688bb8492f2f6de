"""From bytes to rows: splits an upload into lines and reads each of them.

Bytes come in slices, lines are as long as they like (up to the limit). Nothing of a line is kept
but its row; what is wrong with a line is collected, so that a sender learns of all its bad lines at
once.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from prime_async.server.config import Limits
from prime_async.server.failures import RequestError
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
from prime_async.server.traces.refusals import BadLine, refused
from prime_async.traces.codes import ErrorCode, LineFormat
from prime_async.traces.lines import ID_CHARACTERS

__all__ = ["TRACES_PER_EPISODE", "LineReader", "Window"]

TRACES_PER_EPISODE = 1000

NAMED_LINES = 100
"""Bad lines named in one refusal."""

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

    def holds(self, moment: float) -> bool:
        return self.now - self.age <= moment <= self.now + self.ahead


class _UnfitError(Exception):
    """A line that cannot be stored."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class LineReader:
    """Reads one upload.

    Attributes:
        bad: the lines that cannot be stored, the first ``NAMED_LINES`` of them.
        more_bad: whether there are further ones.
    """

    def __init__(self, line_format: LineFormat, limits: Limits, window: Window) -> None:
        self._read = self._episode if line_format is LineFormat.EPISODE else self._bare_trace
        self._limits = limits
        self._window = window
        self._pieces: list[bytes] = []
        self._begun = 0
        self._offset = 0
        self._line = 0
        self._rows = 0
        self._traces: set[str] = set()
        self._episodes: set[str] = set()
        self.bad: list[BadLine] = []
        self.more_bad = False

    def feed(self, piece: bytes) -> Iterator[Row]:
        """Take the next bytes and give the rows of the lines that end in them.

        Raises:
            RequestError: 400, the upload as a whole is over a limit.
        """
        first, *others = piece.split(b"\n")
        # Blank lines are no rows, but they take time.
        if self._line + len(others) > 2 * self._limits.trace_upload_rows:
            raise self._too_many()
        self._keep(first)
        for text in others:
            yield from self._end_line(1)
            self._keep(text)

    def close(self) -> Iterator[Row]:
        """Give the rows of the last line, which need not end with a line break."""
        yield from self._end_line(0)

    def _keep(self, text: bytes) -> None:
        self._begun += len(text)
        # Of a line that is over the limit only the size is still counted.
        if self._begun > self._limits.trace_line_bytes:
            self._pieces.clear()
        elif text:
            self._pieces.append(text)

    def _end_line(self, ending: int) -> Iterator[Row]:
        self._line += 1
        size, offset = self._begun, self._offset
        line = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces, self._begun = [], 0
        self._offset += size + ending
        if size and (len(line) != size or line.strip()):
            yield from self._rows_of(line, size, offset)

    def _rows_of(self, line: bytes, size: int, offset: int) -> Iterator[Row]:
        try:
            rows = self._fit(line, size, offset)
        except _UnfitError as unfit:
            self._note(unfit)
            return
        self._rows += len(rows)
        if self._rows > self._limits.trace_upload_rows:
            raise self._too_many()
        yield from rows

    def _too_many(self) -> RequestError:
        return refused(
            ErrorCode.TOO_MANY_TRACES_IN_UPLOAD,
            f"an upload may hold {self._limits.trace_upload_rows} traces and episodes, and twice "
            "as many lines with blank ones",
        )

    def _note(self, unfit: _UnfitError) -> None:
        if len(self.bad) < NAMED_LINES:
            self.bad.append(BadLine(self._line, unfit.code, unfit.message))
        else:
            self.more_bad = True

    def _fit(self, line: bytes, size: int, offset: int) -> list[Row]:
        limit = self._limits.trace_line_bytes
        if size > limit:
            raise _UnfitError(
                ErrorCode.TRACE_TOO_LARGE, f"it has {size} bytes, the limit is {limit} bytes"
            )
        _check_utf8(line)
        try:
            return self._read(line, offset)
        except msgspec.ValidationError as error:
            raise _UnfitError(
                ErrorCode.INVALID_TRACE, f"it has the wrong shape: {error}"
            ) from error
        except msgspec.DecodeError as error:
            raise _UnfitError(ErrorCode.INVALID_TRACE, f"it is not valid JSON: {error}") from error
        except RecursionError as error:
            raise _UnfitError(ErrorCode.INVALID_TRACE, "it is nested too deeply") from error

    def _bare_trace(self, line: bytes, offset: int) -> list[Row]:
        document = decode_trace(line)
        if document.traces is not msgspec.UNSET and document.timing is None:
            raise _UnfitError(
                ErrorCode.LINE_FORMAT_MISMATCH,
                "it is an episode: send X-Prime-Line-Format: episode",
            )
        row = self._trace(document)
        row.offset, row.length = offset, len(line)
        return [row]

    def _episode(self, line: bytes, offset: int) -> list[Row]:
        document = decode_episode(line)
        if document.traces is None:
            raise _UnfitError(
                ErrorCode.LINE_FORMAT_MISMATCH, "it is no episode: it has no list of traces"
            )
        if len(document.traces) > TRACES_PER_EPISODE:
            raise _UnfitError(
                ErrorCode.TOO_MANY_TRACES_IN_EPISODE,
                f"it has {len(document.traces)} traces, the limit is {TRACES_PER_EPISODE}",
            )
        episode = self._envelope(document)
        episode.offset, episode.length = offset, len(line)
        members = self._members(line, document, episode, offset)
        if members:
            episode.created_at = min(row.created_at for row in members)
        return [episode, *members]

    def _envelope(self, document: EpisodeDocument) -> EpisodeRow:
        _check_id(document.id, "id", ErrorCode.EPISODE_ID_TOO_LONG)
        row = project_episode(document)
        _check_length(row.environment_id, "env.id", ErrorCode.ENVIRONMENT_ID_TOO_LONG)
        _check_length(row.run_id, "run.id", ErrorCode.INVALID_TRACE)
        _check_new(row.episode_id, self._episodes, ErrorCode.DUPLICATE_EPISODE_ID)
        return row

    def _members(
        self, line: bytes, document: EpisodeDocument, episode: EpisodeRow, offset: int
    ) -> list[TraceRow]:
        rows: list[TraceRow] = []
        place = 0
        for index, text in enumerate(document.traces or ()):
            try:
                row = self._trace(decode_trace(text))
            except _UnfitError as unfit:
                raise _UnfitError(unfit.code, f"traces[{index}]: {unfit.message}") from unfit
            # The same text further ahead would do as well: it is the bytes that are kept.
            place = _find(line, memoryview(text), place)
            row.offset, row.length = offset + place, len(memoryview(text))
            row.episode_id, row.environment_id = episode.episode_id, episode.environment_id
            rows.append(row)
            place += row.length
        return rows

    def _trace(self, document: TraceDocument) -> TraceRow:
        _check_id(document.id, "id", ErrorCode.INVALID_TRACE)
        self._check_start(document.timing)
        row = project_trace(document)
        _check_length(row.run_id, "run.id", ErrorCode.INVALID_TRACE)
        _check_length(row.episode_id, "episode.id", ErrorCode.EPISODE_ID_TOO_LONG)
        _check_new(row.trace_id, self._traces, ErrorCode.DUPLICATE_TRACE_ID)
        return row

    def _check_start(self, timing: object) -> None:
        start = timing.get("start") if isinstance(timing, dict) else None
        if isinstance(start, bool) or not isinstance(start, int | float):
            raise _UnfitError(ErrorCode.INVALID_TRACE, "timing.start must be a number of seconds")
        if not self._window.holds(start):
            raise _UnfitError(
                ErrorCode.CREATED_AT_OUT_OF_WINDOW,
                f"timing.start is {start}, which is not within the last 365 days "
                f"(now: {self._window.now:.0f} s, 300 s ahead are allowed)",
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
            raise _UnfitError(
                ErrorCode.MALFORMED_ENCODING, f"it is not UTF-8 at byte {at}"
            ) from error
        place += taken


def _check_id(value: object, name: str, too_long: ErrorCode) -> None:
    if not isinstance(value, str) or not value:
        raise _UnfitError(ErrorCode.INVALID_TRACE, f"{name} must be a non-empty string")
    _check_length(value, name, too_long)


def _check_length(value: str | None, name: str, too_long: ErrorCode) -> None:
    if value is not None and len(value) > ID_CHARACTERS:
        raise _UnfitError(
            too_long, f"{name} has {len(value)} characters, the limit is {ID_CHARACTERS}"
        )


def _check_new(value: str, known: set[str], code: ErrorCode) -> None:
    if value in known:
        raise _UnfitError(code, f"id {value[:80]!r} is in this upload already")
    known.add(value)


def _find(line: bytes, text: memoryview, place: int) -> int:
    """Where a text that is in the line begins, from a place on."""
    head = bytes(text[:64])
    size = len(text)
    while True:
        place = line.index(head, place)
        if memoryview(line)[place : place + size] == text:
            return place
        place += 1
