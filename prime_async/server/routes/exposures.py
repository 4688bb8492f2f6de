"""Exposed ports: HTTP and WebSockets under an address of this server, TCP on a loopback port."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import anyio
from msgspec import Meta, Struct
from sqlalchemy import Connection, RowMapping

from prime_async.sandboxes.network_models import ExposedPort, ListExposedPortsResponse
from prime_async.server.answers import Answer, answer
from prime_async.server.clock import timestamp
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError
from prime_async.server.identifiers import new_id
from prime_async.server.routes.sandboxes import find as find_sandbox
from prime_async.server.routes.sandboxes import not_running
from prime_async.server.sandboxes.exposures import TcpListener
from prime_async.server.sandboxes.fleet import Live
from prime_async.server.store import exposures as store

__all__ = ["FIXED", "OF_ONE"]


class Expose(Struct, kw_only=True):
    """Body of an exposure: a port inside, and what is spoken there."""

    port: Annotated[int, Meta(ge=1, le=65535)]
    name: Annotated[str, Meta(max_length=200)] | None = None
    protocol: Literal["HTTP", "TCP"] = "HTTP"


async def create(call: Call) -> Reply:
    """Expose a port; one that is exposed already is answered as it is."""
    _ = call.key_text  # twice is the same as once
    sandbox = find_sandbox(call)
    live = call.platform.sandboxes.fleet.use(sandbox["id"])
    if live is None or live.running.end is not None:
        raise not_running(sandbox)
    return await call.platform.sandboxes.tasks.finish(_create, call, live)


async def _create(call: Call, live: Live) -> Answer:
    body: Expose = call.body
    exposures = call.platform.sandboxes.exposures
    listener: TcpListener | None = None
    external: int | None = None
    if body.protocol == "TCP":
        listener, external = await exposures.listen()
    row = {
        "id": new_id(),
        "sandbox_id": live.running.id,
        "port": body.port,
        "protocol": body.protocol,
        "name": body.name,
        "external_port": external,
        "created_at": call.platform.clock.now(),
    }
    limit = call.platform.config.limits.exposures
    stored = None
    try:
        stored = await call.platform.database.write(lambda writer: _add(writer, row, limit))
    finally:
        if listener is not None and (stored is None or stored["id"] != row["id"]):
            with anyio.CancelScope(shield=True):
                await listener.aclose()
    if listener is not None and stored["id"] == row["id"]:
        exposures.serve(stored["id"], listener, live, body.port)
    return answer(_wire(call, stored))


def _add(connection: Connection, row: dict[str, Any], limit: int) -> RowMapping:
    known = store.find_same(connection, row["sandbox_id"], row["port"], row["protocol"])
    if known is not None:
        return known
    if store.count(connection) >= limit:
        raise RequestError(
            429, "too_many_exposures", f"this platform exposes {limit} ports: take some back"
        )
    return store.create(connection, row)


async def list_of_sandbox(call: Call) -> Reply:
    """List the exposed ports of a sandbox, the oldest first."""
    sandbox_id = find_sandbox(call)["id"]
    rows = await call.platform.database.scan(lambda reader: store.of_sandbox(reader, sandbox_id))
    return answer({"exposures": [_wire(call, row) for row in rows]})


async def list_all(call: Call) -> Reply:
    """List the exposed ports of all sandboxes, the oldest first."""
    caller = call.caller
    rows = await call.platform.database.scan(lambda reader: store.of_caller(reader, caller))
    return answer({"exposures": [_wire(call, row) for row in rows]})


async def delete(call: Call) -> Reply:
    """Expose a port no more; what is connected is cut."""
    sandbox_id, exposure_id = find_sandbox(call)["id"], call.path["exposure_id"]

    def write(connection: Connection) -> None:
        row = store.find(connection, exposure_id)
        if row is None or row["sandbox_id"] != sandbox_id:
            raise RequestError(404, "exposure_not_found", f"no exposure {exposure_id}")
        store.forget(connection, exposure_id)

    await call.platform.database.write(write)
    call.platform.sandboxes.exposures.end(exposure_id)
    return Answer(204, b"")


def _wire(call: Call, row: RowMapping) -> dict[str, Any]:
    """The exposure object; ``browser_url`` is ours."""
    wire: dict[str, Any] = {
        "exposure_id": row["id"],
        "sandbox_id": row["sandbox_id"],
        "port": row["port"],
        "name": row["name"],
        "tls_socket": "",
        "protocol": row["protocol"],
        "created_at": timestamp(row["created_at"]),
    }
    if row["protocol"] == "TCP":
        endpoint = f"127.0.0.1:{row['external_port']}"
        external = {"external_port": row["external_port"], "external_endpoint": endpoint}
        return {**wire, "url": f"tcp://{endpoint}", **external}
    parts = call.platform.sandboxes
    word, base = parts.exposures.token(row["id"]), parts.address(call.request)
    port = base.rpartition(":")[2]
    return {
        **wire,
        "url": f"{base}/exposed/{word}/",
        "browser_url": f"http://{word}.localhost:{port}/",
    }


_MISSING = {404: ErrorAnswer}

FIXED: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/sandbox/expose/all",
        list_all,
        "List all exposed ports, oldest first",
        {200: ListExposedPortsResponse},
    ),
)
"""Paths that have to be matched before ``/sandbox/{sandbox_id}``."""

OF_ONE: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/sandbox/{sandbox_id}/expose",
        create,
        "Expose a port of it",
        {200: ExposedPort, **_MISSING, 409: ErrorAnswer, 429: ErrorAnswer},
        body=Expose,
    ),
    Endpoint(
        "GET",
        "/sandbox/{sandbox_id}/expose",
        list_of_sandbox,
        "List its exposed ports, oldest first",
        {200: ListExposedPortsResponse, **_MISSING},
    ),
    Endpoint(
        "DELETE",
        "/sandbox/{sandbox_id}/expose/{exposure_id}",
        delete,
        "Take an exposed port back",
        {204: None, **_MISSING},
    ),
)
