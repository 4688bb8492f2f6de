"""Opens the database and gives the three ways to use it: point reads, scans, writes."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import anyio
from sqlalchemy import Connection, Dialect, Engine, create_engine, event
from sqlalchemy.engine import Compiled
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool
from sqlalchemy.util import LRUCache

from prime_async.errors import LocalPlatformError
from prime_async.server.store.migrations import migrate
from prime_async.server.store.writer import Writer

__all__ = ["Database"]

SCAN_THREADS = 4
"""Scans at the same time; further ones wait."""

_UNREADABLE = "check the folder's owner, mode and free space"
_DAMAGED = "the file is damaged: put a copy of it back, or move it away to begin with an empty one"

Result = TypeVar("Result")


class Database:
    """The platform's SQLite file.

    ``point`` runs short keyed reads on the calling loop thread (microseconds), ``scan`` runs reads
    that may take longer in a thread over one snapshot, ``write`` hands a function to the writer
    thread.

    Args:
        path: the file.
        queued_writes: writes that may wait for the writer thread.
        max_bytes: size the file may reach, None for what the disk holds.
        lock_seconds: how long another program may hold the file before a write is refused.
    """

    def __init__(
        self,
        path: Path,
        *,
        queued_writes: int = 1024,
        max_bytes: int | None = None,
        lock_seconds: float = 10.0,
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self.engine = _make_engine(path, lock_seconds)
        self._scans = anyio.CapacityLimiter(SCAN_THREADS)
        self._reader: Connection | None = None
        self.writer = Writer(self.engine, queued_writes=queued_writes)

    async def open(self) -> None:
        """Create or migrate the file (mode 0600) and start the writer.

        Raises:
            LocalPlatformError: the file cannot be opened, is not a database, or is from a newer
                version.
        """
        await anyio.to_thread.run_sync(self._prepare)
        self._reader = self.engine.connect()
        self.writer.open()

    async def close(self) -> None:
        """Commit what is queued and close the file."""
        await self.writer.close()
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        await anyio.to_thread.run_sync(self.engine.dispose)

    def point(self, read: Callable[[Connection], Result]) -> Result:
        """Run a keyed read here and now; only for reads of a few rows."""
        assert self._reader is not None, "the database is not open"
        return read(self._reader)

    async def scan(self, read: Callable[[Connection], Result]) -> Result:
        """Run a read in a thread over one snapshot of the data."""
        return await anyio.to_thread.run_sync(self._scan, read, limiter=self._scans)

    async def write(self, write: Callable[[Connection], Result], *, rows: int = 1) -> Result:
        """Run a write in the writer thread; see :meth:`Writer.submit`."""
        return await self.writer.submit(write, rows=rows)

    def _scan(self, read: Callable[[Connection], Result]) -> Result:
        with self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            return read(connection)

    def _prepare(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite gives its -wal and -shm files the mode of the main file.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            self._path.chmod(0o600)
            with self.engine.connect() as connection:
                migrate(connection)
                self._limit_size(connection)
        except (DBAPIError, OSError) as error:
            reason = getattr(error, "orig", error)
            raise LocalPlatformError(
                f"cannot open the platform's database {self._path}: {reason}",
                hint=_DAMAGED if "not a database" in str(reason) else _UNREADABLE,
            ) from error

    def _limit_size(self, connection: Connection) -> None:
        if self._max_bytes is None:
            return
        max_bytes = self._max_bytes

        @event.listens_for(self.engine, "connect")
        def limit(dbapi_connection: Any, _record: Any) -> None:
            _limit_pages(dbapi_connection, max_bytes)

        _limit_pages(connection.connection.dbapi_connection, max_bytes)


def _limit_pages(dbapi_connection: Any, max_bytes: int) -> None:
    page_bytes = dbapi_connection.execute("PRAGMA page_size").fetchone()[0]
    dbapi_connection.execute(f"PRAGMA max_page_count = {max(1, max_bytes // page_bytes)}")


def _make_engine(path: Path, lock_seconds: float) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        poolclass=QueuePool,
        pool_size=SCAN_THREADS + 2,
        max_overflow=0,
        # Errors end up in the log, and parameters are what users stored.
        hide_parameters=True,
        # isolation_level None: transactions are opened by our own BEGIN, never behind our back.
        connect_args={
            "check_same_thread": False,
            "isolation_level": None,
            "timeout": lock_seconds,
        },
    )
    event.listen(engine, "connect", _set_pragmas)
    engine.dialect, compiled = _compiling()
    engine.update_execution_options(compiled_cache=compiled)
    return engine


@cache
def _compiling() -> tuple[Dialect, LRUCache[Any, Compiled]]:
    """Compile statements once for all platforms of a process: it takes longer than running them."""
    engine = create_engine("sqlite://")
    with engine.connect():
        pass  # The dialect looks at the version of SQLite.
    engine.dispose()
    return engine.dialect, LRUCache(500)


def _set_pragmas(dbapi_connection: Any, _record: Any) -> None:
    for pragma in (
        "page_size = 8192",
        "journal_mode = WAL",
        "synchronous = NORMAL",
        "journal_size_limit = 67108864",
        "cache_size = -4096",
        "temp_store = MEMORY",
    ):
        dbapi_connection.execute(f"PRAGMA {pragma}")
