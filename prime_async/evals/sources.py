"""Which source stands behind what the user handed to ``push_samples``."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from prime_async.errors import InvalidSampleError, UsageError
from prime_async.evals.encoding import SampleEncoder, Slice
from prime_async.evals.feeds import AsyncFeed, IterableFeed
from prime_async.evals.files import JsonlSource
from prime_async.evals.push import Source
from prime_async.evals.verifiers import METADATA, RESULTS, TRACES, load_run, trace_samples
from prime_async.spool import Ranges

__all__ = ["Samples", "SequenceSource", "jsonl_source", "open_source"]

Samples = Iterable[Any] | AsyncIterable[Any] | str | Path
"""What can be pushed: a list, any iterable, an asynchronous iterable, or the path of a file or result folder."""


class SequenceSource:
    """Feeds a push from a list: encoded on the event loop, a slice at a time."""

    rereadable = True
    source = None

    def __init__(self, samples: Sequence[Any], encoder: SampleEncoder, skip: Ranges) -> None:
        self.total: int | None = len(samples)
        self._encoder = encoder
        self._numbered: Iterator[tuple[int, Any]] = enumerate(samples)
        if skip:
            self._numbered = (pair for pair in enumerate(samples) if pair[0] not in skip)

    def start(self, group: TaskGroup) -> None:
        """Nothing to start."""

    async def aclose(self) -> None:
        """Nothing to stop."""

    async def next_slice(self) -> Slice | None:
        """Encode and return the next slice, None at the end."""
        refused = len(self._encoder.refused)
        while not (slice_ := self._encoder.encode_slice(self._numbered)).samples:
            if len(self._encoder.refused) == refused:
                return None
            refused = len(
                self._encoder.refused
            )  # a whole slice was refused: there may be more behind it
            await anyio.sleep(0)
        return slice_


def open_source(samples: Samples, encoder: SampleEncoder, skip: Ranges) -> Source:
    """Choose the source.

    Raises:
        UsageError: nothing that can be iterated; a single sample in place of a list of them.
        InvalidSampleError, InvalidEvaluationError: the path is no file or result folder.
    """
    if isinstance(samples, str | Path):
        return jsonl_source(Path(samples), encoder, skip)
    if isinstance(samples, Mapping | bytes):
        raise UsageError(
            f"samples is a single {type(samples).__name__}",
            field="samples",
            hint="put it into a list",
        )
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
        return JsonlSource(path, encoder, skip, mapping=trace_samples)
    results = path.name == RESULTS and (path.parent / METADATA).is_file()
    return JsonlSource(path, encoder, skip, rename_id=results)
