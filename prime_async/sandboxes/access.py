"""`AsyncSandboxAccess`: ways into a sandbox from outside, ports and SSH sessions."""

from __future__ import annotations

from typing import Any

from prime_async import ids
from prime_async.errors import UsageError
from prime_async.requests import check_range, given, read_record, send_about
from prime_async.sandboxes.network_models import ExposedPort, ListExposedPortsResponse, SSHSession
from prime_async.sandboxes.networks import AsyncSandboxNetworks
from prime_async.sandboxes.once import make_once
from prime_async.sandboxes.publickey import check_public_key
from prime_async.transport import path_segment

__all__ = ["AsyncSandboxAccess"]

_PROTOCOLS = ("HTTP", "TCP")
_MAX_PORT = 65535


class AsyncSandboxAccess(AsyncSandboxNetworks):
    """Opens ways into sandboxes; the seventh part of :class:`AsyncSandboxClient`."""

    async def expose(
        self,
        sandbox_id: str,
        port: int,
        name: str | None = None,
        protocol: str = "HTTP",
        *,
        timeout: float | None = None,
    ) -> ExposedPort:
        """Make a port of a sandbox reachable from outside; whoever knows its address may use it.

        A request with an unknown outcome is not sent again: the exposed ports of the sandbox are
        compared with those before.

        Args:
            sandbox_id: which one.
            port: the port inside, 1 to 65535.
            name: a word to know it by.
            protocol: ``HTTP`` or ``TCP``.
            timeout: seconds in all; default 60, and up to 10 more to find out what became of it.

        Raises:
            UsageError: an argument is wrong.
            SandboxNotFoundError: there is no such sandbox.
            APIError: the platform refuses it; ``.ambiguous`` when it may have been done.
        """
        check_range("port", port, 1, _MAX_PORT)
        if protocol not in _PROTOCOLS:
            raise UsageError(f"protocol is {protocol!r}; it is HTTP or TCP", field="protocol")
        body: dict[str, Any] = given({"port": port, "name": name, "protocol": protocol})
        key = ids.new_id("exposure")

        async def send(seconds: float) -> ExposedPort:
            response = await self._send(
                sandbox_id, "POST", "/expose", json=body, idempotency_key=key, timeout=seconds
            )
            return read_record(response, ExposedPort)

        async def look(seconds: float) -> dict[str, ExposedPort]:
            found = await self.list_exposed_ports(sandbox_id, timeout=seconds)
            return {each.exposure_id: each for each in found.exposures if each.port == port}

        return await make_once(self._api, send, look, timeout)

    async def unexpose(
        self, sandbox_id: str, exposure_id: str, *, timeout: float | None = None
    ) -> None:
        """Close an exposed port; what is connected through it is cut.

        Raises:
            NotFoundError: there is no such sandbox, or it has no such exposed port.
        """
        sandbox = path_segment(sandbox_id, "sandbox_id")
        path = f"/sandbox/{sandbox}/expose/{path_segment(exposure_id, 'exposure_id')}"
        what = f"exposed port {exposure_id} of sandbox {sandbox_id}"
        await send_about(self._api, what, "DELETE", path, timeout=timeout)

    async def list_exposed_ports(
        self, sandbox_id: str, *, timeout: float | None = None
    ) -> ListExposedPortsResponse:
        """Return the exposed ports of a sandbox.

        Raises:
            SandboxNotFoundError: there is no such sandbox.
        """
        response = await self._send(sandbox_id, "GET", "/expose", timeout=timeout)
        return read_record(response, ListExposedPortsResponse)

    async def list_all_exposed_ports(
        self, *, timeout: float | None = None
    ) -> ListExposedPortsResponse:
        """Return the exposed ports of all sandboxes of the account."""
        transport = await self._api.connect()
        response = await transport.request("GET", "/sandbox/expose/all", timeout=timeout)
        return read_record(response, ListExposedPortsResponse)

    async def create_ssh_session(
        self,
        sandbox_id: str,
        public_key: str,
        ttl_seconds: int | None = None,
        *,
        timeout: float | None = None,
    ) -> SSHSession:
        """Let the owner of a key into a virtual machine with ``ssh``, for a while.

        A request with an unknown outcome is not sent again; a session that it made ends by itself.

        Args:
            sandbox_id: which one.
            public_key: one line as in ``~/.ssh/id_ed25519.pub``.
            ttl_seconds: how long; default is the platform's.
            timeout: seconds in all; default 60.

        Raises:
            UsageError: the key is no public key; a private one is never sent.
            SandboxNotFoundError: there is no such sandbox.
        """
        key = check_public_key(public_key)
        if ttl_seconds is not None:
            check_range("ttl_seconds", ttl_seconds, 1)
        body = given({"public_key": key, "ttl_seconds": ttl_seconds})
        response = await self._send(
            sandbox_id,
            "POST",
            "/ssh-session",
            json=body,
            idempotency_key=ids.new_id("ssh"),
            timeout=timeout,
        )
        return read_record(response, SSHSession)

    async def close_ssh_session(
        self, sandbox_id: str, session_id: str, *, timeout: float | None = None
    ) -> None:
        """End an SSH session.

        Raises:
            NotFoundError: there is no such sandbox or session.
        """
        sandbox = path_segment(sandbox_id, "sandbox_id")
        path = f"/sandbox/{sandbox}/ssh-session/{path_segment(session_id, 'session_id')}"
        what = f"SSH session {session_id} of sandbox {sandbox_id}"
        await send_about(self._api, what, "DELETE", path, timeout=timeout)
