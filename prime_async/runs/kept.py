"""What runs left on disk: one look at every entry, for listings and for the sync."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_async.errors import SpoolError
from prime_async.runs.endings import ENDINGS
from prime_async.runs.options import RunKind
from prime_async.runs.queue import Lane
from prime_async.spool import Meta, Spool, SpoolEntry

__all__ = ["KeptRecords", "kept_records"]

_KINDS = (*(lane.value for lane in Lane), ENDINGS)


@dataclass(frozen=True, slots=True)
class KeptRecords:
    """Records of one kind that one process of a run left on disk.

    Attributes:
        kind: such as ``run.traces`` or ``run.metrics``; ``run.endings`` is the end of a run.
        run_id, run_kind: the run.
        base_url, context: where they were going.
        path: the folder.
        records: how many are to be delivered.
        bytes: size of the folder.
        running: True while the process that logs them, or one that delivers them, is alive.
        fault: why they cannot be used, or None.
    """

    kind: str
    run_id: str
    run_kind: RunKind
    base_url: str | None
    context: str | None
    path: Path
    records: int
    bytes: int
    running: bool
    fault: str | None = None


def kept_records(spool: Spool) -> list[KeptRecords]:
    """List what is kept, oldest first and ends of runs last. Reads files: call it in a thread."""
    entries = [entry for kind in _KINDS for entry in spool.entries(kind)]
    return [kept for entry in entries if (kept := _look_at(entry)) is not None]


def _look_at(entry: SpoolEntry) -> KeptRecords | None:
    """Describe an entry; None when it was delivered and removed since it was listed."""
    try:
        state = entry.state(verify=False)
        if state.meta is None:
            return _described(entry, Meta(), 0, "nothing in it says where it was going")
        return _described(entry, state.meta, state.undelivered.total, None)
    except SpoolError as error:
        return _described(entry, Meta(), 0, error.message) if entry.path.is_dir() else None


def _described(entry: SpoolEntry, meta: Meta, records: int, fault: str | None) -> KeptRecords:
    target: dict[str, Any] = dict(meta.target)
    train = target.get("run_kind") == RunKind.TRAIN
    return KeptRecords(
        kind=entry.kind,
        run_id=str(target.get("run_id", "")),
        run_kind=RunKind.TRAIN if train else RunKind.EVAL,
        base_url=meta.base_url,
        context=meta.context,
        path=entry.path,
        records=records,
        bytes=entry.bytes,
        running=entry.holder() is not None,
        fault=fault,
    )
