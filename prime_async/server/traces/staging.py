"""The content of one upload on its way in: its bytes go to a file, its lines become rows.

Memory does not grow with the upload: the bytes are in a file, and so are the rows when they are
many. Everything here blocks; it is called in threads, once at a time.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, BinaryIO

import msgspec

from prime_async.server.traces.lines import LineReader, LongLine
from prime_async.server.traces.projection import EpisodeRow, TraceRow
from prime_async.server.traces.records import Row, UnfitError
from prime_async.server.traces.refusals import refused, refused_lines
from prime_async.traces.codes import ErrorCode

__all__ = ["RowBatch", "Staging"]

ROWS_AT_ONCE = 256
"""Rows that are stored with one statement."""

BYTES_AT_ONCE = 1024 * 1024
"""Bytes in those rows after which fewer are."""

_IN_MEMORY = 4 * 1024 * 1024
"""Bytes of rows that are held in memory; more go to a file."""

_SIZE_BYTES = 4


class RowBatch(msgspec.Struct, array_like=True, gc=False):
    """Some rows of an upload."""

    episodes: list[EpisodeRow]
    traces: list[TraceRow]

    def __len__(self) -> int:
        return len(self.episodes) + len(self.traces)


_batch = msgspec.msgpack.Decoder(RowBatch)


class Staging:
    """One upload; ``open`` comes first and ``close`` last, whatever happens between.

    Args:
        path: the file of the bytes; it must not exist.
        reader: reads the lines; None when they were stored before, and only the digest counts.
        limit: largest content, in bytes.

    Attributes:
        size, row_count: what has arrived.
    """

    def __init__(self, path: Path, reader: LineReader | None, limit: int) -> None:
        self.path = path
        self.size = 0
        self.row_count = 0
        self._reader = reader
        self._limit = limit
        self._hash = hashlib.sha256()
        self._batch = RowBatch([], [])
        self._batch_bytes = 0
        self._file: BinaryIO | None = None
        self._rows: IO[bytes] | None = None

    def open(self) -> None:
        """Make the files."""
        self._file = self.path.open("xb")
        self._rows = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed by close
            _IN_MEMORY, dir=str(self.path.parent)
        )

    def close(self) -> None:
        """Remove what was not taken over."""
        for file in (self._file, self._rows):
            if file is not None:
                file.close()
        self.path.unlink(missing_ok=True)

    def take(self, piece: bytes) -> None:
        """Take the next bytes.

        Raises:
            RequestError: 400, the upload is over a limit.
            OSError: the disk refuses them.
        """
        self.size += len(piece)
        if self.size > self._limit:
            raise refused(
                ErrorCode.UPLOAD_TOO_LARGE,
                f"an upload may have {self._limit} bytes when it is not compressed",
            )
        assert self._file is not None, "it is open"
        self._hash.update(piece)
        if self._reader is not None:
            self._file.write(piece)
            self._keep(self._reader.feed(piece))

    def finish(self, digest: str) -> Sequence[LongLine]:
        """No more bytes come: check them, and say which lines are still to be read.

        They can be read at :attr:`path` then, and :meth:`admit` takes what they are.

        Raises:
            RequestError: 400, the digest is another one.
            OSError: the disk refuses the bytes.
        """
        if self._hash.hexdigest() != digest:
            raise refused(
                ErrorCode.DIGEST_MISMATCH,
                "the Idempotency-Key is not the SHA-256 of the uncompressed lines that arrived",
            )
        if self._reader is None:
            return ()
        self._keep(self._reader.close())
        assert self._file is not None, "it is open"
        self._file.flush()
        return self._reader.long

    def admit(self, lines: Iterable[tuple[LongLine, Callable[[], Sequence[Row]]]]) -> None:
        """Take what some long lines are: their rows, which the getter beside each gives, or raises
        ``UnfitError``.
        """
        assert self._reader is not None, "it gave these lines"
        for line, read in lines:
            try:
                rows = read()
            except UnfitError as unfit:
                self._reader.refuse(line.number, unfit)
                continue
            self._keep(self._reader.admit(line.number, rows))

    def seal(self) -> None:
        """All lines are read: bring everything to the disk.

        Raises:
            RequestError: 400, lines cannot be stored.
            OSError: the disk refuses them.
        """
        if self._reader is None:
            return
        if self._reader.bad:
            bad = sorted(self._reader.bad, key=lambda one: one.line)
            raise refused_lines(bad, more=self._reader.more_bad)
        if not self.row_count:
            raise refused(ErrorCode.INVALID_TRACE, "the upload has no lines")
        self._put_batch()
        assert self._file is not None, "it is open"
        os.fdatasync(self._file.fileno())

    def batches(self) -> Iterator[RowBatch]:
        """The rows, in the order of their lines; may be read more than once."""
        rows = self._rows
        assert rows is not None, "it is open"
        rows.seek(0)
        while head := rows.read(_SIZE_BYTES):
            yield _batch.decode(rows.read(int.from_bytes(head)))

    def _keep(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.row_count += 1
            if isinstance(row, TraceRow):
                self._batch.traces.append(row)
            else:
                self._batch.episodes.append(row)
            self._batch_bytes += len(row.extras) if isinstance(row, TraceRow) else 0
            if len(self._batch) >= ROWS_AT_ONCE or self._batch_bytes >= BYTES_AT_ONCE:
                self._put_batch()

    def _put_batch(self) -> None:
        assert self._rows is not None, "it is open"
        encoded = msgspec.msgpack.encode(self._batch)
        self._rows.write(len(encoded).to_bytes(_SIZE_BYTES) + encoded)
        self._batch, self._batch_bytes = RowBatch([], []), 0
