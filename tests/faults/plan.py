"""What can go wrong between a client and a server, and which requests it happens to.

plan = FaultPlan(
    [
        on(Status(503, retry_after=0.1), when=posts, times=2),   # the first two POSTs
        Break("reset", Moment.EXECUTED),                         # then any one request
    ]
)
"""

from __future__ import annotations

import enum
import re
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from tests.http1 import Head

__all__ = [
    "BadGzip",
    "Break",
    "Delay",
    "Fault",
    "FaultPlan",
    "Garbage",
    "How",
    "Moment",
    "Predicate",
    "Rule",
    "SlowBody",
    "Status",
    "WrongCertificate",
    "WrongLength",
    "any_request",
    "gets",
    "on",
    "path",
    "posts",
]


class Moment(enum.Enum):
    """Where in an exchange a break happens, and so what the server knows of it."""

    ACCEPT = "accept"
    """The connection is accepted and nothing is read; with TLS: in the handshake."""
    REQUEST_HEAD = "request head"
    """The head is read, nothing of it reaches the server."""
    REQUEST_BODY = "request body"
    """The server has the head and the first ``after`` bytes of the body, never the rest."""
    EXECUTED = "executed"
    """The server has answered in full, and the client sees nothing of it."""
    RESPONSE_HEAD = "response head"
    """The client sees the first ``after`` bytes of the head."""
    RESPONSE_BODY = "response body"
    """The client sees the head and the first ``after`` bytes of the body."""
    RESPONSE_END = "response end"
    """The client has the whole answer when the connection goes."""

    @property
    def executed(self) -> bool:
        """Say whether the server has carried out the request by then."""
        return self in _AFTER_EXECUTION


_AFTER_EXECUTION = {
    Moment.EXECUTED,
    Moment.RESPONSE_HEAD,
    Moment.RESPONSE_BODY,
    Moment.RESPONSE_END,
}

How = Literal["reset", "cut", "silence", "garbage"]
"""RST, FIN, an open connection on which nothing more happens, or bytes that are no protocol."""


@dataclass(frozen=True, slots=True)
class Break:
    """The connection ends, or goes silent, at one moment."""

    how: How
    at: Moment
    after: int = 1


@dataclass(frozen=True, slots=True)
class Status:
    """Another answer than the server's.

    Attributes:
        retry_after: the header's text, if any: seconds or an HTTP date.
        executed: False answers without asking the server; True lets it carry the request out first.
    """

    status: int
    retry_after: str | None = None
    executed: bool = False
    body: bytes = b'{"detail": "made up by the fault proxy"}'
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Delay:
    """Seconds before the request is passed on, or (``executed``) before its answer is."""

    seconds: float
    executed: bool = False


@dataclass(frozen=True, slots=True)
class SlowBody:
    """The answer's body drips: ``piece`` bytes, then ``pause`` seconds."""

    piece: int = 1
    pause: float = 0.01


@dataclass(frozen=True, slots=True)
class WrongLength:
    """The answer's Content-Length is wrong by ``delta``.

    Too long keeps the client waiting on an open connection, too short leaves bytes over.
    """

    delta: int


@dataclass(frozen=True, slots=True)
class BadGzip:
    """The answer's body claims to be gzip: damaged in the middle, without end, or plain text."""

    kind: Literal["damaged", "short", "plain"] = "damaged"


@dataclass(frozen=True, slots=True)
class Garbage:
    """The answer is not HTTP, though the server has carried out the request."""

    data: bytes = b"220 mail.test ESMTP ready\r\n\r\n"


@dataclass(frozen=True, slots=True)
class WrongCertificate:
    """The proxy shows the certificate of another authority."""

    context: ssl.SSLContext


Fault = Break | Status | Delay | SlowBody | WrongLength | BadGzip | Garbage | WrongCertificate

Predicate = Callable[[Head], bool]


def any_request(head: Head) -> bool:
    """Match everything."""
    return True


def posts(head: Head) -> bool:
    """Match POST."""
    return head.method == "POST"


def gets(head: Head) -> bool:
    """Match GET."""
    return head.method == "GET"


def path(pattern: str, method: str | None = None) -> Predicate:
    """Match requests in whose target the pattern is found."""
    wanted = re.compile(pattern)
    return lambda head: bool(wanted.search(head.target)) and method in (None, head.method)


@dataclass(slots=True)
class Rule:
    """A fault for the first ``times`` requests (None: all) that match."""

    fault: Fault
    when: Predicate = any_request
    times: int | None = 1
    used: int = field(default=0, init=False)

    @property
    def spent(self) -> bool:
        return self.times is not None and self.used >= self.times

    @property
    def on_connection(self) -> bool:
        """Say whether it happens to a connection, before there is a request."""
        return isinstance(self.fault, WrongCertificate) or (
            isinstance(self.fault, Break) and self.fault.at is Moment.ACCEPT
        )


def on(fault: Fault, *, when: Predicate = any_request, times: int | None = 1) -> Rule:
    """Make a rule; a rule for a connection looks at no request and ignores ``when``."""
    return Rule(fault, when, times)


class FaultPlan:
    """Rules in order; each request meets the first one that matches and is not spent."""

    def __init__(self, rules: Iterable[Fault | Rule] = ()) -> None:
        self.rules = [rule if isinstance(rule, Rule) else Rule(rule) for rule in rules]

    def add(self, fault: Fault, *, when: Predicate = any_request, times: int | None = 1) -> None:
        """Add a rule at the end."""
        self.rules.append(Rule(fault, when, times))

    @property
    def spent(self) -> bool:
        """Say whether every rule that can be used up has been."""
        return all(rule.spent for rule in self.rules if rule.times is not None)

    def for_connection(self) -> Fault | None:
        """Take the fault of a new connection."""
        return self._take(rule for rule in self.rules if rule.on_connection)

    def for_request(self, head: Head) -> Fault | None:
        """Take the fault of a request."""
        return self._take(rule for rule in self.rules if not rule.on_connection and rule.when(head))

    @staticmethod
    def _take(rules: Iterable[Rule]) -> Fault | None:
        for rule in rules:
            if not rule.spent:
                rule.used += 1
                return rule.fault
        return None
