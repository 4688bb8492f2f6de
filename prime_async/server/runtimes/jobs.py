"""The background jobs of a sandbox, by the files they keep in its ``/tmp``. Blocks.

A job is a detached command that a client started: `job_ID.exit` is its exit code once it has ended,
`job_ID.launch/pid` its process until then. Nothing is started to find out how it is.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from prime_async.server.runtimes.errors import SandboxFileError
from prime_async.server.runtimes.rooted import Root

__all__ = ["JOB_ID", "JobState", "any_job_runs", "read_jobs"]

JOB_ID = "^[0-9a-f]{8}$"
"""Names of jobs."""

LAUNCH_SECONDS = 30.0
"""How long a job may take from its folder to its process; official clients wait no longer."""

_FOLDER = "/tmp"  # noqa: S108  # the sandbox's own
_LAUNCH = re.compile(r"job_([0-9a-f]{8})\.launch")
_NUMBER_BYTES = 64
_PIECE_BYTES = 16 * 1024
_COMMAND_BYTES = 256 * 1024
"""Longer than the longest script that an argument can hold (128 KiB)."""


@dataclass(frozen=True, slots=True)
class JobState:
    """How a job is: it runs, it has ended with a code, or there is a reason why nobody can tell."""

    job_id: str
    exit_code: int | None = None
    problem: str | None = None

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.exit_code is None and self.problem is None


def read_jobs(root: Root, job_ids: Iterable[str]) -> list[JobState]:
    """Look at jobs of one sandbox."""
    with root.identity.taken(), suppress(SandboxFileError, OSError), _Look(root) as look:
        return [look.at(job_id) for job_id in job_ids]
    return [JobState(job_id, problem=f"{_FOLDER} cannot be read") for job_id in job_ids]


def any_job_runs(root: Root) -> bool:
    """Whether one of the jobs of a sandbox runs."""
    with root.identity.taken(), suppress(SandboxFileError, OSError), _Look(root) as look:
        return any(look.at(job_id).running for job_id in look.launched())
    return False


class _Look:
    """One look at the jobs of a sandbox, through its ``/tmp`` and its procfs."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._folder = self._processes = -1

    def __enter__(self) -> Self:
        self._folder = self._root.open_directory(_FOLDER)
        with suppress(OSError):  # A root without one has no processes.
            self._processes = self._root.open_processes()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)
        if self._processes >= 0:
            os.close(self._processes)

    def launched(self) -> Iterator[str]:
        """The jobs that were ever started, as far as their folders are still there."""
        for name in os.listdir(self._folder):  # noqa: PTH208  # by descriptor
            if match := _LAUNCH.fullmatch(name):
                yield match[1]

    def at(self, job_id: str) -> JobState:
        """How a job is."""
        try:
            code = self._exit_code(job_id)
            if code is None and not self._lives(job_id):
                # It may have ended between the two looks.
                code = self._exit_code(job_id)
                if code is None:
                    return JobState(job_id, problem=_lost(job_id))
        except ValueError:
            return JobState(job_id, problem=f"{_exit_path(job_id)} does not hold an exit code")
        except (SandboxFileError, OSError) as error:
            words = error.message if isinstance(error, SandboxFileError) else error.strerror
            return JobState(job_id, problem=f"{_exit_path(job_id)} cannot be read: {words}")
        return JobState(job_id, exit_code=code)

    def _exit_code(self, job_id: str) -> int | None:
        """What its file says; None when it is not there, or still empty."""
        text = self._content(f"job_{job_id}.exit")
        return int(text) if text else None

    def _content(self, path: str) -> bytes:
        try:
            descriptor = self._root.open_in(self._folder, path)
        except (FileNotFoundError, NotADirectoryError):
            return b""
        try:
            return os.read(descriptor, _NUMBER_BYTES).strip()
        finally:
            os.close(descriptor)

    def _lives(self, job_id: str) -> bool:
        with suppress(SandboxFileError):
            pid = self._content(f"job_{job_id}.launch/pid")
            if pid.isdigit():
                return self._is_process_of(int(pid), job_id)
        return self._is_being_launched(job_id)

    def _is_process_of(self, pid: int, job_id: str) -> bool:
        """Whether it is that job's: numbers are used again, but its command names its file."""
        try:
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(f"{pid}/cmdline", flags, dir_fd=self._processes)
        except OSError:
            return False
        try:
            return _holds(descriptor, _exit_path(job_id).encode())
        except OSError:
            return False
        finally:
            os.close(descriptor)

    def _is_being_launched(self, job_id: str) -> bool:
        try:
            found = os.stat(f"job_{job_id}.launch", dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            return False
        # A time to come is none: the clock was put back, or somebody has set it.
        return abs(time.time() - found.st_mtime) < LAUNCH_SECONDS


def _holds(descriptor: int, words: bytes) -> bool:
    seen = b""
    while piece := os.read(descriptor, _PIECE_BYTES):
        seen += piece
        if words in seen:
            return True
        if len(seen) > _COMMAND_BYTES:
            break
    return False


def _exit_path(job_id: str) -> str:
    return f"{_FOLDER}/job_{job_id}.exit"


def _lost(job_id: str) -> str:
    return (
        f"job {job_id} is lost: its process is gone and left no exit code in {_exit_path(job_id)} "
        "(it was killed from outside, its files were deleted, or no such job was ever started)"
    )
