"""What the platform and the sandboxes tell of jobs, read straight into the plainest structs: a
thousand of them are looked at in every round.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import starmap

import msgspec

from prime_async.errors import (
    APIError,
    ForbiddenError,
    PrimeError,
    ProtocolError,
    SandboxNotRunningError,
)
from prime_async.sandboxes.gateway import not_running, sandbox_not_found
from prime_async.sandboxes.job_models import BackgroundJobStatusSnapshot
from prime_async.sandboxes.jobs.handles import JobKey
from prime_async.transport import Response

__all__ = [
    "NOT_VM",
    "Refused",
    "Seen",
    "Told",
    "code_of_error",
    "read_batch",
    "read_probe",
    "snapshot_of",
    "write_batch",
]

NOT_VM = "NOT_VM"
"""Code of a job in a container, of which the platform's batch request tells nothing."""


class Seen(msgspec.Struct, gc=False):
    """How one job is."""

    sandbox_id: str
    job_id: str
    completed: bool = False
    exit_code: int | None = None

    @property
    def key(self) -> JobKey:
        """What identifies the job."""
        return self.sandbox_id, self.job_id


class Refused(msgspec.Struct):
    """Why nothing can be told of one job."""

    sandbox_id: str
    job_id: str
    code: str = "RUNTIME_ERROR"
    message: str = ""

    @property
    def key(self) -> JobKey:
        """What identifies the job."""
        return self.sandbox_id, self.job_id

    def error(self) -> PrimeError:
        """Make the error that says so."""
        words = f"job {self.job_id} of sandbox {self.sandbox_id}: {self.code}: {self.message}"
        if self.code == "NOT_FOUND":
            return sandbox_not_found(self.sandbox_id, APIError(words, code=self.code))
        if self.code == "NOT_RUNNING":
            return not_running(self.sandbox_id, None, message=self.message or None)
        kind = ForbiddenError if self.code == "FORBIDDEN" else APIError
        return kind(words, code=self.code)


class _Wanted(msgspec.Struct, gc=False):
    sandbox_id: str
    job_id: str


class _Batch(msgspec.Struct):
    statuses: list[Seen] = []
    errors: list[Refused] = []


_DECODER = msgspec.json.Decoder(_Batch)


class Told(dict[JobKey, Seen | Refused]):
    """What the platform told of the jobs of one request.

    Attributes:
        sent: body of the request.
        body: body of the answer.
        whole: nothing is wrong with any job.
    """

    __slots__ = ("body", "sent", "whole")

    def __init__(self, sent: bytes, body: bytes) -> None:
        super().__init__()
        self.sent = sent
        self.body = body
        self.whole = True


def write_batch(keys: Iterable[JobKey]) -> bytes:
    """Write the body of a batch request."""
    return msgspec.json.encode({"jobs": [*starmap(_Wanted, keys)]})


def read_batch(sent: bytes, response: Response) -> Told:
    """Read the answer to a batch request.

    Raises:
        ProtocolError: it does not fit.
    """
    try:
        answer = _DECODER.decode(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise response.broken(f"is not what a batch of job statuses looks like: {error}") from error
    told = Told(sent, response.body)
    told.whole = not answer.errors
    for seen in answer.statuses:
        if seen.completed and seen.exit_code is None:
            told.whole = False
            told[seen.key] = Refused(*seen.key, message="it has ended, with no exit code told")
        else:
            told[seen.sandbox_id, seen.job_id] = seen
    told.update({refused.key: refused for refused in answer.errors})
    return told


def read_probe(sandbox_id: str, output: str) -> dict[JobKey, Seen | Refused]:
    """Read what the probe script has printed.

    Raises:
        ProtocolError: it printed something else.
    """
    found: dict[JobKey, Seen | Refused] = {}
    for line in output.splitlines():
        job_id, _, state = line.partition(" ")
        found[sandbox_id, job_id] = _probed(sandbox_id, job_id, state.strip())
    return found


def _probed(sandbox_id: str, job_id: str, state: str) -> Seen | Refused:
    if state == "running":
        return Seen(sandbox_id, job_id)
    if state == "lost":
        message = "it is lost: its process is gone and has left no exit code"
        return Refused(sandbox_id, job_id, message=message)
    if state == "unknown":
        message = "no such job was started there, or its files have been deleted"
        return Refused(sandbox_id, job_id, message=message)
    try:
        return Seen(sandbox_id, job_id, completed=True, exit_code=int(state))
    except ValueError:
        raise ProtocolError(
            f"looking at job {job_id} of sandbox {sandbox_id} gave {state[:100]!r}, no exit code"
        ) from None


def snapshot_of(found: Seen | PrimeError | Exception, key: JobKey) -> BackgroundJobStatusSnapshot:
    """Make the public form of what was found for a job, an error included."""
    sandbox_id, job_id = key
    if isinstance(found, Seen):
        return BackgroundJobStatusSnapshot(
            sandbox_id=sandbox_id,
            job_id=job_id,
            completed=found.completed,
            exit_code=found.exit_code,
        )
    return BackgroundJobStatusSnapshot(
        sandbox_id=sandbox_id, job_id=job_id, error_code=code_of_error(found), error=str(found)
    )


def code_of_error(error: Exception) -> str:
    """Return the code that stands for an error on the status of one job."""
    if isinstance(error, SandboxNotRunningError):
        return "NOT_RUNNING"
    code = error.code if isinstance(error, APIError) else None
    return code or type(error).__name__
