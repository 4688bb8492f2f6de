"""When to try again, how long to wait, how much the process may spend."""

from __future__ import annotations

import email.utils
import math
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_async.errors import UsageError
from prime_async.transport import Replay, RetryBudget, RetryPolicy
from prime_async.transport import policy as policies
from prime_async.transport.policy import is_safe, parse_retry_after

PROPERTY = settings(max_examples=200, deadline=None)

NOW = 1_767_225_600.0


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands at a known moment."""
    monkeypatch.setattr(time, "time", lambda: NOW)


@PROPERTY
@given(st.text())
def test_any_text_is_a_wait_or_none(text: str) -> None:
    """Whatever a header holds: seconds that are not negative, or None; never an error."""
    seconds = parse_retry_after(text)
    assert seconds is None or seconds >= 0


@PROPERTY
@given(st.integers(0, 10**6), st.sampled_from(["", " ", "\t"]))
def test_seconds(seconds: int, around: str) -> None:
    """Whole seconds, white space around them."""
    assert parse_retry_after(f"{around}{seconds}{around}") == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("", None),
        ("1.5", 1.5),
        ("0", 0.0),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("1_0", None),
        ("inf", None),
        ("nan", None),
        ("²", None),
        ("٣", None),
        ("soon", None),
        ("9" * 400, math.inf),
    ],
)
def test_odd_numbers(text: str | None, seconds: float | None) -> None:
    """Only what the standard allows, and a fraction, is a number of seconds."""
    assert parse_retry_after(text) == seconds


@pytest.mark.usefixtures("frozen")
@PROPERTY
@given(st.integers(-(10**6), 10**6))
def test_dates(seconds: int) -> None:
    """An HTTP date is the time until then; one in the past is no wait."""
    text = email.utils.formatdate(NOW + seconds, usegmt=True)
    assert parse_retry_after(text) == max(0, seconds)


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles"])
def test_dates_in_other_forms_mean_utc(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    """The old forms without a zone do not depend on where this machine stands."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        soon = datetime.fromtimestamp(NOW + 90, UTC)
        there = soon.astimezone(timezone(timedelta(hours=5)))
        for text in (
            soon.strftime("%a %b %d %H:%M:%S %Y"),
            soon.strftime("%A, %d-%b-%y %H:%M:%S GMT"),
            soon.strftime("%a, %d %b %Y %H:%M:%S -0000"),
            there.strftime("%a, %d %b %Y %H:%M:%S %z"),
        ):
            assert parse_retry_after(text) == 90, text
    finally:
        monkeypatch.undo()
        time.tzset()


@PROPERTY
@given(
    st.integers(1, 60),
    st.floats(0, 10),
    st.floats(0, 100),
    st.floats(0, 1),
)
def test_delays_grow_and_stay_under_the_cap(
    attempt: int, first: float, cap: float, jitter: float
) -> None:
    """Each delay lies between its shortest and its longest form; doubling ends at the cap."""
    policy = RetryPolicy(first_delay=first, max_delay=cap, jitter=jitter)
    longest = min(cap, first * 2.0 ** (attempt - 1))
    delay = policy.delay(attempt, None)
    assert longest * (1 - jitter) - 1e-9 <= delay <= longest
    assert policy.delay(attempt, 7.0) == 7.0


def test_full_jitter_spreads_a_crowd() -> None:
    """A hundred clients that failed together do not come back together."""
    delays = sorted(RetryPolicy().delay(1, None) for _ in range(100))
    assert delays[0] < 0.1 < 0.4 < delays[-1]
    assert len({round(delay, 4) for delay in delays}) > 60


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"tries": 0}, "tries"),
        ({"tries": 1.5}, "tries"),
        ({"tries": "4"}, "tries"),
        ({"first_delay": -1}, "first_delay"),
        ({"max_delay": -0.1}, "max_delay"),
        ({"max_delay": math.nan}, "max_delay"),
        ({"jitter": 1.1}, "jitter"),
        ({"jitter": -0.1}, "jitter"),
        ({"jitter": None}, "jitter"),
    ],
)
def test_nonsense_is_refused(wrong: dict[str, Any], field: str) -> None:
    """A policy that cannot be kept is an error when it is made."""
    with pytest.raises(UsageError) as caught:
        RetryPolicy(**wrong)
    assert caught.value.field == field


def test_the_budget_is_spent_refilled_and_never_beyond_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A repeat costs one, a success gives back a part, a second ten; the bucket has a rim."""
    clock = [100.0]
    monkeypatch.setattr(policies.time, "monotonic", lambda: clock[0])
    budget = RetryBudget(3, per_second=10, per_success=0.25)
    assert [budget.take() for _ in range(4)] == [True, True, True, False]
    for _ in range(4):
        budget.succeeded()
    assert [budget.take(), budget.take()] == [True, False]
    clock[0] += 0.2
    assert [budget.take(), budget.take(), budget.take()] == [True, True, False]
    clock[0] += 3600
    assert sum(budget.take() for _ in range(10)) == 3


@pytest.mark.parametrize(
    ("method", "replay", "safe"),
    [
        ("GET", Replay.AUTO, True),
        ("PUT", Replay.AUTO, True),
        ("DELETE", Replay.AUTO, True),
        ("POST", Replay.AUTO, False),
        ("PATCH", Replay.AUTO, False),
        ("POST", Replay.SAFE, True),
        ("GET", Replay.NEVER, False),
    ],
)
def test_what_is_safe_to_repeat(method: str, replay: Replay, safe: bool) -> None:
    """By method, unless the caller knows better."""
    assert is_safe(method, replay) is safe
