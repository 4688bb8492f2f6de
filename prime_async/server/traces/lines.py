"""From bytes to rows: splits an upload into lines and has each of them read.

Bytes come in slices, lines are as long as they like (up to the limit). Nothing of a line is kept
but its row; a long one is not even held while it arrives: only its place is noted, and it is read
later, from the file it is in. What is wrong with a line is collected, so that a sender learns of
all its bad lines at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prime_async.server.config import Limits
from prime_async.server.failures import RequestError
from prime_async.server.traces.projection import EpisodeRow
from prime_async.server.traces.records import Row, UnfitError, Window, read_line
from prime_async.server.traces.refusals import BadLine, refused
from prime_async.server.traces.seen import Seen
from prime_async.traces.codes import ErrorCode, LineFormat

__all__ = ["LineReader", "LongLine"]

NAMED_LINES = 100
"""Bad lines named in one refusal."""


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line that is still to be read: its number, and its place in the upload."""

    number: int
    offset: int
    length: int


class LineReader:
    """Reads one upload.

    Attributes:
        line_format, window: what the lines are, and when their traces may have begun.
        long: the long lines, which :meth:`admit` or :meth:`refuse` is to be told about.
        bad: the lines that cannot be stored, the first ``NAMED_LINES`` of them.
        more_bad: whether there are further ones.
    """

    def __init__(self, line_format: LineFormat, limits: Limits, window: Window) -> None:
        self.line_format = line_format
        self.window = window
        self._limits = limits
        self._pieces: list[bytes] = []
        self._begun = 0
        self._blank = True
        self._offset = 0
        self._line = 0
        self._rows = 0
        self._traces = Seen()
        self._episodes = Seen()
        self.long: list[LongLine] = []
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

    def admit(self, number: int, rows: Sequence[Row]) -> Iterator[Row]:
        """Give the rows of a line that was read, unless their ids were there before.

        Raises:
            RequestError: 400, the upload as a whole is over a limit.
        """
        try:
            self._check_new(rows)
        except UnfitError as unfit:
            self.refuse(number, unfit)
            return
        self._rows += len(rows)
        if self._rows > self._limits.trace_upload_rows:
            raise self._too_many()
        yield from rows

    def refuse(self, number: int, unfit: UnfitError) -> None:
        """Note that a line cannot be stored."""
        if len(self.bad) < NAMED_LINES:
            self.bad.append(BadLine(number, unfit.code, unfit.message))
        else:
            self.more_bad = True

    def _keep(self, text: bytes) -> None:
        self._begun += len(text)
        if self._begun > self._limits.trace_long_line_bytes:
            told = (*self._pieces, text)
            self._blank = self._blank and all(one.isspace() for one in told if one)
            self._pieces.clear()
        elif text:
            self._pieces.append(text)

    def _end_line(self, ending: int) -> Iterator[Row]:
        self._line += 1
        size, offset = self._begun, self._offset
        line = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        blank = self._blank and not line.strip()
        self._pieces, self._begun, self._blank = [], 0, True
        self._offset += size + ending
        if blank:
            return
        try:
            self._check_size(size)
            if len(line) != size:
                self.long.append(LongLine(self._line, offset, size))
                return
            rows = read_line(line, offset, self.line_format, self.window)
        except UnfitError as unfit:
            self.refuse(self._line, unfit)
            return
        yield from self.admit(self._line, rows)

    def _check_size(self, size: int) -> None:
        limit = self._limits.trace_line_bytes
        if size > limit:
            raise UnfitError(
                ErrorCode.TRACE_TOO_LARGE, f"it has {size} bytes, the limit is {limit} bytes"
            )

    def _check_new(self, rows: Sequence[Row]) -> None:
        of_episode = isinstance(rows[0], EpisodeRow)
        for index, row in enumerate(rows):
            if isinstance(row, EpisodeRow):
                value, known, code = row.episode_id, self._episodes, ErrorCode.DUPLICATE_EPISODE_ID
            else:
                value, known, code = row.trace_id, self._traces, ErrorCode.DUPLICATE_TRACE_ID
            if not known.add(value):
                where = f"traces[{index - 1}]: " if of_episode and index else ""
                raise UnfitError(code, f"{where}id {value[:80]!r} is in this upload already")

    def _too_many(self) -> RequestError:
        return refused(
            ErrorCode.TOO_MANY_TRACES_IN_UPLOAD,
            f"an upload may hold {self._limits.trace_upload_rows} traces and episodes, and twice "
            "as many lines with blank ones",
        )
