"""Refused records, one by one: counted, named, and kept apart so that they can be looked at."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from prime_async import ids
from prime_async.errors import SpoolError, UsageError
from prime_async.runs.blocks import Item
from prime_async.runs.receipts import RefusedRecord
from prime_async.runs.spooling import SpoolPlace
from prime_async.spool import EntryWriter

__all__ = ["QUARANTINE", "Quarantine", "RECORDS_NAMED"]

QUARANTINE = "run.refused"
"""Folder of the spool with what platforms refused; nothing delivers it."""

RECORDS_NAMED = 1000
"""So many refused records are named; all of them are counted."""

_LOG = logging.getLogger("prime_async.runs")
_LOGGED = 10


class Quarantine:
    """The refused records of one run. From any thread.

    Attributes:
        records: the first thousand, with their reasons.
        path: the folder that keeps those which could be encoded, or None.
    """

    def __init__(self, place: SpoolPlace) -> None:
        self.records: list[RefusedRecord] = []
        self.path: Path | None = None
        self._place = place
        self._lock = threading.Lock()
        self._writer: EntryWriter | None = None
        self._number = 0

    def note(self, record: RefusedRecord) -> None:
        """Name a record that was refused before it could be encoded."""
        with self._lock:
            self._number += 1
            if len(self.records) < RECORDS_NAMED:
                self.records.append(record)
            if self._number <= _LOGGED:
                more = "; further ones are counted only" if self._number == _LOGGED else ""
                _LOG.warning("run_refused sink=%s: %s%s", record.sink, record.reason, more)

    def keep(self, item: Item, record: RefusedRecord) -> None:
        """Name a record that the platform refused, and keep it. Blocks: for a thread."""
        self.note(record)
        with self._lock:
            try:
                writer = self._opened()
                if writer is not None:
                    number = self._number - 1
                    writer.data(number, item.data)
                    writer.refuse(number, record.reason, status=record.status)
            except (SpoolError, UsageError) as error:
                _LOG.warning("run_refused: a refused record could not be kept: %s", error)

    def close(self) -> None:
        """Let go of the folder, which stays."""
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                try:
                    writer.end(0)
                    writer.close()
                except SpoolError as error:
                    _LOG.warning("run_refused path=%s: %s", self.path, error)

    def abandon(self) -> None:
        """In a forked child: what is there is the parent's."""
        self._lock = threading.Lock()
        writer, self._writer = self._writer, None
        self.records, self.path, self._number = [], None, 0
        if writer is not None:
            writer.close()

    def _opened(self) -> EntryWriter | None:
        if self._writer is None and self._place.spool is not None:
            self._writer = self._place.spool.create(
                QUARANTINE, ids.new_id("log"), self._place.meta()
            )
            self.path = self._writer.entry.path
        return self._writer
