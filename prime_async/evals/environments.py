"""From what users write for an environment to the id the platform wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from prime_async.errors import (
    EnvironmentNotFoundError,
    InvalidEvaluationError,
    NotFoundError,
    ProtocolError,
)
from prime_async.evals.models import ResolvedEnvironment
from prime_async.transport import Replay, Transport, path_segment

__all__ = [
    "EnvironmentSpec",
    "check_environments",
    "environments_or_dataset",
    "resolve_environments",
]

EnvironmentSpec = str | Mapping[str, Any]
"""``"owner/name"`` (must exist), a bare name (made when missing), or a mapping with ``id``,
``slug`` or ``name``.
"""

_AT_A_TIME = 8


def environments_or_dataset(
    environments: Sequence[EnvironmentSpec] | None, dataset: str | None, run_id: str | None
) -> Sequence[EnvironmentSpec]:
    """Say which environments are meant: those given, or with none (and no run) the dataset.

    Raises:
        InvalidEvaluationError: nothing is given.
    """
    if environments or run_id:
        return environments or ()
    if not dataset:
        raise InvalidEvaluationError(
            "an evaluation belongs to an environment, a dataset or a run; none is given",
            field="environments",
            hint='pass environments=["owner/name"], dataset="name" or run_id=',
        )
    return (dataset,)


def check_environments(environments: Sequence[EnvironmentSpec]) -> None:
    """Check the form of environments before anything is sent.

    Raises:
        InvalidEvaluationError: names the entry at fault.
    """
    given: object = environments  # callers without a type checker may pass anything
    if isinstance(given, str | Mapping):
        raise InvalidEvaluationError(
            "environments is a single one", field="environments", hint="put it into a list"
        )
    if not isinstance(given, Sequence):
        what = f"environments is a {type(given).__name__}, not a list"
        raise InvalidEvaluationError(what, field="environments")
    for place, spec in enumerate(environments):
        field = f"environments[{place}]"
        if isinstance(spec, Mapping):
            _check_mapping(spec, field)
        elif not isinstance(spec, str) or not spec.strip():
            raise InvalidEvaluationError(f"{field} is {spec!r}, not a name or mapping", field=field)
        elif "/" in spec:
            _check_slug(spec, field)


def _check_mapping(spec: Mapping[str, Any], field: str) -> None:
    key = next((key for key in ("slug", "name", "id") if spec.get(key)), None)
    if key is None or not isinstance(spec[key], str):
        raise InvalidEvaluationError(f"{field} has no text under id, slug or name", field=field)
    if key == "slug":
        _check_slug(spec["slug"], field)


def _check_slug(slug: str, field: str) -> None:
    owner, _, name = slug.partition("/")
    if not owner or not name or "/" in name:
        raise InvalidEvaluationError(f"{field} {slug!r} is not of the form owner/name", field=field)


async def resolve_environments(
    transport: Transport, environments: Sequence[EnvironmentSpec], team_id: str | None
) -> list[dict[str, Any]]:
    """Find the id of every environment, keeping further keys (``version_id``) beside it.

    Raises:
        EnvironmentNotFoundError: names the first that does not exist. Account and platform errors
            come as they are.
    """
    resolved: list[dict[str, Any]] = [{} for _ in environments]
    failures: list[tuple[int, Exception]] = []
    limiter = anyio.CapacityLimiter(_AT_A_TIME)

    async def resolve(place: int, spec: EnvironmentSpec) -> None:
        async with limiter:
            try:
                resolved[place] = await _resolve(transport, spec, team_id)
            except (
                Exception
            ) as error:  # collected, so that the first in input order is raised and not a group
                failures.append((place, error))

    async with anyio.create_task_group() as group:
        for place, spec in enumerate(environments):
            group.start_soon(resolve, place, spec)
    if failures:
        raise min(failures, key=lambda failure: failure[0])[1]
    return resolved


async def _resolve(
    transport: Transport, spec: EnvironmentSpec, team_id: str | None
) -> dict[str, Any]:
    if isinstance(spec, str):
        spec = {"slug": spec} if "/" in spec else {"name": spec}
    rest = {key: value for key, value in spec.items() if key not in ("slug", "name", "id")}
    try:
        found = await _look_up(transport, spec, team_id)
    except NotFoundError as error:
        if error.code == "team_not_found":
            raise
        what = spec.get("slug") or spec.get("name") or spec.get("id")
        raise EnvironmentNotFoundError(
            f"environment {what!r} does not exist, or is not visible to this account or team",
            status=error.status,
            detail=error.detail,
            request_id=error.request_id,
            hint="push it first, or check owner and name",
        ) from error
    return {"id": found.id, **rest}


async def _look_up(
    transport: Transport, spec: Mapping[str, Any], team_id: str | None
) -> ResolvedEnvironment:
    if slug := spec.get("slug"):
        owner, _, name = str(slug).partition("/")
        path = (
            f"/environmentshub/{path_segment(owner, 'owner')}/{path_segment(name, 'name')}/@latest"
        )
        response = await transport.request("GET", path)
    elif spec.get("name"):
        body = {"name": spec["name"], **({"team_id": team_id} if team_id else {})}
        # Gets or makes the one environment of this name: asking twice is asking once.
        response = await transport.request(
            "POST", "/environmentshub/resolve", json=body, replay=Replay.SAFE
        )
    else:
        response = await transport.request(
            "POST", "/environmentshub/lookup", json={"id": spec["id"]}, replay=Replay.SAFE
        )
    answer = response.json()
    data = answer.get("data", answer)
    if not isinstance(data, dict) or not isinstance(data.get("id"), str):
        raise ProtocolError(
            f"the answer to {response.method} {response.url} names no environment id",
            status=response.status,
            detail=answer,
        )
    return ResolvedEnvironment.from_wire(data)
