"""Following the log of a hosted evaluation: each line once, found in one pass."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_async.errors import APITimeoutError, EvaluationNotFoundError, RateLimitError, UsageError
from prime_async.evals import hosted_logs
from prime_async.evals.hosted_logs import LogLines
from tests.faces import Face, both_faces
from tests.stub import Answer, Request, Stub


class Hosted:
    """A hosted evaluation whose status and log go on from look to look."""

    def __init__(self, stub: Stub, logs: Sequence[str | None], *, last: str = "COMPLETED") -> None:
        self.logs = list(logs)
        self.looks = 0
        self.last = last
        stub.route("GET", "/api/v1/evaluations/ev1", self.evaluation)
        stub.route("GET", "/api/v1/hosted-evaluations/ev1/logs", self.log)

    def evaluation(self, _: Request) -> Answer:
        ended = self.looks >= len(self.logs) - 1
        return Answer(json={"evaluation_id": "ev1", "status": self.last if ended else "RUNNING"})

    def log(self, _: Request) -> Answer:
        text = self.logs[min(self.looks, len(self.logs) - 1)]
        self.looks += 1
        return Answer(json={"logs": text})


@pytest.fixture
async def client(stub: Stub) -> AsyncIterator[Any]:
    async with Face("async").AsyncEvalsClient("key", base_url=stub.url) as made:
        yield made


async def followed(client: Any, **options: Any) -> list[str]:
    options.setdefault("poll_interval", 0.01)
    return [line async for line in client.iter_hosted_logs("ev1", **options)]


@both_faces
async def test_each_line_once(face: Face, stub: Stub) -> None:
    """The log is handed out whole at every look, and loses its beginning at last."""
    hosted = Hosted(stub, [None, "a\n", "a\nb\r\n", "a\nb\r\n", "b\r\nc\n", "c\nd\ne"])
    async with face.AsyncEvalsClient("key", base_url=stub.url) as client:
        assert await followed(client) == ["a", "b", "c", "d", "e"]
    assert hosted.looks == 6


async def test_it_ends_with_the_evaluation(stub: Stub, client: Any) -> None:
    """Whatever final status: what was written before is still fetched, then it ends."""
    for last in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "failed"):
        Hosted(stub, ["a\n", "a\nb\n"], last=last)
        assert await followed(client) == ["a", "b"]


async def test_only_the_end_of_what_is_there(stub: Stub, client: Any) -> None:
    """`tail` counts for the first look; what comes later comes whole."""
    logs = ["1\n2\n3\n4\n", "1\n2\n3\n4\n5\n6\n7\n"]
    for tail, expected in ((0, "567"), (1, "4567"), (9, "1234567"), (None, "1234567")):
        Hosted(stub, logs)
        assert await followed(client, tail=tail) == list(expected)


async def test_a_platform_that_asks_for_a_pause_gets_it(stub: Stub, client: Any) -> None:
    """429 with Retry-After: the transport waits, no line is lost or doubled."""
    Hosted(stub, ["a\n", "a\nb\n"])
    stub.script(Answer(429, headers={"Retry-After": "1"}))
    began = time.monotonic()
    assert await followed(client) == ["a", "b"]
    assert time.monotonic() - began >= 1


async def test_following_outlasts_a_rate_limit(
    stub: Stub, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the transport gives up (a pause of over 60 s is asked for) the follower does not."""
    monkeypatch.setattr(hosted_logs, "_PATIENT", 0.01)
    refused = [RateLimitError("later", status=429, retry_after=None)] * 3
    look = client.get_evaluation

    async def limited(*arguments: Any, **options: Any) -> Any:
        if refused:
            raise refused.pop()
        return await look(*arguments, **options)

    monkeypatch.setattr(client, "get_evaluation", limited)
    Hosted(stub, ["a\n", "a\nb\n"])
    assert await followed(client) == ["a", "b"]
    assert refused == []


async def test_it_does_not_follow_for_ever(stub: Stub, client: Any) -> None:
    """`timeout` is for all of it, a look that hangs included; an unknown evaluation is named."""
    hosted = Hosted(stub, ["a\n"] * 1000)
    with pytest.raises(APITimeoutError, match=r"ev1 did not end within 0\.2 s"):
        await followed(client, timeout=0.2)
    assert 1 < hosted.looks < 100
    stub.route("GET", "/api/v1/hosted-evaluations/ev1/logs", Answer(json={}, delay=5))
    with pytest.raises(APITimeoutError):
        await followed(client, timeout=0.2)
    stub.route("GET", "/api/v1/evaluations/ev1", Answer(404, json={"detail": "gone"}))
    with pytest.raises(EvaluationNotFoundError, match="ev1"):
        await followed(client)


@pytest.mark.parametrize(
    "options", [{"poll_interval": 0}, {"poll_interval": -1.0}, {"tail": -1}, {"timeout": 0}]
)
async def test_arguments_are_checked(stub: Stub, client: Any, options: dict[str, Any]) -> None:
    """Before any request, by name."""
    with pytest.raises(UsageError) as caught:
        await followed(client, **options)
    assert caught.value.field == next(iter(options))
    assert stub.requests == []


async def test_the_pause_grows_while_nothing_comes() -> None:
    """Quick while lines come, patient while none do, never busier than the looks allow."""
    pace = hosted_logs._Pace(None)
    assert [pace.pause(news=False) for _ in range(7)][-1] == 15
    assert pace.pause(news=True) == 2
    pace._took = 10
    assert pace.pause(news=True) == 40
    assert hosted_logs._Pace(0.5).pause(news=False) == 0.5


def test_a_last_line_is_held_until_it_is_whole() -> None:
    """Half a line is not a line; one that stands still is shown, and again should it go on."""
    lines = LogLines()
    assert lines.take("a\nha") == ["a"]
    assert lines.take("a\nhalf") == []
    assert lines.take("a\nhalf") == ["half"]
    assert lines.take("a\nhalf") == []
    assert lines.take("a\nhalf\n") == []
    assert lines.take("a\nhalf\nb") == []
    assert lines.take("a\nhalf\nb", ended=True) == ["b"]

    lines = LogLines()
    assert lines.take("10%") == []
    assert lines.take("10%") == ["10%"]
    assert lines.take("10% 20%") == []
    assert lines.take("10% 20%\ndone\n") == ["10% 20%", "done"]


def test_a_log_that_is_away_for_a_while_is_not_told_again() -> None:
    """Empty in between: what was read stays read; what was half is told at the end."""
    lines = LogLines()
    assert lines.take("") == []
    assert lines.take("a\nb\n") == ["a", "b"]
    assert lines.take("") == []
    assert lines.take("a\nb\nc") == []
    assert lines.take("", ended=True) == ["c"]


TEXTS = st.text(alphabet="ab\n", max_size=30)


@given(added=st.lists(TEXTS, max_size=6), dropped=st.lists(st.integers(0, 3), max_size=6))
def test_however_it_grows_each_line_comes_once(added: list[str], dropped: list[int]) -> None:
    """Numbered lines, so that no overlap is a chance: all of them, once, in order."""
    lines = LogLines()
    log: list[str] = []
    told: list[str] = []
    number = 0
    for text, drop in zip(added, [*dropped, *[0] * len(added)], strict=False):
        known = len(log)
        for part in text.split("\n"):
            log.append(f"{number} {part}\n")
            number += 1
        log = log[min(drop, max(0, known - 1)) :]  # never what was not told yet
        told += lines.take("".join(log))
    assert [int(each.split()[0]) for each in told] == list(range(number))


class Line:
    """A line that counts how often it is compared."""

    compared = 0

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        Line.compared += 1
        return isinstance(other, Line) and other.text == self.text

    __hash__ = None  # type: ignore[assignment]  # never needed


@pytest.mark.parametrize("text", ["same", "{0}", "{1}"])
def test_the_overlap_is_found_in_one_pass(text: str) -> None:
    """Comparisons grow with the lines, not with their square, however alike the lines are."""
    counts = []
    for number in (1000, 4000):
        old = [Line(text.format(n, n % 7)) for n in range(number)]
        new = [Line(text.format(n, n % 7)) for n in range(number // 2, number + number // 2)]
        Line.compared = 0
        hosted_logs._matched(old, new)  # type: ignore[arg-type]  # lines that count
        counts.append(Line.compared)
    assert counts[1] <= 5 * counts[0]
    assert counts[1] <= 5 * 8000


async def test_a_long_log_does_not_hold_the_loop(stub: Stub, client: Any) -> None:
    """20,000 lines, rewritten from a later beginning: compared in a thread, each line once."""
    rows = [f"{n} {'x' * 40}" for n in range(24_000)]
    first, second = ("\n".join(rows[a:b]) + "\n" for a, b in ((0, 20_000), (4_000, 24_000)))
    Hosted(stub, [first, second])
    assert await followed(client) == rows
