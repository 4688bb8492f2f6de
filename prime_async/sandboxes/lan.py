"""Networks between sandboxes: their rules, and joining one when a sandbox is ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from prime_async.api import AsyncAPIClient
from prime_async.errors import APIError, LanJoinError, LanJoinTimeoutError, UsageError
from prime_async.requests import check_range, read_record, send_about
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.coalescer import Coalescer
from prime_async.sandboxes.network_models import LanNetwork, LanNetworkMember, LanRule
from prime_async.sandboxes.requests import CreateSandboxRequest
from prime_async.transport import path_segment

__all__ = ["JOIN_SECONDS", "LanJoins", "add_member", "check_rules", "network_path", "same_rules"]

JOIN_SECONDS = 120.0
"""Seconds a network has to let a new member in."""

_MAX_PORT = 65535


def network_path(network_id: str) -> str:
    """Return the path of a network."""
    return f"/sandbox/networks/{path_segment(network_id, 'network_id')}"


def check_rules(rules: Sequence[LanRule]) -> list[dict[str, Any]]:
    """Return rules as the wire has them.

    Raises:
        UsageError: one is no rule, or names nobody; ``.field`` says which and where.
    """
    if isinstance(rules, str | Mapping) or not isinstance(rules, Sequence):
        raise UsageError("rules is not a list of rules", field="rules")
    return [_checked(f"rules[{index}]", rule) for index, rule in enumerate(rules)]


def same_rules(some: Sequence[LanRule], others: Sequence[LanRule]) -> bool:
    """Say whether two lists allow the same; the order of rules and ports means nothing."""
    return sorted(map(_meaning, some)) == sorted(map(_meaning, others))


def _meaning(rule: LanRule) -> tuple[str, str, list[int]]:
    return rule.from_, rule.to, sorted(set(rule.ports or ()))


def _checked(field: str, rule: object) -> dict[str, Any]:
    if not isinstance(rule, LanRule):
        raise UsageError(
            f"{field} is a {type(rule).__name__}, not a LanRule",
            field=field,
            hint='LanRule(from_="tag:web", to="tag:db", ports=[5432])',
        )
    _check_selector(f"{field}.from", rule.from_, ("*", "internet"))
    _check_selector(f"{field}.to", rule.to, ("*",))
    for index, port in enumerate(rule.ports or ()):
        check_range(f"{field}.ports[{index}]", port, 1, _MAX_PORT)
    wire = {"from": rule.from_, "to": rule.to, "ports": rule.ports}
    return {key: value for key, value in wire.items() if value is not None}


def _check_selector(field: str, selector: object, words: tuple[str, ...]) -> None:
    tagged = isinstance(selector, str) and bool(selector.removeprefix("tag:").strip())
    if selector in words or (tagged and str(selector).startswith("tag:")):
        return
    known = ", ".join([*words, "tag:NAME"])
    raise UsageError(f"{field} is {selector!r}; it is one of {known}", field=field)


async def add_member(
    api: AsyncAPIClient,
    network_id: str,
    sandbox_id: str,
    tags: Sequence[str] | None,
    timeout: float | None = None,
) -> LanNetworkMember:
    """Add a sandbox to a network, or replace its tags there."""
    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags or ()):
        raise UsageError("tags is not a list of texts", field="tags")
    path = f"{network_path(network_id)}/members/{path_segment(sandbox_id, 'sandbox_id')}"
    what = f"network {network_id} or sandbox {sandbox_id}"
    body = {"tags": list(tags or ())}
    response = await send_about(api, what, "PUT", path, json=body, timeout=timeout)
    return read_record(response, LanNetworkMember)


class LanJoins:
    """The networks that sandboxes of a client are to join once they are ready.

    Those that wait for the same network look at it together, in a task that ``background`` owns.
    """

    def __init__(self, api: AsyncAPIClient, background: Background) -> None:
        self._api = api
        self._wanted: dict[str, tuple[str, list[str] | None]] = {}
        self._networks: Coalescer[str, LanNetwork] = Coalescer(
            self._fetch, background, name="networks"
        )

    def note(self, sandbox_id: str, request: CreateSandboxRequest) -> None:
        """Remember what a sandbox is to join."""
        if request.lan_network_id is not None:
            self._wanted[sandbox_id] = (request.lan_network_id, request.lan_tags)

    def forget(self, sandbox_id: str) -> None:
        """Drop a sandbox that is gone."""
        self._wanted.pop(sandbox_id, None)

    async def complete(self, sandbox_id: str) -> None:
        """Let a sandbox that is ready join, and wait until its network reaches it and its rules
        are in force; before, older platforms let every member reach every other.

        Raises:
            LanJoinError: it is no member any more; LanJoinTimeoutError after 120 seconds.
            APIError: the network refuses it.
        """
        if sandbox_id not in self._wanted:
            return
        network_id, tags = self._wanted[sandbox_id]
        with anyio.move_on_after(JOIN_SECONDS) as scope:
            await add_member(self._api, network_id, sandbox_id, tags)
            await self._until_synced(sandbox_id, network_id)
        if scope.cancelled_caught:
            raise LanJoinTimeoutError(
                sandbox_id, network_id, f"it was not in force after {JOIN_SECONDS:g} s"
            )
        self._wanted.pop(sandbox_id, None)

    async def _until_synced(self, sandbox_id: str, network_id: str) -> None:
        missing = 0

        def settled(network: LanNetwork) -> bool:
            nonlocal missing
            member = _member(network, sandbox_id)
            missing = missing + 1 if member is None else 0
            if member is None:
                return missing > 1  # one look, shared with others, may have begun before it joined
            return member.synced and network.synced

        network = await self._networks.watch(network_id, settled)
        if _member(network, sandbox_id) is None:
            raise LanJoinError(sandbox_id, network_id, "it is no member any more")

    async def _fetch(self, network_ids: list[str]) -> Mapping[str, LanNetwork | Exception]:
        """Ask for each of the networks, one by one: the platform knows no batch of them."""
        found: dict[str, LanNetwork | Exception] = {}

        async def look(network_id: str) -> None:
            try:
                path, what = network_path(network_id), f"network {network_id}"
                response = await send_about(self._api, what, "GET", path)
                found[network_id] = read_record(response, LanNetwork)
            except APIError as error:
                found[network_id] = error

        async with anyio.create_task_group() as group:
            for network_id in network_ids:
                group.start_soon(look, network_id)
        return found


def _member(network: LanNetwork, sandbox_id: str) -> LanNetworkMember | None:
    return next((each for each in network.members or () if each.sandbox_id == sandbox_id), None)
