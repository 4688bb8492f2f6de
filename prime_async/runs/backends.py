"""The two kinds of run as the platform knows them: made, updated, kept alive and closed."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from prime_async import ids
from prime_async.api import AsyncAPIClient
from prime_async.errors import (
    APIError,
    ConflictError,
    EnvironmentNotFoundError,
    NotFoundError,
    PrimeError,
)
from prime_async.evals.environments import resolve_environments
from prime_async.evals.models import Evaluation
from prime_async.requests import given, read_record
from prime_async.runs.errors import EnvironmentResolutionError
from prime_async.runs.options import RunKind, RunSpec, RunStatus
from prime_async.runs.wire import LEASE_HEADER, MAX_ERROR_MESSAGE, TrainingRunAnswer
from prime_async.transport import Replay, Transport, path_segment

__all__ = [
    "LEASES",
    "LEASE_SECONDS",
    "Ending",
    "Handle",
    "create_run",
    "renew_lease",
    "report_end",
    "url_of",
]

LEASES = "run-leases"
"""Feature of platforms that mark a silent run as crashed."""

LEASE_SECONDS = 120.0
"""How long a run may be silent; it is renewed four times as often."""

_REQUEST_SECONDS = 20.0
_LOG = logging.getLogger("prime_async.runs")


@dataclass(frozen=True, slots=True)
class Handle:
    """A run on the platform.

    Attributes:
        id, name, url: as the platform has them; url is the page that shows it.
    """

    id: str
    name: str
    url: str | None


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, as it is reported now or, from the spool, later.

    Attributes:
        kind, run_id: which run.
        status: of `RunStatus`; reported in the words the platform has.
        error: the reason.
        summary: final metrics.
    """

    kind: str
    run_id: str
    status: str
    error: str | None = None
    summary: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def message(self) -> str:
        """The reason as the platform is told: ``cancelled: …`` and ``crashed: …`` begin so."""
        reason = self.error or "no reason is known"
        told = reason if self.status == RunStatus.FAILED else f"{self.status}: {reason}"
        return told[:MAX_ERROR_MESSAGE]


def url_of(kind: RunKind, run_id: str, frontend_url: str) -> str:
    """Return the page that shows a run."""
    part = "evaluations" if kind is RunKind.EVAL else "training"
    return f"{frontend_url}/dashboard/{part}/{run_id}"


async def create_run(api: AsyncAPIClient, spec: RunSpec) -> Handle:
    """Make a run on the platform.

    Raises:
        EnvironmentResolutionError: an environment does not exist.
        PrimeError: the platform refuses, or cannot be reached.
    """
    transport = await api.connect()
    if spec.kind is RunKind.EVAL:
        return await _create_evaluation(api, transport, spec)
    return await _create_training_run(api, transport, spec)


async def report_end(api: AsyncAPIClient, ending: Ending) -> None:
    """Tell the platform how a run ended; one that is closed already is left as it is.

    Raises:
        PrimeError: it could not be told.
    """
    transport = await api.connect()
    try:
        if ending.kind == RunKind.EVAL.value:
            await _end_evaluation(transport, ending)
        else:
            await _end_training_run(transport, ending)
    except ConflictError as error:
        _LOG.info("run_end id=%s: closed before: %s", ending.run_id, error)


async def renew_lease(api: AsyncAPIClient, kind: RunKind, run_id: str) -> bool:
    """Show that the run is alive; False when the platform has no leases.

    Raises:
        PrimeError: the platform cannot be reached, or has no such run.
    """
    transport = await api.connect()
    if LEASES not in transport.features:
        return False
    await transport.request(
        "POST",
        f"/runs/{kind.value}/{path_segment(run_id, 'run_id')}/lease",
        json={"seconds": LEASE_SECONDS},
        replay=Replay.SAFE,
        timeout=_REQUEST_SECONDS,
    )
    return True


async def _create_evaluation(api: AsyncAPIClient, transport: Transport, spec: RunSpec) -> Handle:
    resolved = await _resolve(transport, spec, api.team_id)
    body = {
        "name": spec.name or _default_name(spec),
        "environments": resolved,
        "model_name": spec.model,
        "dataset": _first_name(spec),
        "framework": spec.framework,
        "description": spec.description,
        "metadata": spec.config or None,
        "team_id": api.team_id or None,
    }
    response = await transport.request(
        "POST",
        "/evaluations/",
        json={**given(body), "tags": list(spec.tags)},
        headers=_lease(),
        idempotency_key=ids.new_id("create"),
    )
    made = read_record(response, Evaluation)
    if not made.evaluation_id:
        raise response.broken("has no evaluation_id")
    frontend = api.settings.frontend_url
    url = made.viewer_url or url_of(spec.kind, made.evaluation_id, frontend)
    return Handle(made.evaluation_id, made.name or str(body["name"]), url)


async def _create_training_run(api: AsyncAPIClient, transport: Transport, spec: RunSpec) -> Handle:
    training = spec.training
    body = {
        "base_model": spec.model,
        "max_steps": 0 if training is None else training.max_steps,
        "environments": [_training_environment(one) for one in spec.environments] or None,
        "team_id": api.team_id or None,
        "name": spec.name,
        "run_config": spec.config or None,
    }
    if training is not None:
        names = ("batch_size", "rollouts_per_example", "seq_len")
        names += ("wandb_project", "wandb_entity", "wandb_run_name")  # type: ignore[assignment]
        body |= {name: getattr(training, name) for name in names}
    response = await transport.request(
        "POST",
        "/rft/external-runs",
        json=given(body),
        headers=_lease(),
        idempotency_key=ids.new_id("create"),
    )
    run = read_record(response, TrainingRunAnswer).run
    return Handle(run.id, run.name or run.id, url_of(spec.kind, run.id, api.settings.frontend_url))


def _training_environment(spec: Mapping[str, Any]) -> dict[str, Any]:
    name = spec.get("id") or spec.get("slug") or spec.get("name")
    return given({"id": name, "version_id": spec.get("version_id")})


async def _resolve(
    transport: Transport, spec: RunSpec, team_id: str | None
) -> list[dict[str, Any]]:
    try:
        return await resolve_environments(transport, spec.environments, team_id)
    except (EnvironmentNotFoundError, NotFoundError) as error:
        raise EnvironmentResolutionError(
            error.message, status=error.status, detail=error.detail, hint=error.hint
        ) from error


async def _end_evaluation(transport: Transport, ending: Ending) -> None:
    path = f"/evaluations/{path_segment(ending.run_id, 'run_id')}"
    if ending.status == RunStatus.COMPLETED:
        await transport.request(
            "POST",
            f"{path}/finalize",
            json={"metrics": ending.summary} if ending.summary else {},
            timeout=_REQUEST_SECONDS,
            idempotency_key=f"finalize_{ending.run_id}",
        )
        return
    if ending.summary:
        await _tolerated(transport, path, {"metrics": ending.summary})
    body = {"status": "FAILED", "error_message": ending.message}
    await transport.request("PUT", path, json=body, timeout=_REQUEST_SECONDS)


async def _tolerated(transport: Transport, path: str, body: dict[str, Any]) -> None:
    """The status counts more than the summary of a run that failed."""
    try:
        await transport.request("PUT", path, json=body, timeout=_REQUEST_SECONDS)
    except PrimeError as error:
        _LOG.warning("run_summary path=%s: not stored: %s", path, error)


async def _end_training_run(transport: Transport, ending: Ending) -> None:
    summary = {"summary": ending.summary} if ending.summary else {}
    if ending.status == RunStatus.COMPLETED:
        body = {"run_id": ending.run_id, "exit_code": 0, **summary}
        try:
            await transport.request(
                "POST", "/rft/finalize", json=body, timeout=_REQUEST_SECONDS, replay=Replay.SAFE
            )
            return
        except ConflictError:
            raise
        except APIError as error:
            _LOG.info("run_end id=%s: finalize failed, status follows: %s", ending.run_id, error)
        status: dict[str, Any] = {"status": "completed"}
    else:
        status = {"status": "failed", "error_message": ending.message, **summary}
    path = f"/rft/external-runs/{path_segment(ending.run_id, 'run_id')}/status"
    await transport.request("PUT", path, json=status, timeout=_REQUEST_SECONDS)


def _lease() -> dict[str, str]:
    return {LEASE_HEADER: f"{LEASE_SECONDS:g}"}


def _first_name(spec: RunSpec) -> str | None:
    first = next(iter(spec.environments), {})
    name = first.get("slug") or first.get("name") or first.get("id")
    return None if name is None else str(name)


def _default_name(spec: RunSpec) -> str:
    base = _first_name(spec) or spec.framework or "eval"
    prefix = f"{spec.project}-" if spec.project else ""
    return f"{prefix}{base.rpartition('/')[2]}-{secrets.token_hex(4)}"
