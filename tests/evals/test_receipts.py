"""Receipts and resume tokens: they round-trip, add up, and say everything in one line."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_async.errors import UsageError
from prime_async.evals import PushReceipt, RefusedSample, ResumeToken
from prime_async.evals.receipts import is_push_id
from prime_async.spool import Ranges

RANGES = st.lists(st.tuples(st.integers(0, 999), st.integers(0, 99)), max_size=8).map(
    lambda pairs: Ranges((start, start + length) for start, length in pairs)
)
PUSH_IDS = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


@settings(deadline=None)
@given(st.text(min_size=1, max_size=40), PUSH_IDS, RANGES, RANGES)
def test_tokens_round_trip(
    evaluation_id: str, push_id: str, stored: Ranges, unknown: Ranges
) -> None:
    """What is written is read back, whatever the ids and ranges; the text needs no quoting."""
    try:
        evaluation_id.encode()
    except UnicodeEncodeError:
        return
    token = ResumeToken(evaluation_id, push_id, stored, unknown)
    assert ResumeToken.parse(str(token)) == token
    assert re.fullmatch(r"pr1\.[A-Za-z0-9_-]+", str(token))
    assert token.settled == stored | unknown


def test_a_million_samples_are_a_short_token() -> None:
    """The token of a push that went well does not grow with the push."""
    token = ResumeToken("eval_1", "push_1", Ranges([(0, 1_000_000)]))
    assert len(str(token)) < 80


def _token_of(*content: Any) -> str:
    return "pr1." + base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pr1.",
        "pr2.abc",
        "eval_1",
        "pr1.!!!",
        "pr1.AAAA",
        "pr1.é",
        "pr1." + "A" * 4001,
        _token_of("e", "p", [], [])[:-3],
        _token_of("e", "p", []),
        _token_of("e", "p", [], [], []),
        _token_of(1, "p", [], []),
        _token_of("e", "p", [[3, 1]], []),
        _token_of("e", "p", [[-1, 1]], []),
        _token_of("e", "p", [[1]], []),
        _token_of("e", "p", ["1-2"], []),
        _token_of("e", "p", [[0, True]], []),
        _token_of("e", "", [], []),
        _token_of("e", "a b", [], []),
        _token_of("e", "a\r\nX: y", [], []),
        _token_of("e", "p" * 65, [], []),
        b"pr1.AAAA",
        None,
        5,
    ],
)
def test_what_is_no_token_is_refused(text: Any) -> None:
    """Anything else is a clear error of the caller, never a crash and never another push."""
    with pytest.raises(UsageError, match="not a resume token") as caught:
        ResumeToken.parse(text)
    assert caught.value.field == "resume"


@settings(deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_behind_the_prefix(data: bytes) -> None:
    """Random content is refused or read, never anything else."""
    text = "pr1." + base64.urlsafe_b64encode(data).decode().rstrip("=")
    try:
        token = ResumeToken.parse(text)
    except UsageError:
        return
    assert ResumeToken.parse(str(token)) == token


@pytest.mark.parametrize("name", ["a", "A-b_9", "0", "push_01J", "a" * 64])
def test_push_ids(name: str) -> None:
    """Letters, digits, dash and underscore, 1 to 64 of them."""
    assert is_push_id(name)


@pytest.mark.parametrize("name", ["", "_a", "-a", "a b", "a/b", "é", "a" * 65, "a\n", None, 5])
def test_no_push_ids(name: Any) -> None:
    """Nothing that would need quoting in a header, a path or a folder name."""
    assert not is_push_id(name)


FULL = PushReceipt(
    evaluation_id="eval_1",
    push_id="push_1",
    samples_pushed=7,
    samples_skipped=1,
    refused=(RefusedSample(7, "too large", "samples[7]", 413, 99),),
    stored=((0, 7),),
    unknown=((8, 10),),
    undelivered=((10, 13),),
    spooled=4,
    spool_path=Path("/spool/push_1"),
    trimmed={3: ("trajectory",)},
    nonfinite={"reward": 2},
    samples_total=17,
    read_all=False,
    resume_token="pr1.x",
)


def test_a_receipt_is_a_mapping() -> None:
    """The official keys and ours, by key and by attribute."""
    assert isinstance(FULL, Mapping)
    assert FULL["samples_pushed"] == FULL.samples_pushed == 7
    assert FULL["samples_skipped"] == 1
    assert set(FULL) == set(FULL.__dataclass_fields__)
    assert len(FULL) == len(list(FULL))
    assert FULL.get("nothing") is None
    with pytest.raises(KeyError):
        FULL["to_dict"]


def test_a_receipt_is_plain_json() -> None:
    """`to_dict` holds what any JSON writer takes, with the same keys."""
    plain = json.loads(json.dumps(FULL.to_dict()))
    assert set(plain) == set(FULL)
    assert plain["stored"] == [[0, 7]]
    assert plain["spool_path"] == "/spool/push_1"
    assert plain["refused"] == [
        {"index": 7, "reason": "too large", "path": "samples[7]", "status": 413, "size": 99}
    ]
    assert msgspec.json.decode(msgspec.json.encode(FULL.to_dict())) == plain


def test_one_line_says_it_all() -> None:
    """Everything that is not as it should be is in the text."""
    assert str(FULL) == (
        "7 samples stored, 1 refused, 1 trimmed, 2 unknown, 3 not delivered, "
        "4 kept in /spool/push_1, the input was not read to its end"
    )
    assert str(PushReceipt("e", "p", samples_pushed=3)) == "3 samples stored"


@pytest.mark.parametrize(
    "fault",
    [
        {"samples_skipped": 1},
        {"unknown": ((0, 1),)},
        {"undelivered": ((0, 1),)},
        {"spooled": 1},
        {"read_all": False},
    ],
)
def test_complete_means_everything(fault: dict[str, Any]) -> None:
    """One sample refused, unknown, left or never read, and the push is not complete."""
    assert PushReceipt("e", "p").complete
    assert not PushReceipt("e", "p", **fault).complete
