"""What sandboxes may reach, networks between them, and joining one when a sandbox is ready."""

from __future__ import annotations

from typing import Any

import pytest

from prime_async import (
    APIError,
    AsyncSandboxClient,
    CreateSandboxRequest,
    LanJoinError,
    LanJoinTimeoutError,
    LanRule,
    NotFoundError,
    ProtocolError,
    SandboxBulkWaitError,
    SandboxNotFoundError,
    SandboxNotRunningError,
    UsageError,
)
from prime_async.sandboxes import lan
from tests.extras_double import ExtrasDouble
from tests.faces import Face, both_faces

REQUEST = CreateSandboxRequest(name="x", docker_image="python:3.11")
WEB_TO_DB = LanRule(from_="tag:web", to="tag:db", ports=[5432])


@both_faces
@pytest.mark.parametrize(
    ("lists", "wire"),
    [
        ({"allow": ["a.com", " *.b.com:443 "]}, (["a.com", "*.b.com:443"], None)),
        ({"deny": ["10.0.0.0/8:1-99"]}, (None, ["10.0.0.0/8:1-99"])),
        ({"allow": ["*"]}, (None, [])),
        ({"deny": ["*"]}, ([], None)),
    ],
)
async def test_policies_are_replaced_as_a_whole(
    face: Face, extras: ExtrasDouble, lists: dict[str, Any], wire: tuple[Any, Any]
) -> None:
    """Always both keys on the wire; `*` is the other list, and empty."""
    async with face.AsyncSandboxClient("key", base_url=extras.url) as client:
        box = await client.create(REQUEST)
        before = await client.get_network(box.id)
        assert (before.applied, before.applied_generation) == (False, -1)
        after = await client.set_network(box.id, **lists)
        assert (after.policy.allowlist, after.policy.denylist) == wire
        assert (await client.get_network(box.id)).generation == 1
    [sent] = extras.requests("PUT", "egress-policy")
    assert sent.json == {"allowlist": wire[0], "denylist": wire[1]}


@pytest.mark.parametrize(
    ("lists", "field"),
    [
        ({}, "allow"),
        ({"allow": ["a.com"], "deny": ["b.com"]}, "deny"),
        ({"allow": []}, "allow"),
        ({"deny": []}, "deny"),
        ({"allow": "a.com"}, "allow"),
        ({"allow": {"a.com"}}, "allow"),
        ({"deny": ["a.com", "*"]}, "deny"),
        ({"allow": ["a.com", "https://b.com"]}, "allow[1]"),
        ({"allow": ["::1"]}, "allow[0]"),
        ({"allow": ["a.com:22"]}, "allow[0]"),
        ({"deny": ["1.2.3.4:9-1"]}, "deny[0]"),
        ({"deny": [7]}, "deny[0]"),
        ({"deny": ["a.com"] * 1025}, "deny"),
    ],
)
async def test_wrong_policies_send_nothing(
    extras: ExtrasDouble, wide: AsyncSandboxClient, lists: dict[str, Any], field: str
) -> None:
    """Refused by name and place."""
    with pytest.raises(UsageError) as caught:
        await wide.set_network("box", **lists)
    assert caught.value.field == field
    assert extras.seen == []


@both_faces
async def test_the_life_of_a_network(face: Face, extras: ExtrasDouble) -> None:
    """Make it with rules, add and take out members, change the rules, list, delete."""
    async with face.AsyncSandboxClient("key", base_url=extras.url, team_id="t1") as client:
        box = await client.create(REQUEST)
        network = await client.create_lan_network("cluster", rules=[WEB_TO_DB])
        assert (network.team_id, network.rules) == ("t1", [WEB_TO_DB])
        member = await client.add_lan_member(network.id, box.id, ["db"])
        assert (member.sandbox_id, member.tags, member.synced) == (box.id, ["db"], False)
        found = await client.get_lan_network(network.id)
        assert [(each.sandbox_id, each.synced) for each in found.members] == [(box.id, True)]
        everybody = LanRule(from_="*", to="*")
        changed = await client.set_lan_rules(network.id, [everybody])
        assert (changed.rules, changed.version) == ([everybody], 2)
        assert [each.id for each in await client.list_lan_networks()] == [network.id]
        assert await client.list_lan_networks("") == []
        await client.remove_lan_member(network.id, box.id)
        with pytest.raises(NotFoundError, match=f"no sandbox {box.id} in network {network.id}"):
            await client.remove_lan_member(network.id, box.id)
        await client.delete_lan_network(network.id)
        with pytest.raises(NotFoundError, match=f"there is no network {network.id}"):
            await client.get_lan_network(network.id)
    sent = extras.requests("POST", "/networks")[0].json
    rule = {"from": "tag:web", "to": "tag:db", "ports": [5432]}
    assert sent == {"name": "cluster", "team_id": "t1", "rules": [rule]}


async def test_rules_that_are_ignored_leave_no_open_network(
    extras: ExtrasDouble, wide: AsyncSandboxClient
) -> None:
    """An older platform would let everybody reach everybody: the network is deleted again."""
    extras.ignores_rules = True
    with pytest.raises(ProtocolError, match=r"ignored the rules of .*; it was deleted again"):
        await wide.create_lan_network("cluster", rules=[WEB_TO_DB])
    assert extras.networks == {}
    extras.fault("DELETE", "/networks/net_2", status=403)
    with pytest.raises(ProtocolError, match="could not be deleted") as caught:
        await wide.create_lan_network("cluster", rules=[WEB_TO_DB])
    assert isinstance(caught.value, APIError)
    assert list(extras.networks) == ["net_2"]
    assert (await wide.create_lan_network("open")).name == "open"


async def test_the_order_of_rules_and_ports_means_nothing(
    extras: ExtrasDouble, wide: AsyncSandboxClient
) -> None:
    """A platform may store them as it likes."""
    one = LanRule(from_="*", to="tag:a", ports=[2, 1, 2])
    other = LanRule(from_="internet", to="*", ports=[80])
    assert lan.same_rules([one, other], [other, LanRule(from_="*", to="tag:a", ports=[1, 2])])
    assert not lan.same_rules([one], [other])
    assert not lan.same_rules([one], [one, one])


async def test_an_unknown_outcome_makes_no_second_network(
    extras: ExtrasDouble, wide: AsyncSandboxClient
) -> None:
    """One of the same name from before is not taken for it."""
    await wide.create_lan_network("cluster")
    extras.fault("POST", "/networks", does="reset")
    made = await wide.create_lan_network("cluster")
    assert list(extras.networks) == ["net_1", made.id]


@both_faces
async def test_sandboxes_join_when_they_are_ready(face: Face, extras: ExtrasDouble) -> None:
    """Not before; the wait ends when the network reaches them, and joins once."""
    extras.sync_after = 3
    async with face.AsyncSandboxClient("key", base_url=extras.url) as client:
        network = await client.create_lan_network("cluster")
        request = CreateSandboxRequest(
            name="x", docker_image="i", lan_network_id=network.id, lan_tags=["db"]
        )
        box = await client.create(request)
        assert not {"lan_network_id", "lan_tags"} & set(extras.requests("POST", "/sandbox")[0].json)
        assert extras.networks[network.id]["members"] == []
        await client.wait_for_creation(box.id)
        await client.wait_for_creation(box.id)
        [sent] = extras.requests("PUT", f"/members/{box.id}")
        assert sent.json == {"tags": ["db"]}
        async with client.sandbox(request) as other:
            members = extras.networks[network.id]["members"]
            assert [each["sandbox_id"] for each in members] == [box.id, other.id]
            assert all(each["synced"] for each in members)


async def test_many_join_with_few_looks(extras: ExtrasDouble, wide: AsyncSandboxClient) -> None:
    """20 sandboxes in one network: one request for each look."""
    extras.sync_after = 2
    network = await wide.create_lan_network("cluster")
    request = CreateSandboxRequest(name="x", docker_image="i", lan_network_id=network.id)
    boxes = [(await wide.create(request)).id for _ in range(20)]
    await wide.bulk_wait_for_creation(boxes)
    assert len(extras.requests("PUT", "/members/.*")) == 20
    assert len(extras.requests("GET", f"/networks/{network.id}")) <= 8


async def test_a_join_that_fails_can_be_waited_for_again(
    extras: ExtrasDouble, wide: AsyncSandboxClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of time, gone from the network, no such network: typed; forgotten with the sandbox."""
    network = await wide.create_lan_network("cluster")
    request = CreateSandboxRequest(name="x", docker_image="i", lan_network_id=network.id)
    box = await wide.create(request)
    extras.sync_after = 10_000
    monkeypatch.setattr(lan, "JOIN_SECONDS", 0.3)
    with pytest.raises(LanJoinTimeoutError) as caught:
        await wide.wait_for_creation(box.id)
    assert isinstance(caught.value, TimeoutError)
    assert (caught.value.sandbox_id, caught.value.network_id) == (box.id, network.id)
    with pytest.raises(SandboxBulkWaitError) as many:
        await wide.bulk_wait_for_creation([box.id])
    assert isinstance(many.value.failures[box.id], LanJoinError)
    extras.sync_after = 1
    await wide.wait_for_creation(box.id)
    lost = await wide.create(CreateSandboxRequest(name="x", docker_image="i", lan_network_id="no"))
    with pytest.raises(NotFoundError, match="there is no network no"):
        await wide.wait_for_creation(lost.id)
    await wide.delete(lost.id)
    with pytest.raises(SandboxNotRunningError):
        await wide.wait_for_creation(lost.id)
    assert len(extras.requests("PUT", "/networks/no/.*")) == 1


async def test_a_member_that_vanishes_is_told(
    extras: ExtrasDouble, wide: AsyncSandboxClient
) -> None:
    """Somebody took it out again while it was waited for."""
    network = await wide.create_lan_network("cluster")
    request = CreateSandboxRequest(name="x", docker_image="i", lan_network_id=network.id)
    box = await wide.create(request)
    gone = {**extras.networks[network.id], "members": []}
    extras.fault("GET", f"/networks/{network.id}", status=200, json=gone, times=2)
    with pytest.raises(LanJoinError, match="no member any more") as caught:
        await wide.wait_for_creation(box.id)
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize(
    ("call", "arguments", "field"),
    [
        ("create_lan_network", [""], "name"),
        ("create_lan_network", [None], "name"),
        ("create_lan_network", ["n", None, "*"], "rules"),
        ("create_lan_network", ["n", None, WEB_TO_DB], "rules"),
        ("create_lan_network", ["n", None, [{"from": "*", "to": "*"}]], "rules[0]"),
        ("set_lan_rules", ["n", [LanRule(from_="web", to="*")]], "rules[0].from"),
        ("set_lan_rules", ["n", [WEB_TO_DB, LanRule(from_="*", to="internet")]], "rules[1].to"),
        ("set_lan_rules", ["n", [LanRule(from_="tag: ", to="*")]], "rules[0].from"),
        ("set_lan_rules", ["n", [LanRule(from_="*", to="*", ports=[1, 0])]], "rules[0].ports[1]"),
        ("set_lan_rules", ["n", [LanRule(from_="*", to="*", ports=[70000])]], "rules[0].ports[0]"),
        ("get_lan_network", ["a/b"], "network_id"),
        ("delete_lan_network", [""], "network_id"),
        ("add_lan_member", ["n", "..", []], "sandbox_id"),
        ("add_lan_member", ["n", "box", "tag"], "tags"),
        ("add_lan_member", ["n", "box", [7]], "tags"),
        ("remove_lan_member", ["n", ""], "sandbox_id"),
    ],
)
async def test_bad_arguments_send_nothing(
    extras: ExtrasDouble, wide: AsyncSandboxClient, call: str, arguments: list[Any], field: str
) -> None:
    """Refused by name and place, before anything is sent."""
    with pytest.raises(UsageError) as caught:
        await getattr(wide, call)(*arguments)
    assert caught.value.field == field
    assert extras.seen == []


@pytest.mark.parametrize(
    ("wishes", "field"),
    [
        ({"lan_tags": ["a"]}, "lan_tags"),
        ({"lan_network_id": "n", "lan_tags": "a"}, "lan_tags"),
        ({"lan_network_id": "n", "lan_tags": [1]}, "lan_tags"),
        ({"lan_network_id": " "}, "lan_network_id"),
        ({"lan_network_id": "n", "vm": False}, "lan_network_id"),
    ],
)
def test_wishes_that_do_not_fit(wishes: dict[str, Any], field: str) -> None:
    """Found when the request is made."""
    with pytest.raises(UsageError) as caught:
        CreateSandboxRequest(name="x", docker_image="i", **wishes)
    assert caught.value.field == field


async def test_sandboxes_that_are_not_there(wide: AsyncSandboxClient) -> None:
    """Say so, and which."""
    with pytest.raises(SandboxNotFoundError, match="there is no sandbox nobody"):
        await wide.set_network("nobody", allow=["*"])
