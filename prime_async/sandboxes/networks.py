"""`AsyncSandboxNetworks`: what sandboxes may reach, and networks between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prime_async import ids
from prime_async.errors import APIError, ProtocolError, UsageError
from prime_async.requests import given, read_record, send_about
from prime_async.sandboxes.checkpoints import AsyncSandboxCheckpoints
from prime_async.sandboxes.egress import policy_of
from prime_async.sandboxes.lan import add_member, check_rules, network_path, same_rules
from prime_async.sandboxes.models import EgressPolicyStatus
from prime_async.sandboxes.network_models import (
    LanNetwork,
    LanNetworkList,
    LanNetworkMember,
    LanRule,
)
from prime_async.sandboxes.once import make_once
from prime_async.transport import path_segment

__all__ = ["AsyncSandboxNetworks"]

_CLEANUP_SECONDS = 10.0


class AsyncSandboxNetworks(AsyncSandboxCheckpoints):
    """Says what sandboxes may reach, and connects them; the sixth part of
    :class:`AsyncSandboxClient`.
    """

    async def get_network(
        self, sandbox_id: str, *, timeout: float | None = None
    ) -> EgressPolicyStatus:
        """Return what a sandbox may reach, and whether that is in force.

        Raises:
            SandboxNotFoundError: there is no such sandbox.
        """
        response = await self._send(sandbox_id, "GET", "/egress-policy", timeout=timeout)
        return read_record(response, EgressPolicyStatus)

    async def set_network(
        self,
        sandbox_id: str,
        *,
        allow: Sequence[str] | None = None,
        deny: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> EgressPolicyStatus:
        """Say what a sandbox may reach, in place of what held before.

        Entries are hosts, ``*.`` and a host, IPv4 addresses and networks, each with an optional
        ``:port`` or ``:low-high``; hosts take the ports 80 and 443 only.

        Args:
            sandbox_id: which one.
            allow: all that it may reach; ``["*"]`` is everything.
            deny: all that it may not reach; ``["*"]`` is everything.
            timeout: seconds in all; default 60.

        Raises:
            UsageError: not exactly one list, an empty one, ``*`` beside others, or a wrong entry.
            SandboxNotFoundError: there is no such sandbox.
        """
        policy = policy_of(allow, deny)
        response = await self._send(
            sandbox_id, "PUT", "/egress-policy", json=policy, timeout=timeout
        )
        return read_record(response, EgressPolicyStatus)

    async def create_lan_network(
        self,
        name: str,
        team_id: str | None = None,
        rules: Sequence[LanRule] | None = None,
        *,
        timeout: float | None = None,
    ) -> LanNetwork:
        """Make a network between virtual machines.

        A sandbox joins it with ``CreateSandboxRequest(lan_network_id=...)`` or
        :meth:`add_lan_member`. A request with an unknown outcome is not sent again: the networks
        of this name are compared with those before.

        Args:
            name: what it is called.
            team_id: whose it is; default is the client's team, "" the account itself.
            rules: who may connect to whom; without any nobody may, on older platforms everybody.
            timeout: seconds in all; default 60, and up to 10 more to find out what became of it.

        Raises:
            UsageError: the name is empty, or a rule is none.
            ProtocolError: the platform ignored the rules; the network was deleted again.
            APIError: it could not be made; ``.ambiguous`` when it may have been.
        """
        if not isinstance(name, str) or not name.strip():
            raise UsageError("name is empty or not text", field="name")
        team = self._team(team_id)
        wanted = None if rules is None else check_rules(rules)
        body = given({"name": name, "team_id": team, "rules": wanted})
        key = ids.new_id("network")

        async def send(seconds: float) -> LanNetwork:
            transport = await self._api.connect()
            response = await transport.request(
                "POST", "/sandbox/networks", json=body, idempotency_key=key, timeout=seconds
            )
            return read_record(response, LanNetwork)

        async def look(seconds: float) -> dict[str, LanNetwork]:
            found = await self.list_lan_networks(team or "", timeout=seconds)
            return {network.id: network for network in found if network.name == name}

        network = await make_once(self._api, send, look, timeout)
        if rules is not None and not same_rules(network.rules, rules):
            await self._drop_open(network.id)
        return network

    async def list_lan_networks(
        self, team_id: str | None = None, *, timeout: float | None = None
    ) -> list[LanNetwork]:
        """Return the networks of the account, or of a team.

        Args:
            team_id: default is the client's team, "" the account itself.
            timeout: seconds in all; default 60.
        """
        transport = await self._api.connect()
        params: dict[str, Any] = {"team_id": self._team(team_id)}
        response = await transport.request(
            "GET", "/sandbox/networks", params=params, timeout=timeout
        )
        return read_record(response, LanNetworkList).networks

    async def get_lan_network(self, network_id: str, *, timeout: float | None = None) -> LanNetwork:
        """Return a network with its rules and members.

        Raises:
            NotFoundError: there is no such network.
        """
        path, what = network_path(network_id), f"network {network_id}"
        response = await send_about(self._api, what, "GET", path, timeout=timeout)
        return read_record(response, LanNetwork)

    async def delete_lan_network(self, network_id: str, *, timeout: float | None = None) -> None:
        """Delete a network; its members go on running and reach each other no more.

        Raises:
            NotFoundError: there is no such network.
        """
        path, what = network_path(network_id), f"network {network_id}"
        await send_about(self._api, what, "DELETE", path, timeout=timeout)

    async def set_lan_rules(
        self, network_id: str, rules: Sequence[LanRule], *, timeout: float | None = None
    ) -> LanNetwork:
        """Say who may connect to whom in a network, in place of what held before.

        Raises:
            UsageError: a rule is none.
            NotFoundError: there is no such network.
        """
        path, what = f"{network_path(network_id)}/rules", f"network {network_id}"
        body = {"rules": check_rules(rules)}
        response = await send_about(self._api, what, "PUT", path, json=body, timeout=timeout)
        return read_record(response, LanNetwork)

    async def add_lan_member(
        self,
        network_id: str,
        sandbox_id: str,
        tags: Sequence[str] | None = None,
        *,
        timeout: float | None = None,
    ) -> LanNetworkMember:
        """Add a virtual machine that runs to a network, or replace its tags there.

        Raises:
            NotFoundError: there is no such network or sandbox.
        """
        return await add_member(self._api, network_id, sandbox_id, tags, timeout)

    async def remove_lan_member(
        self, network_id: str, sandbox_id: str, *, timeout: float | None = None
    ) -> None:
        """Take a sandbox out of a network.

        Raises:
            NotFoundError: there is no such network, or it has no such member.
        """
        path = f"{network_path(network_id)}/members/{path_segment(sandbox_id, 'sandbox_id')}"
        what = f"sandbox {sandbox_id} in network {network_id}"
        await send_about(self._api, what, "DELETE", path, timeout=timeout)

    def _team(self, team_id: str | None) -> str | None:
        return (self._api.team_id if team_id is None else team_id) or None

    async def _drop_open(self, network_id: str) -> None:
        """Delete a network that does not have the rules it was made with: members could reach each
        other unasked.
        """
        words = f"the platform ignored the rules of network {network_id}"
        hint = "create it without rules and give it some with set_lan_rules"
        try:
            await self.delete_lan_network(network_id, timeout=_CLEANUP_SECONDS)
        except APIError as error:
            left = f"{words}, and it could not be deleted: {error.message}"
            raise ProtocolError(left, hint="delete it with delete_lan_network") from error
        raise ProtocolError(f"{words}; it was deleted again", hint=hint)
