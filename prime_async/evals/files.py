"""JSONL files as a source: checked whole before anything is sent, then read in windows and sent as
they stand.

Lines are not decoded into Python objects: a valid line is sent byte for byte. Only lines that need
a change are rewritten: those with NaN (the standard library writes it, JSON does not know it) and
rows of a result file whose ``id`` becomes ``example_id``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread
from anyio.abc import TaskGroup

from prime_async import values
from prime_async.errors import InvalidSampleError, ValueEncodingError
from prime_async.evals.encoding import Chunk, SampleEncoder, join
from prime_async.evals.lines import Line, LineError, RowMapping, numbered_lines, samples_of
from prime_async.spool import Ranges, SourceInfo

__all__ = ["FileCheck", "JsonlSource", "OversizedLine", "check_jsonl"]

_WINDOW = 2**20
_SHOWN_FAULTS = 5


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """A line whose sample is larger than a request may be: line number from 1, sample index from 0,
    size in bytes.
    """

    line: int
    index: int
    size: int


@dataclass(slots=True)
class FileCheck:
    """What a pass over a JSONL file found.

    Attributes:
        path: the file.
        samples: how many samples it holds.
        oversized: lines too large to send, after trimming where that was asked for.
        rewritten: indexes of the lines that are not sent as they stand.
        info: how the file looked, to notice a change.
        mapping: what said which samples each line stands for, if one line is not one sample.
    """

    path: Path
    info: SourceInfo
    samples: int = 0
    oversized: list[OversizedLine] = field(default_factory=list)
    rewritten: Ranges = field(default_factory=Ranges)
    mapping: RowMapping | None = None


def check_jsonl(
    path: Path,
    encoder: SampleEncoder,
    *,
    rename_id: bool = False,
    mapping: Callable[[], RowMapping] | None = None,
) -> FileCheck:
    """Read a JSONL file once and check every line. Blocks: call it in a thread.

    Args:
        path: the file.
        encoder: knows what is too large; nothing is noted in it.
        rename_id: copy ``id`` to ``example_id`` where that key is missing.
        mapping: makes for each pass what says which samples a line stands for, when it is not one.

    Raises:
        InvalidSampleError: the file cannot be read, or lines are not JSON objects; the first five
            are named as ``file:line:column``.
    """
    faults = _Faults(path)
    row_mapping = None if mapping is None else mapping()
    try:
        check = FileCheck(path, SourceInfo.of(path), mapping=row_mapping)
        for line in numbered_lines(path):
            try:
                produced = samples_of(line.data, rename_id=rename_id, mapping=row_mapping)
            except LineError as error:
                faults.add(line, error)
            else:
                _count(check, line, produced, encoder)
    except (OSError, LineError) as error:
        raise _unreadable(path, error) from error
    faults.raise_any()
    _refuse_changed(check)
    return check


def _count(check: FileCheck, line: Line, produced: list[Any], encoder: SampleEncoder) -> None:
    for sample in produced:
        if not isinstance(sample, bytes):
            check.rewritten.add(check.samples)
        data = _encoded(sample)
        if not encoder.fits(data):
            check.oversized.append(OversizedLine(line.number, check.samples, len(data)))
        check.samples += 1


def _encoded(sample: Any) -> bytes:
    if isinstance(sample, bytes):
        return sample
    try:
        return values.encode_record(sample)
    except ValueEncodingError:
        return b""  # refused by name when its turn to be sent comes


class _Faults:
    """Broken lines: the first five in words, and how many there are."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shown: list[str] = []
        self._count = 0

    def add(self, line: Line, error: LineError) -> None:
        self._count += 1
        if len(self._shown) < _SHOWN_FAULTS:
            column = line.start + error.column
            self._shown.append(f"{self._path}:{line.number}:{column}: {error.what}")

    def raise_any(self) -> None:
        if self._count:
            more = self._count - len(self._shown)
            raise InvalidSampleError(
                "\n".join(self._shown) + (f"\n… and {more} more" if more else ""),
                field="samples",
                hint="nothing was sent; a results file holds one JSON object per line",
            )


def _unreadable(path: Path, error: Exception) -> InvalidSampleError:
    why = getattr(error, "strerror", None) or error
    return InvalidSampleError(f"cannot read {path}: {why}", field="samples")


def _refuse_changed(check: FileCheck) -> None:
    now = SourceInfo.of(check.path)
    if not now.same_content(check.info):
        raise InvalidSampleError(
            f"{check.path} changed while it was read",
            field="samples",
            hint="push it when nothing writes to it any more",
        )


class JsonlSource:
    """Feeds a push from a JSONL file.

    Args:
        path: the file.
        encoder: measures samples; its ``limit`` is what counts as oversized.
        skip: indexes that need no sending.
        rename_id, mapping: as for :func:`check_jsonl`.
    """

    rereadable = True

    def __init__(
        self,
        path: Path,
        encoder: SampleEncoder,
        skip: Ranges,
        *,
        rename_id: bool = False,
        mapping: Callable[[], RowMapping] | None = None,
    ) -> None:
        self.path = path
        self._encoder = encoder
        self._skip = skip
        self._rename_id = rename_id
        self._mapping = mapping
        self._check: FileCheck | None = None
        self._samples: Iterator[tuple[int, bytes]] = iter(())
        self.total: int | None = None

    @property
    def source(self) -> SourceInfo | None:
        """How the file looked when it was checked."""
        return None if self._check is None else self._check.info

    def check(self) -> FileCheck:
        """Check the whole file, before the first sample is asked for; see :func:`check_jsonl`."""
        self._check = check_jsonl(
            self.path,
            self._encoder,
            rename_id=self._rename_id,
            mapping=self._mapping,
        )
        self.total = self._check.samples
        self._samples = self._read(self._check)
        return self._check

    def start(self, group: TaskGroup) -> None:
        """Nothing to start: windows are read when they are asked for."""

    async def aclose(self) -> None:
        """Nothing to stop."""

    async def leftovers(self) -> list[Chunk]:
        """Nothing is held: it can be read again."""
        return []

    async def next_chunks(self) -> list[Chunk] | None:
        """Return the samples of the next window of about 1 MiB, None at the end.

        Raises:
            InvalidSampleError: the file changed since it was checked.
        """
        return await anyio.to_thread.run_sync(self._next_window) or None

    def _next_window(self) -> list[Chunk]:
        window: list[tuple[int, bytes]] = []
        size = 0
        for index, data in self._samples:
            window.append((index, data))
            size += len(data)
            if size >= _WINDOW:
                break
        assert self._check is not None
        _refuse_changed(self._check)  # before this window is sent: what is in it was checked
        return join(window, self._encoder.limit)

    def _read(self, check: FileCheck) -> Iterator[tuple[int, bytes]]:
        index = 0
        mapping = None if self._mapping is None else self._mapping()
        try:
            for line in numbered_lines(self.path):
                if index >= check.samples:  # what was added since the check was not checked
                    return
                for sample in self._samples_of(line.data, index, check, mapping):
                    data = None if index in self._skip else self._ready(index, sample)
                    if data is not None:
                        yield index, data
                    index += 1
        except (OSError, LineError) as error:
            raise _unreadable(self.path, error) from error

    def _samples_of(
        self, line: bytes, index: int, check: FileCheck, mapping: RowMapping | None
    ) -> list[Any]:
        if mapping is None and (index not in check.rewritten or index in self._skip):
            return [line]
        return samples_of(line, rename_id=self._rename_id, mapping=mapping)

    def _ready(self, index: int, sample: Any) -> bytes | None:
        if isinstance(sample, bytes):
            return self._encoder.fit(index, sample)
        return self._encoder.encode(index, sample)
