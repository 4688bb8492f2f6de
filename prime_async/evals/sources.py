"""Which source stands behind what the user handed to ``push_samples``."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from io import IOBase
from os import PathLike
from pathlib import Path
from typing import Any

import anyio.to_thread
from anyio.abc import TaskGroup

from prime_async.errors import InvalidSampleError, UsageError
from prime_async.evals.batches import MAX_PAYLOAD_BYTES, OVERHEAD
from prime_async.evals.encoding import TURN_BYTES, TURN_SECONDS, Chunk, SampleEncoder
from prime_async.evals.feeds import AsyncFeed, IterableFeed
from prime_async.evals.files import FileCheck, JsonlSource
from prime_async.evals.push import Source
from prime_async.evals.verifiers import METADATA, RESULTS, TRACES, TraceSamples, load_run
from prime_async.localfiles import given_path
from prime_async.requests import check_range
from prime_async.spool import Ranges

__all__ = ["Samples", "SequenceSource", "check_path", "jsonl_source", "open_source"]

Samples = Iterable[Any] | AsyncIterable[Any] | str | PathLike[str]
"""What can be pushed: a list, any iterable, an asynchronous iterable, or the path of a file or
result folder.
"""


class SequenceSource:
    """Feeds a push from a list: encoded on the event loop, a slice at a time."""

    rereadable = True
    source = None

    def __init__(self, samples: Sequence[Any], encoder: SampleEncoder, skip: Ranges) -> None:
        self.total: int | None = len(samples)
        self._samples = samples
        self._encoder = encoder
        self._skip = skip
        self._runs: Iterator[tuple[int, int]] | None = None
        self._run = (0, 0)

    def start(self, group: TaskGroup) -> None:
        """Nothing to start."""

    async def aclose(self) -> None:
        """Nothing to stop."""

    async def leftovers(self) -> list[Chunk]:
        """Nothing is held: it can be read again."""
        return []

    async def next_chunks(self) -> list[Chunk] | None:
        """Encode about 512 KiB or 2 ms worth of samples; None at the end."""
        chunks: list[Chunk] = []
        size = 0
        over = time.perf_counter() + TURN_SECONDS
        while (run := self._next_run()) is not None:
            fresh = self._encoder.encode_together(run[0], self._slice(*run))
            chunks += fresh
            size += sum(len(chunk.data) for chunk in fresh)
            if size >= TURN_BYTES or time.perf_counter() >= over:
                return chunks
        return chunks or None

    def _next_run(self) -> tuple[int, int] | None:
        """Return the next samples to encode together, passing over what is to be skipped."""
        if self._runs is None:  # not before the first sample is asked for: see `open_source`
            assert self.total is not None
            self._runs = iter(self._skip.complement(self.total))
        start, stop = self._run
        if start == stop:
            following = next(self._runs, None)
            if following is None:
                return None
            start, stop = following
        end = min(stop, start + self._encoder.at_once)
        self._run = (end, stop)
        return start, end

    def _slice(self, start: int, stop: int) -> list[Any]:
        if isinstance(self._samples, list | tuple):
            return list(self._samples[start:stop])
        return [self._samples[place] for place in range(start, stop)]  # a deque has no slices


async def open_source(samples: Samples, encoder: SampleEncoder, skip: Ranges) -> Source:
    """Choose the source; a file is checked whole, in a thread.

    Args:
        samples: what the user gave.
        encoder: encodes and measures the samples.
        skip: indexes that need no sending; may still be filled before the first sample is read.

    Raises:
        UsageError: nothing that can be iterated; a single sample in place of a list of them.
        InvalidSampleError: there is no such file, or lines of it are broken.
        InvalidEvaluationError: the folder is no result folder.
    """
    if isinstance(samples, str | PathLike):
        path = Path(samples)
        # Abandoned when cancelled: reading to the end of a large file would hold up the deadline.
        return await anyio.to_thread.run_sync(
            _checked_source, path, encoder, skip, abandon_on_cancel=True
        )
    if isinstance(samples, Mapping | bytes | bytearray | memoryview):
        raise UsageError(
            f"samples is a single {type(samples).__name__}",
            field="samples",
            hint="put it into a list",
        )
    if isinstance(samples, IOBase):
        raise UsageError("samples is an open file", field="samples", hint="give its path")
    if isinstance(samples, Sequence):
        return SequenceSource(samples, encoder, skip)
    if isinstance(samples, AsyncIterable):
        return AsyncFeed(samples, encoder, skip)
    if isinstance(samples, Iterable):
        return IterableFeed(samples, encoder, skip)
    raise UsageError(
        f"samples is a {type(samples).__name__}, which cannot be iterated",
        field="samples",
        hint="a list, an iterable, an async iterable or a path",
    )


def _checked_source(path: Path, encoder: SampleEncoder, skip: Ranges) -> JsonlSource:
    source = jsonl_source(path, encoder, skip)
    source.check()
    return source


def check_path(
    path: str | Path,
    *,
    max_payload_bytes: int = MAX_PAYLOAD_BYTES,
    trim: Sequence[str] = (),
) -> FileCheck:
    """Check a JSONL file or result folder as a push would, without pushing. Blocks: call it in a
    thread.

    Args:
        path: the file or folder.
        max_payload_bytes, trim: as for ``push_samples``.

    Returns:
        How many samples it holds, and which of them are too large for a request.

    Raises:
        UsageError: `max_payload_bytes` is too small for any sample.
        InvalidSampleError: the file cannot be read or has broken lines.
        InvalidEvaluationError: the folder is no result folder.
    """
    check_range("max_payload_bytes", max_payload_bytes, OVERHEAD + 2)
    encoder = SampleEncoder(limit=max_payload_bytes - OVERHEAD, trim=trim)
    return jsonl_source(given_path(path, "path"), encoder, Ranges()).check()


def jsonl_source(path: Path, encoder: SampleEncoder, skip: Ranges) -> JsonlSource:
    """Open a JSONL file, or the samples of a result folder.

    Raises:
        InvalidSampleError: there is no such file.
        InvalidEvaluationError: the folder is no result folder.
    """
    if path.is_dir():
        path = load_run(path).samples
    if not path.is_file():
        raise InvalidSampleError(f"{path} does not exist or is not a file", field="samples")
    if path.name == TRACES:
        return JsonlSource(path, encoder, skip, mapping=TraceSamples)
    results = path.name == RESULTS and (path.parent / METADATA).is_file()
    return JsonlSource(path, encoder, skip, rename_id=results)
