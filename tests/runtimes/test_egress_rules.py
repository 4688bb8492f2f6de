"""What a sandbox may reach: the grammar of the rules, and the judgement of addresses."""

from __future__ import annotations

import ipaddress

import pytest

from prime_async.errors import UsageError
from prime_async.server.runtimes.dialing import judge, own_addresses
from prime_async.server.runtimes.egress_policy import EgressPolicy, parse_rule

OPEN = EgressPolicy()
NOBODY: frozenset[ipaddress.IPv4Address | ipaddress.IPv6Address] = frozenset()


@pytest.mark.parametrize(
    "entry",
    [
        "", " ", "*", "*.", "*.*.com", "a.*.com", "::1", "[::1]:80", "http://a.com", "a.com/x",
        "a@b", "a?b", "a..b", ".a", "a.", "-a.com", "a.com:8080", "a.com:80-90", "a.com:",
        "1.2.3.4:0", "1.2.3.4:70000", "1.2.3.4:9-8", "1.2.3", "1.2.3.4/33", "1.2.3.4:x",
        "1.2.3.4:-5", "é.com", "256.1.1.1", "x" * 64 + ".com",
    ],
)  # fmt: skip
def test_bad_entries_are_refused_by_their_place(entry: str) -> None:
    """Naming the list and the position."""
    with pytest.raises(UsageError) as refused:
        EgressPolicy(allow=("good.com", entry))
    assert refused.value.field == "allow[1]"


@pytest.mark.parametrize(
    ("entry", "ports"),
    [
        ("Example.COM", (1, 65535)),
        ("*.example.com:443", (443, 443)),
        ("a_b.example", (1, 65535)),
        ("10.0.0.7/8", (1, 65535)),
        ("192.0.2.7:1000-2000", (1000, 2000)),
        ("  a.com:80 ", (80, 80)),
    ],
)
def test_good_entries(entry: str, ports: tuple[int, int]) -> None:
    """Trimmed, in lower case, host bits allowed."""
    assert parse_rule(entry).ports == ports


def test_lists_exclude_each_other_and_have_an_end() -> None:
    """Typed, naming the list."""
    with pytest.raises(UsageError):
        EgressPolicy(allow=(), deny=())
    with pytest.raises(UsageError):
        EgressPolicy(deny=("a.com",) * 1025)


@pytest.mark.parametrize(
    ("policy", "name", "address", "port", "expected"),
    [
        (OPEN, "a.com", "203.0.114.5", 443, True),
        (OPEN, None, "203.0.114.5", 22, True),
        (OPEN, "a.com", "10.0.0.1", 443, False),
        (OPEN, "a.com", "192.168.1.1", 443, False),
        (OPEN, "a.com", "127.0.0.1", 443, False),
        (OPEN, "a.com", "169.254.169.254", 80, False),
        (OPEN, "a.com", "0.0.0.0", 80, False),
        (OPEN, "a.com", "::1", 80, False),
        (OPEN, "a.com", "::ffff:127.0.0.1", 80, False),
        (OPEN, "a.com", "::ffff:10.0.0.1", 80, False),
        (OPEN, "a.com", "64:ff9b::7f00:1", 80, False),
        (OPEN, "a.com", "2002:7f00:1::", 80, False),
        (OPEN, "a.com", "fe80::1", 80, False),
        (OPEN, "a.com", "2606:4700::1", 443, True),
        (EgressPolicy.closed(), "a.com", "203.0.114.5", 443, False),
        (EgressPolicy(allow=("a.com",)), "a.com", "203.0.114.5", 443, True),
        (EgressPolicy(allow=("a.com",)), "b.a.com", "203.0.114.5", 443, False),
        (EgressPolicy(allow=("a.com",)), None, "203.0.114.5", 443, False),
        (EgressPolicy(allow=("a.com",)), "a.com", "10.0.0.1", 443, False),
        (EgressPolicy(allow=("*.a.com",)), "b.a.com", "203.0.114.5", 443, True),
        (EgressPolicy(allow=("*.a.com",)), "a.com", "203.0.114.5", 443, False),
        (EgressPolicy(allow=("a.com:80",)), "a.com", "203.0.114.5", 443, False),
        (EgressPolicy(allow=("10.0.0.0/8",)), None, "10.2.3.4", 443, True),
        (EgressPolicy(allow=("10.0.0.0/8:22",)), None, "10.2.3.4", 443, False),
        (EgressPolicy(allow=("127.0.0.0/8",)), None, "127.0.0.1", 443, False),
        (EgressPolicy(allow=("0.0.0.0/0",)), "x.com", "203.0.114.5", 443, True),
        (EgressPolicy(deny=("a.com",)), "a.com", "203.0.114.5", 443, False),
        (EgressPolicy(deny=("a.com",)), "b.com", "203.0.114.5", 443, True),
        (EgressPolicy(deny=("203.0.114.0/24",)), "b.com", "203.0.114.5", 443, False),
        (EgressPolicy(deny=("203.0.114.0/24:25",)), "b.com", "203.0.114.5", 443, True),
        (EgressPolicy(deny=()), "b.com", "203.0.114.5", 443, True),
    ],
)  # fmt: skip
def test_judgement(
    policy: EgressPolicy, name: str | None, address: str, port: int, expected: bool
) -> None:
    """By name, by address, by port; the host's own and private addresses are nobody's."""
    assert judge(policy, name, ipaddress.ip_address(address), port, NOBODY) == expected


def test_this_hosts_addresses_are_known() -> None:
    """All of them, so that a public one of this machine leads to nothing either."""
    own = own_addresses()
    assert ipaddress.ip_address("127.0.0.1") in own
    public = ipaddress.ip_address("203.0.114.5")
    assert not judge(OPEN, None, public, 80, frozenset({public}))
