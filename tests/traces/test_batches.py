"""Batches: the same lines give the same batches as the official client makes of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import prime_traces
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_async.traces import (
    MAX_BATCH_BYTES,
    Batch,
    TracesUsageError,
    TraceTooLargeError,
    aiter_batches,
    iter_batches,
    read_jsonl_lines,
)
from prime_async.traces.batches import Packer
from prime_async.traces.lines import LongLine, bounded_lines, content_size

_ENDS = st.sampled_from([b"\n", b"\r\n", b"\n\n", b""])
_CONTENT = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b" ", b"\t \r", b"\x0b\x0c"]),
    st.builds(bytes.__mul__, st.binary(min_size=1, max_size=3), st.integers(1, 700_000)),
)
_LINES = st.lists(st.builds(bytes.__add__, _CONTENT, _ENDS), max_size=30)


def seen(batches: Iterable[Any]) -> list[tuple[Any, ...]]:
    return [
        (b.data, b.digest, b.num_lines, b.first_line_number, b.size, b.idempotency_key)
        for b in batches
    ]


@given(
    lines=_LINES,
    target=st.one_of(st.integers(1, 200), st.sampled_from([1_000, 262_144, 30 * 2**20])),
    most=st.sampled_from([1, 2, 7, 1_000_000]),
)
def test_batches_are_those_of_the_official_client(
    lines: list[bytes], target: int, most: int
) -> None:
    """Whatever the lines and limits: borders, bytes, digests and line numbers are equal."""
    limits = {"target_bytes": target, "max_lines": most}
    assert seen(iter_batches(lines, **limits)) == seen(prime_traces.iter_batches(lines, **limits))


@given(lines=_LINES, target=st.integers(1, 1_000_000))
def test_nothing_is_lost_and_every_batch_says_where_it_is_from(
    lines: list[bytes], target: int
) -> None:
    """Joined, the batches are the lines that are not blank; their places follow each other."""
    batches = list(iter_batches(lines, target_bytes=target))
    kept = [line for line in lines if line and not line.isspace()]
    assert b"".join(batch.data for batch in batches) == b"".join(kept)
    assert sum(batch.num_lines for batch in batches) == len(kept)
    last = 0
    for batch in batches:
        assert last < batch.first_line_number <= batch.last_line_number
        assert batch.digest == hashlib.sha256(batch.data).hexdigest()
        assert batch.size == len(batch.data) == sum(map(len, batch.chunks))
        last = batch.last_line_number


async def test_batches_of_any_source_are_the_same() -> None:
    """A list, an iterator and an asynchronous iterable give equal batches."""
    lines = [bytes([97 + i % 26]) * (i * 37 % 900) + b"\n" for i in range(400)]

    async def asynchronous() -> Any:
        for line in lines:
            yield line

    wanted = list(iter_batches(lines, target_bytes=5_000))
    assert len(wanted) > 10
    for source in (lines, iter(lines), asynchronous()):
        assert [batch async for batch in aiter_batches(source, target_bytes=5_000)] == wanted


def test_large_lines_stay_the_objects_they_are() -> None:
    """Lines beyond 256 KiB are not copied; small ones are joined, so that a million are few."""
    large = b"x" * 300_000 + b"\n"
    (batch,) = iter_batches([b"a\n"] * 1000 + [large] + [b"b\n"] * 1000)
    assert len(batch.chunks) == 3
    assert batch.chunks[1] is large


def test_a_line_too_large_is_named() -> None:
    """Line feeds at its end do not count, a carriage return does; batches before it came out."""
    fits, beyond = b"x" * 10 + b"\n\n", b"x" * 10 + b"\r\n"
    assert content_size(fits) == 10
    batches = iter_batches([b"a\n", fits, beyond], target_bytes=5, max_line_bytes=10)
    assert [next(batches).data] == [b"a\n"]
    with pytest.raises(TraceTooLargeError, match="line 3 has 11 bytes") as caught:
        next(batches)
    assert (caught.value.line_number, caught.value.size, caught.value.limit) == (3, 11, 10)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"target_bytes": 0}, "target_bytes"),
        ({"target_bytes": MAX_BATCH_BYTES + 1}, "target_bytes"),
        ({"target_bytes": True}, "target_bytes"),
        ({"target_bytes": 1.5}, "target_bytes"),
        ({"max_lines": 0}, "max_lines"),
        ({"max_line_bytes": -1}, "max_line_bytes"),
    ],
)
async def test_limits_out_of_range(limits: dict[str, Any], field: str) -> None:
    """They are refused before a line is read, by name."""
    with pytest.raises(TracesUsageError) as caught:
        iter_batches(iter_never(), **limits)
    assert caught.value.field == field
    with pytest.raises(ValueError, match=field):
        await anext(aiter_batches(iter_never(), **limits))


def iter_never() -> Iterable[bytes]:
    raise AssertionError("read")
    yield b""


@pytest.mark.parametrize("wrong", ["text\n", 5, None, {"id": "t"}])
def test_a_line_that_is_not_bytes(wrong: object) -> None:
    """It is refused with its place."""
    with pytest.raises(TracesUsageError, match=r"line 2 is a \w+, not bytes"):
        list(iter_batches([b"a\n", wrong]))  # type: ignore[list-item]


def test_a_buffer_is_copied() -> None:
    """A bytearray that changes later changes nothing."""
    buffer = bytearray(b"abc\n")
    packer = Packer()
    packer.add(buffer)  # type: ignore[arg-type]
    buffer[0] = 0x7A
    draft = packer.finish()
    assert draft is not None
    assert draft.sealed().data == b"abc\n"


def test_a_batch_is_what_it_was() -> None:
    """It cannot be changed, compares by value, and its bytes are not in its repr."""
    (batch,) = iter_batches([b"secret\n"])
    with pytest.raises(AttributeError):
        batch.digest = "x"  # type: ignore[misc]
    assert batch == next(iter_batches([b"secret\n"]))
    assert isinstance(batch, Batch)
    assert "secret" not in repr(batch)


def test_lines_of_a_file_are_untouched(tmp_path: Path) -> None:
    """Every byte comes back, ends of lines included."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b'{"a":1}\r\n\n  \n{"b":2}')
    assert list(read_jsonl_lines(path)) == [b'{"a":1}\r\n', b"\n", b"  \n", b'{"b":2}']
    assert seen(iter_batches(read_jsonl_lines(path))) == seen(
        prime_traces.iter_batches(prime_traces.read_jsonl_lines(path))
    )


@given(
    lengths=st.lists(st.integers(0, 40), max_size=12),
    limit=st.integers(1, 30),
    ended=st.booleans(),
)
def test_long_lines_are_passed_over(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], limit: int, ended: bool
) -> None:
    """A reader with a limit gives the same lines, and a stand-in with the size for longer ones."""
    content = b"\n".join(b"x" * length for length in lengths) + (b"\n" if ended else b"")
    path = tmp_path_factory.mktemp("lines") / "f"
    path.write_bytes(content)
    with path.open("rb") as file:
        found = list(bounded_lines(file, limit))
    wanted = list(read_jsonl_lines(path))
    assert len(found) == len(wanted)
    for have, line in zip(found, wanted, strict=True):
        if content_size(line) > limit:
            assert isinstance(have, LongLine)
            assert have.size == content_size(line)
        else:
            assert have == line
