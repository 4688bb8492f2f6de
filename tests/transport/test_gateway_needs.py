"""What gateways need of the transport: another base, bodies from files, streams, their errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from prime_async.errors import (
    APIConnectionError,
    APIError,
    NotFoundError,
    ServerError,
    UnauthorizedError,
)
from prime_async.transport import WIRE_KEY, BytesBody, Replay, RetryPolicy, Transport
from tests.stub import NOTHING, Answer, Stub

QUICK = RetryPolicy(first_delay=0.01)


class _Streamed:
    """A body whose pieces have to be waited for."""

    content_type = "application/octet-stream"

    def __init__(self, size: int | None, pieces: list[bytes]) -> None:
        self.size = size
        self.pieces_made = 0
        self._pieces = pieces

    async def stream(self) -> AsyncGenerator[bytes, None]:
        self.pieces_made += 1
        for piece in self._pieces:
            yield piece


def _gateway(stub: Stub) -> Transport:
    return Transport(base_url=stub.url, prefix="/gw", retry=QUICK, follow_redirects=False)


async def test_another_prefix_and_an_authorization_of_its_own(stub: Stub) -> None:
    """No key of the transport's, only what the request carries."""
    transport = _gateway(stub)
    await transport.request("GET", "/x", headers={"Authorization": "Bearer other"})
    await transport.aclose()
    [request] = stub.requests
    assert request.path == "/gw/x"
    assert request.headers.getall("Authorization") == ["Bearer other"]


@pytest.mark.parametrize("size", [6, None])
async def test_streamed_bodies_are_sent_anew_with_each_try(stub: Stub, size: int | None) -> None:
    """With their length where it is known, in chunks where not; the same bytes each time."""
    stub.script(Answer(503), Answer(json={}))
    body = _Streamed(size, [b"abc", b"", b"def"])
    transport = _gateway(stub)
    await transport.request("POST", "/x", body=body, replay=Replay.SAFE)
    await transport.aclose()
    assert [request.body for request in stub.requests] == [b"abcdef", b"abcdef"]
    assert stub.requests[0].headers.get("Content-Length") == (None if size is None else "6")
    assert body.pieces_made == 2


async def test_a_large_piece_is_sent_in_slices(stub: Stub) -> None:
    """Whole, whatever its size."""
    data = bytes(range(256)) * 8192
    transport = _gateway(stub)
    await transport.request("PUT", "/x", body=_Streamed(len(data), [data]))
    await transport.aclose()
    assert stub.requests[0].body == data


async def test_redirects_are_errors_where_tokens_must_not_follow(stub: Stub) -> None:
    """A gateway does not send anybody elsewhere."""
    stub.default = Answer(302, headers={"Location": f"{stub.url}/elsewhere"})
    transport = _gateway(stub)
    with pytest.raises(APIError) as caught:
        await transport.request("GET", "/x")
    await transport.aclose()
    assert caught.value.status == 302
    assert len(stub.requests) == 1


async def test_a_post_can_be_answered_by_a_stream(stub: Stub) -> None:
    """Body and headers go out, pieces come back, and the connection is used again."""
    stub.default = Answer(headers={"Content-Type": "a/b"}, pieces=[b"one", b"two"])
    transport = _gateway(stub)
    for _ in range(2):
        async with transport.stream("POST", "/x", body=BytesBody(b"ask", "c/d")) as answer:
            assert (answer.status, answer.headers["Content-Type"]) == (200, "a/b")
            pieces = b""
            while piece := await answer.next_piece():
                pieces += piece
            assert (pieces, answer.at_end) == (b"onetwo", True)
    await transport.aclose()
    assert [request.body for request in stub.requests] == [b"ask", b"ask"]
    assert stub.requests[0].headers["Content-Type"] == "c/d"
    assert stub.connections == 1


@pytest.mark.parametrize(("replay", "tries"), [(Replay.NEVER, 1), (Replay.SAFE, 2)])
async def test_a_stream_is_asked_for_again_only_where_that_is_harmless(
    stub: Stub, replay: Replay, tries: int
) -> None:
    """A POST whose answer is lost may have been carried out."""
    stub.script(NOTHING)
    transport = _gateway(stub)
    stream = transport.stream("POST", "/x", body=BytesBody(b""), replay=replay)
    if replay is Replay.SAFE:
        async with stream as answer:
            assert answer.status == 200
    else:
        with pytest.raises(APIConnectionError) as caught:
            await stream.__aenter__()
        assert caught.value.ambiguous
    await transport.aclose()
    assert len(stub.requests) == tries


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (404, {"code": "not_found", "message": "no session"}, NotFoundError, "not_found"),
        (401, {"code": "unauthenticated"}, UnauthorizedError, "unauthenticated"),
        (401, {"code": 401}, UnauthorizedError, None),
        (410, {"error": "sandbox_terminated"}, APIError, "sandbox_terminated"),
        (502, {"error": "sandbox_not_found"}, ServerError, "sandbox_not_found"),
        (500, {"error": "Out of luck today"}, ServerError, None),
        (409, {"error": {"code": "c", "message": "m"}, "code": "d"}, APIError, "c"),
    ],
)
async def test_codes_are_read_wherever_they_stand(
    stub: Stub, status: int, body: dict[str, object], kind: type[APIError], code: str | None
) -> None:
    """At the top, as Connect has it; as the whole error; inside it."""
    stub.default = Answer(status, json=body)
    transport = Transport(base_url=stub.url, retry=RetryPolicy(tries=1))
    with pytest.raises(kind) as caught:
        await transport.request("GET", "/x")
    await transport.aclose()
    assert caught.value.code == code


async def test_a_key_in_the_body_makes_a_repeat_harmless(stub: Stub) -> None:
    """Without asking the platform; and without one the last error says what an earlier one knew."""
    stub.script(NOTHING, Answer(json={"id": "x"}))
    transport = Transport(base_url=stub.url, retry=QUICK)
    await transport.request("POST", "/x", json={}, deduplicated_by=WIRE_KEY)
    assert [request.method for request in stub.requests] == ["POST", "POST"]
    stub.script(NOTHING, Answer(429, headers={"Retry-After": "100"}))
    with pytest.raises(APIError) as caught:
        await transport.request("POST", "/x", json={}, deduplicated_by=WIRE_KEY)
    await transport.aclose()
    assert caught.value.status == 429
    assert caught.value.ambiguous
