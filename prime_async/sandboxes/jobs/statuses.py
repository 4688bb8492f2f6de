"""Statuses of jobs: a hundred in one request; by a command in each sandbox where that cannot be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import anyio

from prime_async.api import AsyncAPIClient
from prime_async.errors import (
    APIError,
    BatchStatusUnsupportedError,
    CommandTimeoutError,
    MethodNotAllowedError,
    NotFoundError,
    PrimeError,
    ProtocolError,
    SandboxNotRunningError,
    TransportError,
)
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.coalescer import Batch, Coalescer
from prime_async.sandboxes.commands import CommandOptions
from prime_async.sandboxes.gateway import Gateway, not_running
from prime_async.sandboxes.job_models import BackgroundJobStatusSnapshot
from prime_async.sandboxes.jobs.handles import JobKey
from prime_async.sandboxes.jobs.script import probe_script
from prime_async.sandboxes.jobs.seen import (
    NOT_VM,
    Refused,
    Seen,
    Told,
    read_batch,
    read_probe,
    snapshot_of,
    write_batch,
)
from prime_async.sandboxes.models import ENDED_STATUSES
from prime_async.sandboxes.refusals import Refusals
from prime_async.sandboxes.running import execute
from prime_async.sandboxes.statuses import Statuses
from prime_async.sandboxes.waiters import AGAIN, Answer, Later, Waiter
from prime_async.transport import BytesBody, Replay

__all__ = ["JobStatuses"]

_BATCH_SECONDS = 30.0
_PROBE_SECONDS = 30.0
_PROBES_AT_A_TIME = 20
_SANDBOX_SECONDS = 10.0


class JobStatuses:
    """Looks at the jobs of one client.

    Args:
        api: the control plane.
        gateway: the way into sandboxes.
        sandboxes: tells why nothing is heard of a job.
        background: owns the task that polls.

    Attributes:
        requests: requests and commands sent.
    """

    def __init__(
        self, api: AsyncAPIClient, gateway: Gateway, sandboxes: Statuses, background: Background
    ) -> None:
        self._api = api
        self._gateway = gateway
        self._sandboxes = sandboxes
        self._containers: set[str] = set()
        self._refusals = Refusals()
        self._probes = anyio.CapacityLimiter(_PROBES_AT_A_TIME)
        self.requests = 0
        self.looks: Coalescer[JobKey, Seen] = Coalescer(
            self._fetch, background, lanes=self._lanes, name="job statuses"
        )

    async def one(self, key: JobKey) -> Seen:
        """Look at one job, together with those that others look at.

        Raises:
            PrimeError: nothing can be told of it.
        """
        await self._api.connect()
        return await self.looks.get(key)

    async def until_completed(self, key: JobKey, *, least: float = 0.0) -> Seen:
        """Wait until a job has ended; passing faults of the platform are waited out.

        Raises:
            PrimeError: nothing can be told of it, now or later.
        """
        await self._api.connect()
        return await self.looks.watch(key, _completed, least=least)

    async def subscribe(
        self, keys: Sequence[JobKey], told: Callable[[Waiter[JobKey, Seen]], None]
    ) -> list[Waiter[JobKey, Seen]]:
        """Begin to wait for many jobs at once; see :meth:`Coalescer.subscribe`."""
        await self._api.connect()
        return [self.looks.subscribe(key, _completed, told) for key in keys]

    async def many(
        self, keys: Sequence[JobKey], timeout: float | None
    ) -> list[BackgroundJobStatusSnapshot]:
        """Look at up to 100 jobs now, in one request; what is wrong with one stands on it.

        Raises:
            BatchStatusUnsupportedError: one of them is in a container; before any request where
                that is known.
            APIError: nothing can be told of any.
        """
        self._refuse_containers(keys)
        found: Mapping[JobKey, Seen | Refused | Exception]
        try:
            found = await self._batch(keys, timeout)
        except BatchStatusUnsupportedError:
            found = await self._probe_all(keys)
        self._refuse_containers(keys)
        return [snapshot_of(_plain(found.get(key), key), key) for key in keys]

    def is_container(self, sandbox_id: str) -> bool:
        """Whether a sandbox is known to be a container."""
        return sandbox_id in self._containers or self._gateway.known_container(sandbox_id)

    def _refuse_containers(self, keys: Sequence[JobKey]) -> None:
        for sandbox_id, job_id in keys:
            if self.is_container(sandbox_id):
                raise BatchStatusUnsupportedError(
                    f"job {job_id} is in sandbox {sandbox_id}, a container, and only virtual "
                    "machines can be asked for many jobs at once",
                    code=NOT_VM,
                    hint="get_background_job, wait_background_jobs and as_completed take both",
                )

    def _lanes(self) -> Callable[[JobKey], str | None] | None:
        return self._lane if self._containers or self._gateway.knows_containers else None

    def _lane(self, key: JobKey) -> str | None:
        sandbox_id = key[0]
        return sandbox_id if self.is_container(sandbox_id) else None

    # One round of the poller.

    async def _fetch(self, keys: Batch[JobKey, Seen]) -> Mapping[JobKey, Answer[Seen]]:
        found: Mapping[JobKey, Seen | Refused | Exception]
        if self.is_container(keys[0][0]) or not self._refusals.worth_a_try:
            found = await self._probe_all(keys)
        else:
            try:
                told = await self._batch(keys, _BATCH_SECONDS, keys.found)
                if told.whole and len(told) == len(keys):
                    return cast("Mapping[JobKey, Answer[Seen]]", told)
                found = told
            except BatchStatusUnsupportedError:
                found = await self._probe_all(keys)
            except APIError as error:
                if not _may_pass(error):
                    raise
                found = dict.fromkeys(keys, error)
        answers = {key: self._answer(found.get(key), key) for key in keys}
        failed = [key for key, one in found.items() if isinstance(one, Exception)]
        if failed:
            answers.update(await self._ended(failed))
        return answers

    def _answer(self, found: Seen | Refused | Exception | None, key: JobKey) -> Answer[Seen]:
        if isinstance(found, Seen):
            return found
        if isinstance(found, Refused) and found.code == NOT_VM and key[0] in self._containers:
            return AGAIN
        error = _plain(found, key)
        return Later(error) if isinstance(error, Exception) and _may_pass(error) else error

    async def _batch(
        self, keys: Sequence[JobKey], timeout: float | None, last: object = None
    ) -> Told:
        """Ask for up to 100 jobs; an answer that says what `last` says of the same is `last`."""
        transport = await self._api.connect()
        self.requests += 1
        before = last if isinstance(last, Told) else None
        sent = write_batch(keys) if before is None else before.sent
        try:
            response = await transport.request(
                "POST",
                "/sandbox/background-jobs/status:batchGet",
                body=BytesBody(sent),
                timeout=timeout or _BATCH_SECONDS,
                replay=Replay.SAFE,
            )
        except (NotFoundError, MethodNotAllowedError) as error:
            self._refusals.refused()
            raise BatchStatusUnsupportedError(
                "the platform cannot tell many jobs in one answer", status=error.status
            ) from error
        self._refusals.accepted()
        if before is not None and response.body == before.body:
            return before
        told = read_batch(sent, response)
        if not told.whole:
            refused = (one for one in told.values() if isinstance(one, Refused))
            self._containers.update(one.sandbox_id for one in refused if one.code == NOT_VM)
        return told

    async def _probe_all(self, keys: Sequence[JobKey]) -> dict[JobKey, Seen | Refused | Exception]:
        """Run a command in each of the sandboxes; what goes wrong in one is its jobs' error."""
        by_sandbox: defaultdict[str, list[str]] = defaultdict(list)
        for sandbox_id, job_id in keys:
            by_sandbox[sandbox_id].append(job_id)
        found: dict[JobKey, Seen | Refused | Exception] = {}

        async def probe(sandbox_id: str, job_ids: list[str]) -> None:
            try:
                async with self._probes:
                    found.update(await self._probe(sandbox_id, job_ids))
            except PrimeError as error:
                found.update(dict.fromkeys(((sandbox_id, job_id) for job_id in job_ids), error))

        async with anyio.create_task_group() as group:
            for sandbox_id, job_ids in by_sandbox.items():
                group.start_soon(probe, sandbox_id, job_ids)
        return found

    async def _probe(self, sandbox_id: str, job_ids: list[str]) -> dict[JobKey, Seen | Refused]:
        self.requests += 1
        options = CommandOptions(probe_script(job_ids), seconds=_PROBE_SECONDS)
        answer = await execute(self._gateway, sandbox_id, options, None)
        return read_probe(sandbox_id, answer.stdout)

    async def _ended(self, keys: Sequence[JobKey]) -> dict[JobKey, SandboxNotRunningError]:
        """Say which jobs are not heard of because their sandbox has ended, and why it has."""
        sandbox_ids = list(dict.fromkeys(sandbox_id for sandbox_id, _ in keys))
        try:
            with anyio.fail_after(_SANDBOX_SECONDS):
                answer = await self._sandboxes.many(sandbox_ids)
        except (APIError, TimeoutError):
            return {}  # asked about a failure, which it must not hide
        ended = {seen.sandbox_id: seen for seen in answer.statuses if seen.status in ENDED_STATUSES}
        return {
            key: not_running(
                key[0],
                ended[key[0]].status,
                ended[key[0]].error_type,
                None,
                ended[key[0]].error_message,
            )
            for key in keys
            if key[0] in ended
        }


def _completed(seen: Seen) -> bool:
    return seen.completed


def _plain(found: Seen | Refused | Exception | None, key: JobKey) -> Seen | Exception:
    if found is None:
        return ProtocolError(
            f"job {key[1]} of sandbox {key[0]} was left out of the answer", code="MISSING"
        )
    return found.error() if isinstance(found, Refused) else found


def _may_pass(error: Exception) -> bool:
    if isinstance(error, CommandTimeoutError | TransportError):
        return True
    return isinstance(error, APIError) and (error.retryable or (error.status or 0) >= 500)
