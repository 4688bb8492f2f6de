"""Looking checkpoints up: a hundred in one request, one by one where the platform cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anyio

from prime_async.api import AsyncAPIClient
from prime_async.errors import (
    APIError,
    BatchStatusUnsupportedError,
    CheckpointFailedError,
    MethodNotAllowedError,
    NotFoundError,
    UsageError,
)
from prime_async.requests import read_record, send_about
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.checkpoint_models import (
    DURABLE,
    FAILED_STATES,
    BatchCheckpointResponse,
    CheckpointLookupError,
    SandboxCheckpoint,
)
from prime_async.sandboxes.coalescer import BATCH, Coalescer
from prime_async.sandboxes.refusals import Refusals
from prime_async.transport import Replay, path_segment

__all__ = ["CheckpointLookup", "check_checkpoint_ids", "checkpoint_path"]

_LONGEST_ID = 64
_ONE_BY_ONE = 10


def checkpoint_path(checkpoint_id: str, field: str = "checkpoint_id") -> str:
    """Return the path of a checkpoint.

    Raises:
        UsageError: it is no id of one.
    """
    segment = path_segment(checkpoint_id, field)
    if len(checkpoint_id) > _LONGEST_ID:
        raise UsageError(f"{field} is longer than {_LONGEST_ID} characters", field=field)
    return f"/sandbox/checkpoints/{segment}"


def check_checkpoint_ids(checkpoint_ids: Sequence[str]) -> list[str]:
    """Check a list of up to 100 ids.

    Raises:
        UsageError: empty, too long, an id twice, or one that is none.
    """
    field = "checkpoint_ids"
    if isinstance(checkpoint_ids, str) or not isinstance(checkpoint_ids, Sequence):
        raise UsageError(f"{field} is not a list of ids", field=field)
    if not 0 < len(checkpoint_ids) <= BATCH:
        raise UsageError(
            f"{field} has {len(checkpoint_ids)} ids; 1 to {BATCH} are allowed", field=field
        )
    for checkpoint_id in checkpoint_ids:
        checkpoint_path(checkpoint_id, field)
    if len(set(checkpoint_ids)) != len(checkpoint_ids):
        raise UsageError(f"{field} names a checkpoint twice", field=field)
    return list(checkpoint_ids)


class CheckpointLookup:
    """Looks checkpoints up for one client, whose ``background`` owns the task for those that are
    waited for.
    """

    def __init__(self, api: AsyncAPIClient, background: Background) -> None:
        self._api = api
        self._refusals = Refusals()
        self._looks: Coalescer[str, SandboxCheckpoint] = Coalescer(
            self._fetch, background, name="checkpoints"
        )

    async def one(self, checkpoint_id: str, timeout: float | None = None) -> SandboxCheckpoint:
        """Ask for one by itself.

        Raises:
            NotFoundError: there is no such checkpoint.
        """
        path, what = checkpoint_path(checkpoint_id), f"checkpoint {checkpoint_id}"
        response = await send_about(self._api, what, "GET", path, timeout=timeout)
        return read_record(response, SandboxCheckpoint)

    async def many(self, checkpoint_ids: list[str]) -> BatchCheckpointResponse:
        """Return at most 100, in one request where that is possible."""
        if self._refusals.worth_a_try:
            try:
                answer = await self._batch(checkpoint_ids)
            except BatchStatusUnsupportedError:
                self._refusals.refused()
            else:
                self._refusals.accepted()
                return answer
        return await self._one_by_one(checkpoint_ids)

    async def until_durable(self, checkpoint_id: str) -> SandboxCheckpoint:
        """Wait until sandboxes can be made from a checkpoint, and return it.

        Raises:
            NotFoundError: there is no such checkpoint.
            CheckpointFailedError: that will never be.
        """
        found = await self._looks.watch(checkpoint_id, _settled)
        if found.state != DURABLE:
            raise CheckpointFailedError(checkpoint_id, found.state, found.error)
        return found

    async def _batch(self, checkpoint_ids: list[str]) -> BatchCheckpointResponse:
        transport = await self._api.connect()
        try:
            response = await transport.request(
                "POST",
                "/sandbox/checkpoints:batchGet",
                json={"checkpoint_ids": checkpoint_ids},
                replay=Replay.SAFE,
            )
        except (NotFoundError, MethodNotAllowedError) as error:
            raise BatchStatusUnsupportedError(
                "the platform cannot tell many checkpoints in one answer", status=error.status
            ) from error
        return read_record(response, BatchCheckpointResponse)

    async def _fetch(
        self, checkpoint_ids: list[str]
    ) -> Mapping[str, SandboxCheckpoint | Exception]:
        answer = await self.many(checkpoint_ids)
        found: dict[str, SandboxCheckpoint | Exception] = {
            error.checkpoint_id: _lookup_error(error) for error in answer.errors
        }
        found.update({checkpoint.id: checkpoint for checkpoint in answer.checkpoints})
        for checkpoint_id in checkpoint_ids:
            missing = CheckpointLookupError(
                checkpoint_id=checkpoint_id, code="MISSING", message="left out of the answer"
            )
            found.setdefault(checkpoint_id, _lookup_error(missing))
        return found

    async def _one_by_one(self, checkpoint_ids: list[str]) -> BatchCheckpointResponse:
        limiter = anyio.CapacityLimiter(_ONE_BY_ONE)
        found: dict[str, SandboxCheckpoint | CheckpointLookupError] = {}
        failures: list[APIError] = []

        async def look(checkpoint_id: str) -> None:
            async with limiter:
                try:
                    found[checkpoint_id] = await self.one(checkpoint_id)
                except NotFoundError as error:
                    found[checkpoint_id] = CheckpointLookupError(
                        checkpoint_id=checkpoint_id, message=error.message
                    )
                except APIError as error:
                    failures.append(error)

        async with anyio.create_task_group() as group:
            for checkpoint_id in checkpoint_ids:
                group.start_soon(look, checkpoint_id)
        if failures:
            raise failures[0]
        ordered = [found[checkpoint_id] for checkpoint_id in checkpoint_ids]
        return BatchCheckpointResponse(
            checkpoints=[entry for entry in ordered if isinstance(entry, SandboxCheckpoint)],
            errors=[entry for entry in ordered if isinstance(entry, CheckpointLookupError)],
        )


def _settled(checkpoint: SandboxCheckpoint) -> bool:
    return checkpoint.state == DURABLE or checkpoint.state in FAILED_STATES


def _lookup_error(error: CheckpointLookupError) -> APIError:
    if error.code == "NOT_FOUND":
        words = f"there is no checkpoint {error.checkpoint_id}"
        return NotFoundError(words, status=404, code=error.code, detail=error.message or None)
    return APIError(f"{error.checkpoint_id}: {error.code}: {error.message}", code=error.code)
