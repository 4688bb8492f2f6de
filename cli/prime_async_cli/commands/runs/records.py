"""Runs as the platform keeps them: an evaluation or a training run, and what its traces tell."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_async.api import AsyncAPIClient
    from prime_async.errors import ForbiddenError
    from prime_async.traces import AsyncTracesClient, RunSummary

__all__ = ["Known", "find_record", "find_run", "find_traces", "is_disabled"]

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a run.

    Attributes:
        run_id: its id.
        kind: ``eval`` or ``train``; ``unknown`` where only its traces are known and do not tell.
        record: the evaluation or the training run, as the platform sends it, or None.
        traces: its traces added up, or None without any.
    """

    run_id: str
    kind: str
    record: Row | None
    traces: RunSummary | None

    def field(self, *names: str) -> Any:
        """Return the first of these fields of the record that is set."""
        record = self.record or {}
        return next((record[name] for name in names if record.get(name) is not None), None)

    def document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "run_id": self.run_id,
            "type": self.kind,
            "record": self.record,
            "traces": self.traces,
        }


async def find_run(api: AsyncAPIClient, traces: AsyncTracesClient, run_id: str) -> Known:
    """Find a run by its id.

    Raises:
        CommandError: neither a record nor a trace has this id.
    """
    from prime_async_cli.failures import CommandError

    kind, record = await find_record(api, run_id)
    summary = await find_traces(traces, run_id)
    if record is None and summary is None:
        raise CommandError(
            f"no evaluation, training run or trace has the run id {run_id}",
            hint="`prime-async runs list` shows the ids",
            code=1,
        )
    return Known(run_id, kind if record is not None else _told(summary), record, summary)


def _told(summary: RunSummary | None) -> str:
    from prime_async_cli.commands.traces.rows import run_type

    return "unknown" if summary is None else run_type(summary)


async def find_record(api: AsyncAPIClient, run_id: str) -> tuple[str, Row | None]:
    """Find the training run or the evaluation of this id; say which it is."""
    from prime_async.errors import MethodNotAllowedError, NotFoundError
    from prime_async.evals import AsyncEvalsClient
    from prime_async.runs import AsyncRunsClient

    with suppress(NotFoundError, MethodNotAllowedError):  # some platforms cannot read them back
        return "train", await AsyncRunsClient(api).get_training_run(run_id)
    with suppress(NotFoundError):
        return "eval", await AsyncEvalsClient(api).get_evaluation(run_id)
    return "unknown", None


async def find_traces(traces: AsyncTracesClient, run_id: str) -> RunSummary | None:
    """Return the traces of a run added up, or None: no traces, or no traces service here."""
    from prime_async.errors import ForbiddenError, NotFoundError

    try:
        return await traces.get_run(run_id)
    except NotFoundError:
        return None
    except ForbiddenError as error:
        if not is_disabled(error):
            raise
        return None


def is_disabled(error: ForbiddenError) -> bool:
    """Tell whether the account has no traces service, and not only this key no right."""
    return error.code == "service_not_enabled"
