"""JSONL files as a source: checked whole before anything is sent, then read in windows and sent as
they stand.

Lines are not decoded into Python objects: a valid line is sent byte for byte. Only lines that need
a change are rewritten: those with NaN (the standard library writes it, JSON does not know it) and
rows of a result file whose ``id`` becomes ``example_id``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from prime_async import values
from prime_async.errors import InvalidSampleError
from prime_async.evals.encoding import Chunk, SampleEncoder, join
from prime_async.spool import Ranges, SourceInfo

__all__ = ["FileCheck", "JsonlSource", "OversizedLine", "check_jsonl"]

_WINDOW = 2**20
_SHOWN_FAULTS = 5
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])

RowMapping = Callable[[dict[str, Any]], list[dict[str, Any]]]
"""Turns one decoded line into the samples it stands for."""


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
        oversized: lines too large to send.
        rewritten: indexes of the lines that are not sent as they stand.
        info: how the file looked, to notice a change.
    """

    path: Path
    info: SourceInfo
    samples: int = 0
    oversized: list[OversizedLine] = field(default_factory=list)
    rewritten: Ranges = field(default_factory=Ranges)


def check_jsonl(
    path: Path, *, limit: int, rename_id: bool = False, mapping: RowMapping | None = None
) -> FileCheck:
    """Read a JSONL file once and check every line. Blocks: call it in a thread.

    Args:
        limit: bytes a sample may have.
        rename_id: copy ``id`` to ``example_id`` where that key is missing.
        mapping: what one line stands for, when it is not one sample.

    Raises:
        InvalidSampleError: the file cannot be read, or lines are not JSON objects; the first five
            are named as ``file:line:column``.
    """
    try:
        check = FileCheck(path, SourceInfo.of(path))
        faults = _check_lines(check, limit, rename_id, mapping)
    except OSError as error:
        raise InvalidSampleError(
            f"cannot read {path}: {error.strerror or error}", field="samples"
        ) from error
    if faults:
        more = f"\n… and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
        raise InvalidSampleError(
            "\n".join(faults[:_SHOWN_FAULTS]) + more,
            field="samples",
            hint="nothing was sent; a results file holds one JSON object per line",
        )
    _refuse_changed(check)
    return check


def _check_lines(
    check: FileCheck, limit: int, rename_id: bool, mapping: RowMapping | None
) -> list[str]:
    faults: list[str] = []
    for number, line in _numbered_lines(check.path):
        try:
            produced = _check_line(line, rename_id, mapping)
        except _LineError as error:
            faults.append(f"{check.path}:{number}:{error.column}: {error.what}")
            continue
        for rewritten, size in produced:
            if rewritten:
                check.rewritten.add(check.samples)
            if size > limit:
                check.oversized.append(OversizedLine(number, check.samples, size))
            check.samples += 1
    return faults


def _check_line(line: bytes, rename_id: bool, mapping: RowMapping | None) -> list[tuple[bool, int]]:
    """Say for each sample of a line whether it is rewritten, and its size."""
    if mapping is not None:
        return [(True, len(values.encode_record(sample))) for sample in mapping(_decoded(line))]
    try:
        fields = _FIELDS.decode(line)
        line.decode("utf-8")  # msgspec skips over text without looking inside
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [(True, len(values.encode_record(_decoded(line))))]
    rename = rename_id and "id" in fields and "example_id" not in fields
    extra = len(b',"example_id":') + len(bytes(fields["id"])) if rename else 0
    return [(rename, len(line) + extra)]


class _LineError(Exception):
    def __init__(self, what: str, column: int) -> None:
        super().__init__(what)
        self.what = what
        self.column = column


def _decoded(line: bytes) -> dict[str, Any]:
    """Decode a line the lenient way, NaN and infinities included, or say where it is broken."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _LineError(f"not UTF-8: {error.reason}", error.start + 1) from error
    try:
        decoded = json.loads(text)
    except json.JSONDecodeError as error:
        raise _LineError(f"not JSON: {error.msg}", error.colno) from error
    except RecursionError as error:
        raise _LineError("nested too deeply", 1) from error
    if not isinstance(decoded, dict):
        raise _LineError(f"a JSON {type(decoded).__name__}, not an object", 1)
    return decoded


def _numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield line numbers (from 1) and lines, blank ones left out, surrounding white space and a BOM
    cut off.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            stripped = (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip()
            if stripped:
                yield number, stripped


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
        mapping: RowMapping | None = None,
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

    async def check(self) -> FileCheck:
        """Check the whole file in a thread; see :func:`check_jsonl`."""
        return await anyio.to_thread.run_sync(self.check_now)

    def check_now(self) -> FileCheck:
        """Check the whole file; see :func:`check_jsonl`."""
        self._check = check_jsonl(
            self.path,
            limit=self._encoder.limit,
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
        return join(window)

    def _read(self, check: FileCheck) -> Iterator[tuple[int, bytes]]:
        index = 0
        try:
            for _, line in _numbered_lines(self.path):
                for data in self._samples_of(line, index, check):
                    fitting = None if index in self._skip else self._encoder.fit(index, data)
                    if fitting is not None:
                        yield index, fitting
                    index += 1
        except (OSError, _LineError) as error:
            raise InvalidSampleError(
                f"cannot go on reading {self.path}: {error}", field="samples"
            ) from error
        _refuse_changed(check)

    def _samples_of(self, line: bytes, index: int, check: FileCheck) -> list[bytes]:
        if self._mapping is not None:
            return [values.encode_record(sample) for sample in self._mapping(_decoded(line))]
        if index not in check.rewritten:
            return [line]
        if index in self._skip:
            return [b""]
        return [self._rewritten(line)]

    def _rewritten(self, line: bytes) -> bytes:
        try:
            fields: dict[str, Any] = dict(_FIELDS.decode(line))
        except (msgspec.DecodeError, RecursionError):
            fields = _decoded(line)
            self._encoder.nonfinite.update(Counter(values.nonfinite_scores(fields)))
        if self._rename_id and "id" in fields and "example_id" not in fields:
            fields = {"example_id": fields["id"], **fields}
        return values.encode_record(fields)
