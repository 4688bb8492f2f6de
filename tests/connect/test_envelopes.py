"""Connect framing: whatever the pieces, the same frames; bounded memory; broken streams refused."""

from __future__ import annotations

import gzip
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_async.connect import (
    Code,
    Decoder,
    Envelope,
    Failure,
    decode_end,
    encode_end,
    encode_envelope,
    failure_of_answer,
    parse_timeout,
    stream_headers,
)
from prime_async.errors import ProtocolError


def _cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, start = [], 0
    for size in sizes:
        pieces.append(data[start : start + size])
        start += size
    return [*pieces, data[start:]]


@given(
    messages=st.lists(st.binary(max_size=300), max_size=12),
    sizes=st.lists(st.integers(0, 40), max_size=60),
)
def test_any_pieces_give_the_same_frames(messages: list[bytes], sizes: list[int]) -> None:
    """However a stream is cut, its frames come out whole, in order, with the end last."""
    wire = b"".join(encode_envelope(message) for message in messages) + encode_end()
    decoder = Decoder()
    frames = [frame for piece in _cut(wire, sizes) for frame in decoder.feed(piece)]
    decoder.finish()
    assert frames == [*(Envelope(message) for message in messages), Envelope(b"{}", True)]
    assert decoder.held == 0


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_a_protocol_error(data: bytes) -> None:
    """Noise never raises anything but ProtocolError, and is never held beyond the limit."""
    decoder = Decoder(limit=50)
    try:
        decoder.feed(data)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decoder.feed(b"")
    assert decoder.held <= 50 + 5


def test_a_length_beyond_the_limit_is_refused_by_its_header() -> None:
    """Five bytes are enough to refuse a message of 4 GiB."""
    with pytest.raises(ProtocolError, match="4,294,967,295"):
        Decoder().feed(struct.pack(">BI", 0, 2**32 - 1))


def test_a_stream_cut_inside_a_message_is_told() -> None:
    """A missing end frame is tolerated, half a message is not."""
    decoder = Decoder()
    decoder.feed(encode_envelope(b"abc")[:-1])
    with pytest.raises(ProtocolError, match="middle"):
        decoder.finish()


def test_bytes_after_the_end_are_refused() -> None:
    """Nothing follows the end frame."""
    with pytest.raises(ProtocolError, match="after its end"):
        Decoder().feed(encode_end() + encode_envelope(b"x"))


def test_unknown_flags_are_refused() -> None:
    """A flag of a later protocol is not ignored."""
    with pytest.raises(ProtocolError, match="flags"):
        Decoder().feed(encode_envelope(b"x", flags=4))


def test_compressed_frames_are_refused_in_a_plain_stream() -> None:
    """A stream that announced no compression has none."""
    with pytest.raises(ProtocolError, match="compressed"):
        Decoder().feed(encode_envelope(gzip.compress(b"x"), flags=1))


def test_compressed_frames_are_inflated_within_the_limit() -> None:
    """gzip is read where announced, and a bomb ends at the limit."""
    assert Decoder(encoding="gzip").feed(encode_envelope(gzip.compress(b"abc"), flags=1)) == [
        Envelope(b"abc")
    ]
    bomb = encode_envelope(gzip.compress(bytes(10**6)), flags=1)
    with pytest.raises(ProtocolError, match="inflates"):
        Decoder(limit=10_000, encoding="gzip").feed(bomb)


@pytest.mark.parametrize(
    "data",
    [gzip.compress(b"abc", mtime=0)[:-3], b"nonsense", gzip.compress(b"a", mtime=0) * 2],
    ids=["cut", "foreign", "doubled"],
)
def test_broken_compression_is_told(data: bytes) -> None:
    """Cut, foreign or doubled gzip data is a protocol error."""
    with pytest.raises(ProtocolError):
        Decoder(encoding="gzip").feed(encode_envelope(data, flags=1))


def test_an_unknown_encoding_is_refused_at_once() -> None:
    """What cannot be inflated is not begun."""
    with pytest.raises(ProtocolError, match="zstd"):
        Decoder(encoding="zstd")


def test_the_end_frame_carries_success_or_a_failure() -> None:
    """What is written as the end is read as the end."""
    failure = Failure(Code.NOT_FOUND, "no such session", ({"type": "x"},))
    assert decode_end(encode_end()[5:]) is None
    assert decode_end(b"") is None
    assert decode_end(encode_end(failure, {"a": ["b"]})[5:]) == failure


@pytest.mark.parametrize("data", [b"[]", b"{", b'{"error": 3}', b"\xff"])
def test_a_broken_end_frame_is_told(data: bytes) -> None:
    """The end is a JSON object or a protocol error."""
    with pytest.raises(ProtocolError):
        decode_end(data)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, b"", Code.INTERNAL),
        (401, b"{}", Code.UNAUTHENTICATED),
        (403, b"<html>", Code.PERMISSION_DENIED),
        (404, b"", Code.UNIMPLEMENTED),
        (503, b"[1]", Code.UNAVAILABLE),
        (418, b"", Code.UNKNOWN),
        (500, b'{"code": "not_found", "message": "m"}', Code.NOT_FOUND),
        (401, b'{"code": 401}', Code.UNAVAILABLE),
        (401, b'{"code": "nonsense"}', Code.UNAVAILABLE),
    ],
)
def test_failed_answers_become_codes(status: int, body: bytes, code: Code) -> None:
    """The body's code counts, else the status; a code that is no text is `unavailable`."""
    assert failure_of_answer(status, body).code is code


def test_deadlines_travel_in_milliseconds() -> None:
    """A deadline is a header; none and infinity are no header; nonsense is refused."""
    assert stream_headers(1.5)["connect-timeout-ms"] == "1500"
    assert "connect-timeout-ms" not in stream_headers(float("inf"))
    assert parse_timeout("1500") == 1.5
    assert parse_timeout(None) is None
    for text in ("", "-1", "1.5", "1" * 11, "²"):
        with pytest.raises(ValueError, match="digits"):
            parse_timeout(text)
