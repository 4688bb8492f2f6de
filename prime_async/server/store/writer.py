"""One thread that owns the writing connection and commits many writes at once.

A write is a function of a connection. The thread drains the queue into one transaction (up to
``GROUP_ROWS`` rows) and answers every submitter after the commit: what was acknowledged is on disk.
A write that fails is undone alone; a full disk or an I/O error undoes the whole group and fails
each of its writes.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from prime_async.server.failures import RequestError

__all__ = ["GROUP_ROWS", "Write", "Writer", "storage_failure"]

GROUP_ROWS = 512
"""Rows in one transaction; a single larger write still goes alone."""

Result = TypeVar("Result")
Write = Callable[[Connection], Result]

_BROKEN = (
    "SQLITE_BUSY",
    "SQLITE_CANTOPEN",
    "SQLITE_CORRUPT",
    "SQLITE_IOERR",
    "SQLITE_LOCKED",
    "SQLITE_NOTADB",
    "SQLITE_READONLY",
)


@dataclass(slots=True)
class _Job:
    write: Write[Any]
    rows: int
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


class Writer:
    """The writer thread and the bounded queue before it; belongs to one event loop."""

    def __init__(self, engine: Engine, *, queued_writes: int) -> None:
        self._engine = engine
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._places = anyio.Semaphore(queued_writes, fast_acquire=True)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting = 0
        self.commits = 0
        self.writes = 0

    @property
    def waiting(self) -> int:
        """Writes that are submitted and not answered."""
        return self._waiting

    def open(self) -> None:
        """Start the thread; its answers go to the running loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="prime-async-writer", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Commit what is queued and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            await anyio.to_thread.run_sync(thread.join)

    async def submit(self, write: Write[Result], *, rows: int = 1) -> Result:
        """Run a write in the next group and return its result once it is committed.

        A submitter that is cancelled does not undo its write.

        Raises:
            RequestError: 507 ``storage_full`` or 503 ``storage_error``; nothing of the write was
                kept.
        """
        async with self._places:
            # After the wait: nothing may be queued behind the end of the queue.
            if self._thread is None or self._loop is None:
                raise RequestError(503, "shutting_down", "the platform is shutting down")
            job = _Job(write, rows, self._loop.create_future())
            self._waiting += 1
            try:
                self._jobs.put(job)
                result: Result = await job.future
            finally:
                self._waiting -= 1
        return result

    def _run(self) -> None:
        with self._engine.connect() as connection:
            while (group := self._next_group()) is not None:
                self._commit(connection, group)
                assert self._loop is not None
                self._loop.call_soon_threadsafe(_deliver, group)

    def _next_group(self) -> list[_Job] | None:
        job = self._jobs.get()
        if job is None:
            return None
        group, rows = [job], job.rows
        while rows < GROUP_ROWS:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                # The end was asked for: finish this group, then see the request again.
                self._jobs.put(None)
                break
            group.append(job)
            rows += job.rows
        return group

    def _commit(self, connection: Connection, group: list[_Job]) -> None:
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            for job in group:
                self._run_job(connection, job, alone=len(group) == 1)
            connection.commit()
            self.commits += 1
            self.writes += len(group)
        except BaseException as error:
            # Reported, not swallowed: every submitter of the group gets it.
            connection.rollback()
            for job in group:
                job.error = storage_failure(error) or error

    def _run_job(self, connection: Connection, job: _Job, *, alone: bool) -> None:
        if alone:
            job.result = job.write(connection)
            return
        connection.exec_driver_sql("SAVEPOINT job")
        try:
            job.result = job.write(connection)
        except Exception as error:
            if storage_failure(error) is not None:
                raise
            connection.exec_driver_sql("ROLLBACK TO job")
            job.error = error
        connection.exec_driver_sql("RELEASE job")


def _deliver(group: list[_Job]) -> None:
    for job in group:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def storage_failure(error: BaseException) -> RequestError | None:
    """The answer for an error of the storage itself, or None for an error of the statement."""
    if not isinstance(error, DBAPIError):
        return None
    name = getattr(error.orig, "sqlite_errorname", "") or ""
    if name == "SQLITE_FULL":
        failure = RequestError(
            507, "storage_full", "the platform's disk is full; nothing was stored"
        )
    elif name.startswith(_BROKEN):
        failure = RequestError(
            503, "storage_error", "the platform cannot use its database; nothing was stored"
        )
    else:
        return None
    failure.__cause__ = error
    return failure
