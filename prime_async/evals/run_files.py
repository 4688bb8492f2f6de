"""A result run on disk, opened for its push: described, checked whole, and given its push id."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from prime_async.errors import InvalidEvaluationError, OversizedSamplesError
from prime_async.evals.encoding import SampleEncoder
from prime_async.evals.files import FileCheck, OversizedLine
from prime_async.evals.lines import numbered_lines
from prime_async.evals.pushing import Opened
from prime_async.evals.sources import jsonl_source
from prime_async.evals.verifiers import METADATA, RESULTS, TRACES, ResultRun, TraceSamples, load_run
from prime_async.spool import Ranges

__all__ = ["RunFile", "open_run_file", "push_id_of"]

_SHOWN = 10
_DIGITS = 32


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run that can be pushed.

    Attributes:
        run: what is known about it.
        opened: its samples, checked.
        total: how many there are.
        first: the first record, as it stands in the file; empty when there is none.
    """

    run: ResultRun
    opened: Opened
    total: int
    first: bytes


def open_run_file(path: Path | str, encoder: SampleEncoder, *, skip_oversized: bool) -> RunFile:
    """Describe a run and check its file whole. Blocks: call it in a thread.

    Args:
        path: a result folder, a file in it, or a bare JSONL file.
        encoder: of the push.
        skip_oversized: samples that are too large are no fault.

    Raises:
        InvalidEvaluationError: it is neither, or its metadata is broken.
        InvalidSampleError: lines are broken.
        OversizedSamplesError: samples are larger than a request may be.
    """
    run = _described(Path(path))
    skip = Ranges()
    source = jsonl_source(run.samples, encoder, skip)
    check = source.check()
    if check.oversized and not skip_oversized:
        raise _oversized(check, encoder)
    if isinstance(check.mapping, TraceSamples) and not run.metrics:
        run = replace(run, metrics=check.mapping.metrics)
    first = next(numbered_lines(run.samples), None)
    opened = Opened(source, encoder, skip)
    return RunFile(run, opened, check.samples, b"" if first is None else first.data)


def push_id_of(evaluation_id: str, first: bytes) -> str:
    """Return the push id that a file has in an evaluation: the same whenever it is pushed there.

    It depends on the first record only, so a file that has grown keeps it, and its new samples are
    added to the old ones.
    """
    digest = hashlib.sha256(evaluation_id.encode() + b"\0" + first).hexdigest()
    return f"file_{digest[:_DIGITS]}"


def _described(path: Path) -> ResultRun:
    if path.is_file() and path.name not in (METADATA, RESULTS, TRACES):
        return _bare(path)
    try:
        return load_run(path)
    except InvalidEvaluationError:
        if path.is_file() and path.name == RESULTS:
            return _bare(path)
        raise


def _bare(path: Path) -> ResultRun:
    """Nothing is known about such a file: least of all that verifiers wrote it."""
    return ResultRun(path.parent, path, None, None, {}, {"file": path.name}, framework="")


def _oversized(check: FileCheck, encoder: SampleEncoder) -> OversizedSamplesError:
    lines = [_line(each) for each in check.oversized[:_SHOWN]]
    if rest := len(check.oversized) - len(lines):
        lines.append(f"and {rest} more")
    return OversizedSamplesError(
        f"{check.path}: {len(check.oversized)} of {check.samples} samples are larger than the "
        f"{encoder.limit:,} bytes a request can hold\n" + "\n".join(lines),
        oversized=tuple(check.oversized),
        field="path",
        hint="nothing was created; trim=[FIELD] shortens them, skip_oversized=True leaves them out",
    )


def _line(each: OversizedLine) -> str:
    return f"sample {each.index}, line {each.line}: {each.size:,} bytes"
