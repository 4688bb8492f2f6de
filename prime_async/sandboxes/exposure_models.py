"""Wire models of exposed ports. Both the client and the embedded platform use them."""

from __future__ import annotations

from msgspec import field

from prime_async.models import Record

__all__ = ["ExposedPort", "ListExposedPortsResponse"]


class ExposedPort(Record):
    """A port of a sandbox that can be reached from outside.

    Attributes:
        port: inside.
        url: where it is reached; whoever knows the address may use it.
        tls_socket: host and port for connections of one's own, where the platform has one.
        protocol: ``HTTP`` or ``TCP``.
        external_port, external_endpoint: of a TCP port.
        created_at: ISO 8601 text, as sent.
    """

    exposure_id: str
    sandbox_id: str = ""
    port: int = 0
    name: str | None = None
    url: str = ""
    tls_socket: str = ""
    protocol: str | None = None
    external_port: int | None = None
    external_endpoint: str | None = None
    created_at: str | None = None


class ListExposedPortsResponse(Record):
    """Exposed ports, the oldest first."""

    exposures: list[ExposedPort] = field(default_factory=list)
