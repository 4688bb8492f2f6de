"""Samples: read back equal, stored exactly once, in order, by page."""

from __future__ import annotations

import json
import random

import aiohttp
import pytest
from sqlalchemy import Connection

from prime_async.server.store import pages
from tests.platform import RunningPlatform
from tests.server.wire import Reply, Wire

ODD_SAMPLES = [
    '{"big": 123456789012345678901234567890123, "neg": -9223372036854775809, "max": 2e19}',
    '{"f": 0.1, "g": 1e-320, "h": 1.7976931348623157e308, "i": -0.0, "j": 1.0, "k": 3E2}',
    '{"z": 1, "a": {"y": 2, "b": [{"x": null}, [], {}]}, "": "empty key"}',
    '{"text": "na\\u00efve 日本 \\ud83d\\ude00 🟩 \\u0000 \\\\ \\" \\/ \\t"}',
    '{ "spaced" :  [ 1 ,2 ] , "bool": [true,false] }',
    '{"example_id": 0, "prompt": [{"role": "user", "content": [{"type": "text"}]}], "answer": 4}',
    '{"completion": "text", "reward": null, "info": {"a": {"b": {"c": 1}}}}',
    "{}",
]


def span(start: int, stop: int) -> dict[str, str]:
    return {"X-Prime-Push": "p1", "X-Prime-Range": f"{start}-{stop}"}


async def test_samples_read_back_deeply_equal(wire: Wire) -> None:
    """Long integers, odd floats, key order and any text come back as the text that was sent."""
    evaluation = await wire.evaluation()
    raw = ('{"samples": [' + ", ".join(ODD_SAMPLES) + "]}").encode()
    reply = await wire.post(f"/evaluations/{evaluation}/samples", raw=raw)
    assert reply.json == {
        "stored": len(ODD_SAMPLES),
        "duplicates": 0,
        "refused": [],
        "total_samples": len(ODD_SAMPLES),
    }
    page = await wire.get(f"/evaluations/{evaluation}/samples")
    assert page.json["samples"] == [json.loads(text) for text in ODD_SAMPLES]
    for text in ODD_SAMPLES:
        assert text.encode() in page.body


async def test_pages_cut_the_samples_wherever_asked(wire: Wire) -> None:
    """Any page size gives the same samples; a page beyond the end is empty."""
    evaluation = await wire.evaluation()
    pushed = [{"index": index, "text": "x" * (index % 7)} for index in range(103)]
    await wire.push(evaluation, pushed[:40], "p1", "0-40")
    await wire.push(evaluation, pushed[40:], "p1", "40-103")
    for limit in (1, 7, 50, 102, 103, 1000):
        assert await wire.samples(evaluation, limit) == pushed
    page = (
        await wire.get(f"/evaluations/{evaluation}/samples", params={"page": 3, "limit": 40})
    ).json
    assert page["samples"] == pushed[80:]
    assert (page["total"], page["page"], page["limit"], page["hasMore"]) == (103, 3, 40, False)
    beyond = (await wire.get(f"/evaluations/{evaluation}/samples", params={"page": 99})).json
    assert (beyond["samples"], beyond["total"], beyond["hasMore"]) == ([], 103, False)


async def test_an_evaluation_without_samples_has_one_empty_page(wire: Wire) -> None:
    """Nothing pushed yet is not an error."""
    evaluation = await wire.evaluation()
    page = (await wire.get(f"/evaluations/{evaluation}/samples")).json
    assert page == {"samples": [], "total": 0, "page": 1, "limit": 100, "hasMore": False}


@pytest.mark.parametrize(
    "params", [{"page": "0"}, {"limit": "0"}, {"limit": "1001"}, {"page": "x"}]
)
async def test_pages_out_of_range_are_refused(wire: Wire, params: dict[str, str]) -> None:
    """Pages count from 1 and have a largest size."""
    evaluation = await wire.evaluation()
    reply = await wire.get(f"/evaluations/{evaluation}/samples", params=params)
    assert reply.status == 422
    assert reply.json["detail"][0]["loc"] == ["query", next(iter(params))]


async def test_batches_are_ordered_by_index_however_they_arrive(wire: Wire) -> None:
    """The input order is restored from the ranges; pushes follow each other by first arrival."""
    evaluation = await wire.evaluation()
    samples = [{"i": index} for index in range(30)]
    await wire.push(evaluation, samples[20:30], "late", "20-30")
    await wire.push(evaluation, [{"other": 1}], "second", "0-1")
    await wire.push(evaluation, samples[0:10], "late", "0-10")
    await wire.push(evaluation, [{"plain": 1}])
    await wire.push(evaluation, samples[10:20], "late", "10-20")
    assert await wire.samples(evaluation, 7) == [*samples, {"other": 1}, {"plain": 1}]


async def test_plain_posts_append_in_the_order_they_come(wire: Wire) -> None:
    """Without headers every post is a push of its own: repeats append, as officially."""
    evaluation = await wire.evaluation()
    for number in (1, 2, 1):
        await wire.push(evaluation, [{"n": number}, {"n": -number}])
    expected = [{"n": 1}, {"n": -1}, {"n": 2}, {"n": -2}, {"n": 1}, {"n": -1}]
    assert await wire.samples(evaluation) == expected


async def test_a_repeated_range_is_left_alone(wire: Wire) -> None:
    """The same index of the same push is stored once, even when its text differs."""
    evaluation = await wire.evaluation()
    first = await wire.push(evaluation, [{"a": 1}, {"a": 2}], "p1")
    again = await wire.push(evaluation, [{"a": "other"}, {"a": "other"}], "p1")
    assert (first.json["stored"], first.json["duplicates"]) == (2, 0)
    assert again.json == {"stored": 0, "duplicates": 2, "refused": [], "total_samples": 2}
    assert await wire.samples(evaluation) == [{"a": 1}, {"a": 2}]


async def test_overlapping_ranges_fill_only_the_gaps(wire: Wire) -> None:
    """A re-cut push stores exactly what is missing, on both sides and in the middle."""
    evaluation = await wire.evaluation()
    samples = [{"i": index} for index in range(20)]
    await wire.push(evaluation, samples[3:6], "p1", "3-6")
    await wire.push(evaluation, samples[10:12], "p1", "10-12")
    reply = await wire.push(evaluation, samples[0:15], "p1", "0-15")
    assert (reply.json["stored"], reply.json["duplicates"]) == (10, 5)
    reply = await wire.push(evaluation, samples[5:20], "p1", "5-20")
    assert (reply.json["stored"], reply.json["duplicates"]) == (5, 10)
    assert await wire.samples(evaluation) == samples


async def test_any_cutting_and_repeating_ends_in_every_sample_once(wire: Wire) -> None:
    """Random overlapping requests, some sent twice: the result is always the input."""
    chance = random.Random(7)
    evaluation = await wire.evaluation()
    samples = [{"i": index, "t": "x" * (index % 11)} for index in range(400)]
    spans = [(start, min(400, start + chance.randint(1, 60))) for start in range(0, 400, 20)]
    spans += [(start, start + chance.randint(1, 100)) for start in chance.sample(range(300), 20)]
    spans += [(0, 400)]
    chance.shuffle(spans)
    stored = duplicates = 0
    for start, stop in spans + spans[:5]:
        reply = await wire.push(evaluation, samples[start:stop], "p1", f"{start}-{stop}")
        stored += reply.json["stored"]
        duplicates += reply.json["duplicates"]
    assert stored == 400
    assert stored + duplicates == sum(stop - start for start, stop in spans + spans[:5])
    assert await wire.samples(evaluation, 37) == samples


async def test_gaps_are_named_by_several_ranges_or_by_indexes(wire: Wire) -> None:
    """Both ways of leaving out refused samples give each sample its input index."""
    evaluation = await wire.evaluation()
    path = f"/evaluations/{evaluation}/samples"
    headers = {"X-Prime-Push": "p1", "X-Prime-Range": "0-2,5-6"}
    reply = await wire.post(path, {"samples": [{"i": 0}, {"i": 1}, {"i": 5}]}, headers=headers)
    assert reply.json["stored"] == 3
    headers = {**span(2, 9), "X-Prime-Indexes": "3,8"}
    reply = await wire.post(path, {"samples": [{"i": 3}, {"i": 8}]}, headers=headers)
    assert reply.json["stored"] == 2
    stored = (await wire.get(f"/evaluations/{evaluation}/pushes/p1")).json
    assert stored == {"push_id": "p1", "ranges": [[0, 2], [3, 4], [5, 6], [8, 9]], "stored": 5}
    assert [one["i"] for one in await wire.samples(evaluation)] == [0, 1, 3, 5, 8]


async def test_the_stored_ranges_of_a_push_are_told(wire: Wire) -> None:
    """Ranges that touch are joined; an unknown push is a 404 with its own code."""
    evaluation = await wire.evaluation()
    for start, stop in ((0, 4), (8, 10), (4, 6)):
        await wire.push(evaluation, [{}] * (stop - start), "p1", f"{start}-{stop}")
    stored = (await wire.get(f"/evaluations/{evaluation}/pushes/p1")).json
    assert stored == {"push_id": "p1", "ranges": [[0, 6], [8, 10]], "stored": 8}
    unknown = await wire.get(f"/evaluations/{evaluation}/pushes/p2")
    assert (unknown.status, unknown.code) == (404, "push_not_found")


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"X-Prime-Push": "p1"}, "X-Prime-Range"),
        ({"X-Prime-Range": "0-2"}, "X-Prime-Push"),
        ({"X-Prime-Push": "a b", "X-Prime-Range": "0-2"}, "X-Prime-Push"),
        ({"X-Prime-Push": "x" * 65, "X-Prime-Range": "0-2"}, "X-Prime-Push"),
        ({"X-Prime-Push": "p1", "X-Prime-Range": "2-0"}, "X-Prime-Range"),
        ({"X-Prime-Push": "p1", "X-Prime-Range": "-1-1"}, "X-Prime-Range"),
        ({"X-Prime-Push": "p1", "X-Prime-Range": "0-1,0-1"}, "X-Prime-Range"),
        ({"X-Prime-Push": "p1", "X-Prime-Range": "0-2,"}, "X-Prime-Range"),
        ({"X-Prime-Push": "p1", "X-Prime-Range": f"0-{2**53 + 2}"}, "X-Prime-Range"),
        ({"X-Prime-Push": "p1", "X-Prime-Range": "\u0660-\u0662"}, "X-Prime-Range"),
        ({**span(0, 9), "X-Prime-Indexes": "3,3"}, "X-Prime-Indexes"),
        ({**span(0, 9), "X-Prime-Indexes": "8,9"}, "X-Prime-Indexes"),
        ({**span(0, 9), "X-Prime-Indexes": ""}, "X-Prime-Indexes"),
        (span(0, 3), "samples"),
        ({**span(0, 9), "X-Prime-Indexes": "1"}, "samples"),
    ],
)
async def test_contradictory_push_headers_are_refused(
    wire: Wire, headers: dict[str, str], named: str
) -> None:
    """A request whose headers do not fit each other or the body stores nothing."""
    evaluation = await wire.evaluation()
    reply = await wire.post(
        f"/evaluations/{evaluation}/samples", {"samples": [{}, {}]}, headers=headers
    )
    assert reply.status == 422
    assert reply.json["detail"][0]["loc"][-1] == named
    assert await wire.samples(evaluation) == []


REFUSED = {
    "not an object": b"[1]",
    "text": b'"s"',
    "null": b"null",
    "not utf-8": b'{"a": "\xff"}',
    "no float holds it": b'{"a": 1e999}',
}


@pytest.mark.parametrize("sample", REFUSED.values(), ids=REFUSED.keys())
async def test_a_push_refuses_a_bad_sample_alone(wire: Wire, sample: bytes) -> None:
    """The others of its batch are stored; the refused one is named by its input index."""
    evaluation = await wire.evaluation()
    raw = b'{"samples": [{"i": 10}, ' + sample + b', {"i": 12}]}'
    reply = await wire.post(f"/evaluations/{evaluation}/samples", raw=raw, headers=span(10, 13))
    assert reply.status == 200
    assert (reply.json["stored"], reply.json["total_samples"]) == (2, 2)
    (refused,) = reply.json["refused"]
    assert (refused["index"], refused["status"]) == (11, 422)
    assert refused["message"]
    assert await wire.samples(evaluation) == [{"i": 10}, {"i": 12}]
    stored = (await wire.get(f"/evaluations/{evaluation}/pushes/p1")).json
    assert stored["ranges"] == [[10, 11], [12, 13]]


@pytest.mark.parametrize("sample", REFUSED.values(), ids=REFUSED.keys())
async def test_a_plain_post_is_stored_whole_or_not_at_all(wire: Wire, sample: bytes) -> None:
    """Official clients look at the status only, so one bad sample refuses the post and is named."""
    evaluation = await wire.evaluation()
    raw = b'{"samples": [{"i": 0}, ' + sample + b"]}"
    reply = await wire.post(f"/evaluations/{evaluation}/samples", raw=raw)
    assert reply.status == 422
    assert [entry["loc"] for entry in reply.json["detail"]] == [["body", "samples", 1]]
    assert await wire.samples(evaluation) == []


@pytest.mark.parametrize(
    "raw",
    [
        b'{"samples": [{"a": NaN}]}',
        b'{"samples": [{"a": -Infinity}]}',
        b'{"samples": [{"a": 1}',
        b'{"samples": [{"a": 1},]}',
        b'{"samples": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
        b"",
        b"\xff\xfe",
        b'{"samples": [{"a": "\\ud800"}]}',
        b'{"samples": []} trailing',
    ],
    ids=["nan", "infinity", "cut", "comma", "deep", "empty", "binary", "surrogate", "trailing"],
)
async def test_a_body_that_is_not_json_is_a_400(wire: Wire, raw: bytes) -> None:
    """Nothing of it is stored, and the server stays up."""
    evaluation = await wire.evaluation()
    for headers in ({}, span(0, 1)):
        reply: Reply = await wire.post(
            f"/evaluations/{evaluation}/samples", raw=raw, headers=headers
        )
        assert (reply.status, reply.code) == (400, "invalid_json")
    assert await wire.samples(evaluation) == []


@pytest.mark.parametrize("raw", [b"{}", b"[]", b'{"samples": {}}', b'{"samples": null}'])
async def test_a_body_without_a_list_of_samples_is_a_422(wire: Wire, raw: bytes) -> None:
    """JSON that is not ``{"samples": [...]}`` is told so."""
    evaluation = await wire.evaluation()
    reply = await wire.post(f"/evaluations/{evaluation}/samples", raw=raw)
    assert reply.status == 422
    assert reply.json["detail"][0]["loc"][0] == "body"


async def test_an_empty_push_is_nothing(wire: Wire) -> None:
    """A post without samples stores nothing and changes nothing."""
    evaluation = await wire.evaluation()
    reply = await wire.push(evaluation, [])
    assert reply.json == {"stored": 0, "duplicates": 0, "refused": [], "total_samples": 0}
    assert (await wire.get(f"/evaluations/{evaluation}")).json["status"] == "PENDING"


async def test_the_same_push_id_in_two_evaluations_is_two_pushes(wire: Wire) -> None:
    """A push belongs to its evaluation."""
    one, two = await wire.evaluation(), await wire.evaluation()
    await wire.push(one, [{"e": 1}], "p1")
    assert (await wire.push(two, [{"e": 2}], "p1")).json["stored"] == 1
    assert await wire.samples(two) == [{"e": 2}]


async def test_large_samples_are_stored_and_streamed(wire: Wire) -> None:
    """A page of several MiB arrives whole, with its length known beforehand."""
    evaluation = await wire.evaluation()
    samples = [{"i": index, "text": "é" * 300_000} for index in range(12)]
    for start in range(0, 12, 4):
        part = samples[start : start + 4]
        assert (await wire.push(evaluation, part, "p1", f"{start}-{start + 4}")).status == 200
    reply = await wire.get(f"/evaluations/{evaluation}/samples")
    assert int(reply.headers["Content-Length"]) == len(reply.body) > 7_000_000
    assert reply.json["samples"] == samples


async def test_pages_see_samples_that_came_after_an_earlier_read(wire: Wire) -> None:
    """What is remembered for fast paging never hides new samples, in front or behind."""
    evaluation = await wire.evaluation()
    await wire.push(evaluation, [{"i": 5}], "p1", "5-6")
    assert await wire.samples(evaluation) == [{"i": 5}]
    await wire.push(evaluation, [{"i": 2}], "p1", "2-3")
    assert await wire.samples(evaluation, 1) == [{"i": 2}, {"i": 5}]


async def test_stored_samples_are_counted(platform: RunningPlatform, wire: Wire) -> None:
    """``/metrics`` tells stored samples and duplicates apart."""
    evaluation = await wire.evaluation()
    await wire.push(evaluation, [{}, {}, {}], "p1")
    await wire.push(evaluation, [{}, {}], "p1")
    text = (await wire.get("//metrics")).body.decode()
    assert "prime_async_samples_stored_total 3.0" in text
    assert "prime_async_samples_duplicate_total 2.0" in text


async def test_a_page_that_fails_midway_is_cut_not_completed(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an answer must not look like a whole one: the connection ends before its length."""
    evaluation = await wire.evaluation()
    await wire.push(evaluation, [{"text": "x" * 700_000} for _ in range(6)])
    real, calls = pages.read_slices, 0

    def failing(connection: Connection, slices: list[pages.Slice]) -> bytes:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise RuntimeError("gone")
        return real(connection, slices)

    monkeypatch.setattr(pages, "read_slices", failing)
    with pytest.raises(aiohttp.ClientError):
        await wire.get(f"/evaluations/{evaluation}/samples")
    assert calls == 2
