"""Wire models of networks between sandboxes, exposed ports and SSH sessions; see
:mod:`prime_async.sandboxes.models`.
"""

from __future__ import annotations

from msgspec import field

from prime_async.models import Record

__all__ = [
    "ExposedPort",
    "LanNetwork",
    "LanNetworkList",
    "LanNetworkMember",
    "LanRule",
    "ListExposedPortsResponse",
    "SSHSession",
]


class LanRule(Record):
    """Lets members of a network connect to others; what no rule allows is refused.

    Attributes:
        from_: who may connect: ``*`` for every member, ``tag:NAME`` for those with the tag, or
            ``internet``, which makes the `ports` public over HTTPS. ``from`` on the wire.
        to: to whom: ``*`` or ``tag:NAME``.
        ports: the ports there, or None for all.
    """

    from_: str = field(name="from")
    to: str
    ports: list[int] | None = None


class LanNetworkMember(Record):
    """A sandbox in a network, found there as ``ID.sandbox.internal``.

    Attributes:
        synced: whether the network reaches it already.
    """

    sandbox_id: str
    tags: list[str] = field(default_factory=list)
    synced: bool = False


class LanNetwork(Record):
    """A private network between virtual machines.

    Attributes:
        version: counts its changes; ``synced``: whether the last one is in force.
        created_at: ISO 8601 text, as sent.
        members: its sandboxes, or None where the answer leaves them out.
    """

    id: str
    name: str
    team_id: str | None = None
    rules: list[LanRule] = field(default_factory=list)
    version: int = 0
    synced: bool = False
    created_at: str | None = None
    members: list[LanNetworkMember] | None = None


class LanNetworkList(Record):
    """The networks of an account or team."""

    networks: list[LanNetwork] = field(default_factory=list)


class ExposedPort(Record):
    """A port of a sandbox that can be reached from outside.

    Attributes:
        url: where it answers.
        tls_socket: host and port of the same, for TLS without HTTP.
        protocol: ``HTTP`` or ``TCP``; a TCP port has `external_port` and `external_endpoint`
            (host:port).
        created_at: ISO 8601 text, as sent.
    """

    exposure_id: str
    sandbox_id: str
    port: int
    name: str | None = None
    url: str = ""
    tls_socket: str = ""
    protocol: str | None = None
    external_port: int | None = None
    external_endpoint: str | None = None
    created_at: str | None = None


class ListExposedPortsResponse(Record):
    """Exposed ports."""

    exposures: list[ExposedPort] = field(default_factory=list)


class SSHSession(Record):
    """A way into a sandbox for ``ssh``, for a while.

    Attributes:
        host, port: where ssh connects to.
        expires_at: ISO 8601 text, as sent; ``ttl_seconds`` after its beginning.
    """

    session_id: str
    sandbox_id: str
    host: str = ""
    port: int = 22
    expires_at: str | None = None
    ttl_seconds: int | None = None
