"""Uploads: stored whole or not at all, byte by byte, once; refused in the words of the wire."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

from tests.platform import RunningPlatform, running_platform
from tests.server.clocks import FakeClock
from tests.server.traces.uploads import (
    NOW,
    episode,
    form,
    ids,
    key_of,
    lines,
    send,
    store,
    trace,
)
from tests.server.wire import Reply, Wire


def stored_files(platform: RunningPlatform) -> list[str]:
    """The names of the files of lines, and of half written ones."""
    return [path.name for path in platform.config.traces_dir.rglob("*") if path.is_file()]


def bad_lines(reply: Reply) -> list[tuple[int, str]]:
    """The lines that an answer names, with their codes."""
    return [(one["line"], one["code"]) for one in reply.json["error"]["details"]["lines"]]


async def test_an_upload_is_stored_and_answered_with_its_receipt(wire: Wire) -> None:
    """201 with the digest; the traces are there at once."""
    data = lines(trace("t1"), trace("t2"))
    reply = await send(wire, data)
    assert reply.status == 201
    digest = key_of(data).removeprefix("sha256:")
    assert reply.json == {"upload_id": digest, "status": "committed", "replayed": False}
    assert sorted(await ids(wire)) == ["t1", "t2"]


async def test_every_encoding_of_the_part_is_read(wire: Wire) -> None:
    """Plain, gzip (of several members too) and zstd."""
    ways = {
        None: lambda data: data,
        "gzip": lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:]),
        "zstd": zstd.compress,
    }
    for encoding, encode in ways.items():
        data = lines(trace(f"t-{encoding}"))
        reply = await send(wire, data, body=form(encode(data), encoding=encoding))
        assert reply.status == 201, (encoding, reply)
    assert "traces-zstd" in reply.headers["X-Prime-Features"]


async def test_documents_come_back_byte_by_byte(wire: Wire) -> None:
    """Spaces, escapes, key order, long digits and a missing last line break are kept."""
    odd = (
        b'  {"id": "t1", "timing" : {"start": 1799999940.000}, '
        b'"big": 123456789012345678901234567890, "text": "\\u00e9\xc3\xa9\\/", "id2": 1e2 } \t'
    )
    plain = lines(trace("t2"))
    data = odd + b"\n\n   \n" + plain.rstrip(b"\n")
    assert (await send(wire, data)).status == 201
    assert (await wire.get("/traces/t1?raw=true")).body == odd
    raw = await wire.get("/traces/t2", params={"raw": "true"})
    assert raw.body == plain.rstrip(b"\n")
    assert raw.headers["Content-Length"] == str(len(raw.body))


async def test_the_same_key_again_answers_the_receipt_and_stores_nothing(wire: Wire) -> None:
    """The first context stays; the answer says that it is a replay."""
    data = lines(trace("t1"))
    first = await send(wire, data, metadata={"schema_version": 1, "context": {"a": "1"}})
    again = await send(wire, data, metadata={"schema_version": 1, "context": {"a": "2"}})
    assert (first.status, again.status) == (201, 201)
    assert again.json == {**first.json, "replayed": True}
    found = (await wire.get("/traces/t1")).json
    assert (found["context"], found["generation"]) == ({"a": "1"}, 1)


async def test_a_known_key_with_other_bytes_is_still_refused(wire: Wire) -> None:
    """A replay is checked as well: the key has to be the digest of what arrived."""
    data, other = lines(trace("t1")), lines(trace("t2"))
    await send(wire, data)
    reply = await send(wire, other, headers={"Idempotency-Key": key_of(data)})
    assert (reply.status, reply.code) == (400, "digest_mismatch")


async def test_identical_uploads_at_the_same_time_are_stored_once(
    wire: Wire, platform: RunningPlatform
) -> None:
    """One of them stores, the others get the same receipt."""
    data = lines(*(trace(f"t{number}") for number in range(20)))
    replies = await asyncio.gather(*(send(wire, data) for _ in range(6)))
    assert [reply.status for reply in replies] == [201] * 6
    assert sum(not reply.json["replayed"] for reply in replies) == 1
    assert len(await ids(wire, limit=100)) == 20
    assert stored_files(platform) == [key_of(data).removeprefix("sha256:")]


async def test_the_same_bytes_in_another_format_are_a_conflict(wire: Wire) -> None:
    """409: the digest does not cover the format."""
    data = lines({**episode("e1", []), "timing": {"start": NOW}})
    assert (await send(wire, data)).status == 201
    reply = await send(wire, data, episodes=True)
    assert (reply.status, reply.code) == (409, "line_format_conflict")


async def test_bad_lines_are_all_named_and_nothing_is_stored(
    wire: Wire, platform: RunningPlatform
) -> None:
    """The first one speaks, ``details`` name every line, blank ones counted."""
    good = lines(trace("t1"))
    old, soon = NOW - 366 * 86400, NOW + 301
    data = b"".join(
        (
            good,
            b"\n",
            b'{"id": "t2", "timing": {"start": NaN}}\n',
            b'{"id": "t\xff", "timing": {"start": 1}}\n',
            b"[1, 2]\n",
            b'{"timing": {"start": 1800000000}}\n',
            lines(trace("t3", timing={"start": "now"})),
            lines(trace("t4", timing={"start": old}), trace("t5", timing={"start": soon})),
            lines(trace("t1", ok=False), trace("x" * 257), episode("e1", [])),
            b'{"id": "t6", "x": "\\ud800", "timing": {"start": 1800000000}}\n',
            b'{"id": "t7", "x": ' + b"[" * 5000 + b"]" * 5000 + b"}\n",
        )
    )
    reply = await send(wire, data)
    assert (reply.status, reply.code) == (400, "invalid_trace")
    assert reply.json["error"]["message"].startswith("line 3: ")
    assert reply.json["error"]["details"]["line"] == 3
    assert bad_lines(reply) == [
        (3, "invalid_trace"),
        (4, "malformed_encoding"),
        (5, "invalid_trace"),
        (6, "invalid_trace"),
        (7, "invalid_trace"),
        (8, "created_at_out_of_window"),
        (9, "created_at_out_of_window"),
        (10, "duplicate_trace_id"),
        (11, "invalid_trace"),
        (12, "line_format_mismatch"),
        (13, "invalid_trace"),
        (14, "invalid_trace"),
    ]
    assert await ids(wire) == []
    assert stored_files(platform) == []


async def test_the_window_of_begins_has_its_borders(wire: Wire) -> None:
    """A year back and five minutes ahead are just allowed."""
    edges = NOW - 365 * 86400, NOW + 300
    data = lines(*(trace(f"t{at}", timing={"start": at}) for at in edges))
    assert (await send(wire, data)).status == 201


async def test_bad_episodes_are_named_by_line(wire: Wire) -> None:
    """Ids, caps, members, the format."""
    many = [{"id": f"m{number}", "timing": {"start": NOW}} for number in range(1001)]
    data = lines(
        episode("e1", [trace("t1")]),
        episode("e1", [trace("t2")]),
        episode("e" * 257, []),
        episode("e3", [], env={"id": "v" * 257}),
        episode("e4", many),
        episode("e5", [trace("t1")]),
        episode("e6", [trace("t6"), {"id": "t7"}]),
        episode("", []),
        trace("t8"),
    )
    reply = await send(wire, data, episodes=True)
    assert reply.status == 400
    assert bad_lines(reply) == [
        (2, "duplicate_episode_id"),
        (3, "episode_id_too_long"),
        (4, "environment_id_too_long"),
        (5, "too_many_traces_in_episode"),
        (6, "duplicate_trace_id"),
        (7, "invalid_trace"),
        (8, "invalid_trace"),
        (9, "line_format_mismatch"),
    ]
    assert "traces[1]" in reply.json["error"]["details"]["lines"][5]["message"]


async def test_a_trace_may_belong_to_an_episode_that_is_stored(wire: Wire) -> None:
    """A bare trace that names an unknown episode is refused."""
    member = lines(trace("t1", episode={"id": "e1"}))
    reply = await send(wire, member)
    assert (reply.status, reply.code) == (400, "unknown_episode_reference")
    await store(wire, episode("e1", []), episodes=True)
    assert (await send(wire, member)).status == 201
    assert await ids(wire, "/episodes/e1/traces") == ["t1"]


METADATA: list[tuple[Any, str]] = [
    (b"{", "invalid_metadata"),
    ([], "invalid_metadata"),
    ({}, "invalid_metadata"),
    ({"schema_version": "1"}, "invalid_metadata"),
    ({"schema_version": 1, "context": {"a": 1}}, "invalid_metadata"),
    ({"schema_version": 1, "context": {"a": "x" * 70_000}}, "invalid_metadata"),
    ({"schema_version": 2}, "unsupported_schema_version"),
]


async def test_metadata_is_checked(wire: Wire) -> None:
    """Every way in which it can be wrong."""
    data = lines(trace("t1"))
    for metadata, code in METADATA:
        reply = await send(wire, data, metadata=metadata)
        assert (reply.status, reply.code) == (400, code), metadata


async def test_the_body_is_checked(wire: Wire) -> None:
    """Every way in which its form can be wrong."""
    data = lines(trace("t1"))
    whole, packed = form(data), gzip.compress(data)
    metadata, traces = whole.split(b"--border\r\n")[1:]
    traces = traces.replace(b"--border--\r\n", b"")
    end = b"--border--\r\n"
    cases: list[tuple[bytes, str]] = [
        (b"", "malformed_encoding"),
        (b"nonsense", "malformed_encoding"),
        (whole[:-20], "malformed_encoding"),
        (whole[: len(whole) // 2], "malformed_encoding"),
        (b"--border\r\n" + metadata + end, "malformed_encoding"),
        (b"--border\r\n" + traces + end, "invalid_metadata"),
        (
            b"--border\r\n" + b"--border\r\n".join((metadata, metadata, traces)) + end,
            "invalid_metadata",
        ),
        (
            b"--border\r\n" + b"--border\r\n".join((metadata, traces, traces)) + end,
            "malformed_encoding",
        ),
        (whole.replace(b'name="traces"', b'name="other"'), "invalid_metadata"),
        (whole.replace(b"form-data", b"attachment"), "malformed_encoding"),
        (form(packed[:-9], encoding="gzip"), "malformed_encoding"),
        (form(packed[:12] + b"\xff\xff" + packed[14:], encoding="gzip"), "malformed_encoding"),
        (form(zstd.compress(data)[:-3], encoding="zstd"), "malformed_encoding"),
        (form(b"not zstd at all", encoding="zstd"), "malformed_encoding"),
        (form(data, encoding="br"), "malformed_encoding"),
        (form(b""), "digest_mismatch"),
    ]
    for body, code in cases:
        reply = await send(wire, data, body=body)
        assert (reply.status, reply.code) == (400, code), body[:200]


async def test_the_headers_are_checked(wire: Wire) -> None:
    """Key, format and content type."""
    data = lines(trace("t1"))
    hexadecimal = key_of(data).removeprefix("sha256:")
    cases = [
        ({"Idempotency-Key": hexadecimal}, "invalid_idempotency_key"),
        ({"Idempotency-Key": f"sha256:{hexadecimal.upper()}"}, "invalid_idempotency_key"),
        ({"Idempotency-Key": f"sha256:{hexadecimal[:-1]}"}, "invalid_idempotency_key"),
        ({"Idempotency-Key": key_of(b"")}, "digest_mismatch"),
        ({"X-Prime-Line-Format": "turn"}, "line_format_mismatch"),
        ({"Content-Type": "application/json"}, "malformed_encoding"),
        ({"Content-Type": "multipart/form-data"}, "malformed_encoding"),
    ]
    for headers, code in cases:
        reply = await send(wire, data, headers=headers)
        assert (reply.status, reply.code) == (400, code), headers


async def test_lines_without_any_record_are_no_upload(wire: Wire) -> None:
    """Blank lines alone are refused."""
    reply = await send(wire, b"\n  \n")
    assert (reply.status, reply.code) == (400, "invalid_trace")


async def test_limits_hold_for_the_inflated_bytes(tmp_path: Path, clock: FakeClock) -> None:
    """Too large a line, upload, and number of rows; a bomb is given up at the limit."""
    limits = {"trace_upload_bytes": 200_000, "trace_line_bytes": 50_000, "trace_upload_rows": 100}
    async with (
        running_platform(tmp_path, clock=clock, limits=limits) as platform,
        Wire(platform.url) as wire,
    ):
        data = lines(trace("t1"), trace("t2", text="x" * 50_000), trace("t3", ok=1))
        reply = await send(wire, data)
        assert (reply.code, bad_lines(reply)) == ("trace_too_large", [(2, "trace_too_large")])
        data = lines(*({"id": f"t{n}", "timing": {"start": NOW}} for n in range(101)))
        assert (await send(wire, data)).code == "too_many_traces_in_upload"
        assert (await send(wire, b"\n" * 201)).code == "too_many_traces_in_upload"
        for bomb in (b" " * 50_000_000, b"\n" * 50_000_000):
            reply = await send(wire, bomb)
            assert (reply.status, reply.code) == (400, "upload_too_large")
        reply = await send(wire, b"x" * 2_000_000, body=form(b"x" * 2_000_000))
        assert (reply.status, reply.code) == (400, "upload_too_large")
        assert stored_files(platform) == []


async def test_a_bomb_of_zstd_is_given_up_at_the_limit(tmp_path: Path, clock: FakeClock) -> None:
    """As gzip is; and a frame cannot ask for a window that takes the memory."""
    async with (
        running_platform(tmp_path, clock=clock, limits={"trace_upload_bytes": 200_000}) as platform,
        Wire(platform.url) as wire,
    ):
        bomb = b" " * 50_000_000
        reply = await send(wire, bomb, body=form(zstd.compress(bomb), encoding="zstd"))
        assert (reply.status, reply.code) == (400, "upload_too_large")
        options = {zstd.CompressionParameter.window_log: 27}
        options[zstd.CompressionParameter.content_size_flag] = 0
        wide = zstd.ZstdCompressor(options=options)
        packed = wide.compress(b"{}\n") + wide.flush()
        reply = await send(wire, b"{}\n", body=form(packed, encoding="zstd"))
        assert (reply.status, reply.code) == (400, "malformed_encoding")


async def test_a_sender_that_goes_away_leaves_nothing(
    wire: Wire, platform: RunningPlatform
) -> None:
    """A connection that breaks in the middle of the body."""
    data = lines(trace("t1", text="x" * 300_000))
    body = form(data)
    head = (
        f"POST /api/v1/traces HTTP/1.1\r\nHost: 127.0.0.1:{platform.port}\r\n"
        f"Authorization: Bearer {platform.key}\r\nIdempotency-Key: {key_of(data)}\r\n"
        f"Content-Type: multipart/form-data; boundary=border\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    _, writer = await asyncio.open_connection("127.0.0.1", platform.port)
    writer.write(head.encode() + body[:-50_000])
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    # An upload that is sent whole goes through while and after the other one is given up.
    assert (await send(wire, data)).status == 201
    kept = [key_of(data).removeprefix("sha256:")]
    while stored_files(platform) != kept:
        await asyncio.sleep(0.01)


async def test_a_full_disk_is_said_and_leaves_nothing(
    wire: Wire, platform: RunningPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 with a Retry-After: the same bytes can be sent again later."""
    from prime_async.server.store.blobs import Blobs

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    data = lines(trace("t1"))
    with monkeypatch.context() as patch:
        patch.setattr(Blobs, "keep", full)
        reply = await send(wire, data)
    assert (reply.status, reply.code) == (503, "storage_unavailable")
    assert int(reply.headers["Retry-After"]) > 0
    assert stored_files(platform) == []
    assert (await send(wire, data)).status == 201


async def test_gzip_of_any_level_and_window_is_read(wire: Wire) -> None:
    """Also what other languages' libraries write."""
    data = lines(trace("t1"))
    packer = zlib.compressobj(9, zlib.DEFLATED, 9 | 16)
    packed = packer.compress(data) + packer.flush()
    assert (await send(wire, data, body=form(packed, encoding="GZIP"))).status == 201
    assert json.loads((await wire.get("/traces/t1?raw=true")).body) == trace("t1")
