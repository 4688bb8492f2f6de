"""Search: exactly what is in the messages, with places that count code points."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_async.server.traces.matching import Query
from prime_async.server.traces.texts import (
    FIELDS,
    LONGEST_QUERY,
    PIECE_CHARACTERS,
    pieces_of,
    texts_of,
)
from tests.platform import RunningPlatform, running_platform
from tests.server.clocks import FakeClock
from tests.server.traces.uploads import NOW, episode, store, trace
from tests.server.wire import Wire


def said(trace_id: str, *contents: Any, **fields: Any) -> dict[str, Any]:
    """A trace of messages with such contents."""
    nodes = [{"message": {"role": "user", "content": content}} for content in contents]
    return trace(trace_id, nodes=nodes, **fields)


async def find(wire: Wire, query: str, run: str = "run-1", **params: Any) -> list[tuple[str, int]]:
    """All matches, page by page, as (trace, message)."""
    found: list[tuple[str, int]] = []
    asked = {"query": query, **params}
    while True:
        reply = await wire.get(f"/runs/{run}/search", params=asked)
        assert reply.status == 200, reply
        found += [(item["trace_id"], item["node_idx"]) for item in reply.json["items"]]
        if reply.json["next_cursor"] is None:
            return found
        asked["cursor"] = reply.json["next_cursor"]


async def indexed(platform: RunningPlatform) -> None:
    """Wait until everything is in the index."""
    import asyncio

    while platform.parts.database.point(
        lambda reader: reader.exec_driver_sql(
            "SELECT count(*) FROM traces WHERE NOT searchable"
        ).scalar_one()
    ):
        await asyncio.sleep(0.01)


async def test_a_match_says_where_it_is(wire: Wire) -> None:
    """Places in code points; an excerpt around; coverage on the first page only."""
    text = "é" * 100 + "the needle" + "𝄞" * 100
    upload = await store(wire, episode("e1", [said("t1", "no", text)]), episodes=True)
    reply = await wire.get("/runs/run-1/search", params={"query": "needle"})
    assert reply.json == {
        "items": [
            {
                "trace_id": "t1",
                "upload_id": upload,
                "generation": 1,
                "episode_id": "e1",
                "node_idx": 1,
                "role": "user",
                "field": "content",
                "representation": "text",
                "match_start": 104,
                "match_end": 110,
                "excerpt": "é" * 60 + "the needle" + "𝄞" * 64,
                "excerpt_start": 40,
            }
        ],
        "next_cursor": None,
        "coverage": {"examined_traces": 1, "unindexed_trace_ids": [], "partial_index": False},
    }


async def test_fields_are_searched_apart(wire: Wire) -> None:
    """Text decoded; structured content and tool calls as the JSON that was recorded."""
    await store(wire, trace("t1"))

    async def one(query: str, field: str) -> Any:
        params = {"query": query, "field": field}
        items = (await wire.get("/runs/run-1/search", params=params)).json["items"]
        return [(item["node_idx"], item["representation"], item["match_start"]) for item in items]

    assert await one("four", "content") == [(2, "json", 24)]
    assert await one('{"type":"text"', "content") == [(2, "json", 1)]
    assert await one("easy", "reasoning_content") == [(1, "text", 10)]
    assert await one("easy", "content") == []
    assert await one('"name":"calc"', "tool_calls") == [(1, "json", 11)]
    assert await one('{\\"a\\": 2}', "tool_calls") == [(1, "json", 38)]


async def test_case_spelling_and_escapes(wire: Wire) -> None:
    """A text is found however JSON spells it, and only as it is written."""
    await store(wire, said("t1", 'Line one\n"quoted" a/b back\\slash Grüße'))
    escaped = json.dumps(said("t2", 'Line one\n"quoted" a/b Grüße')).replace("/", "\\/")
    from tests.server.traces.uploads import send

    assert (await send(wire, escaped.encode() + b"\n")).status == 201
    both = {("t1", 0), ("t2", 0)}
    for query in ('one\n"q', '"quoted"', "a/b", "Grüße", "Line"):
        assert set(await find(wire, query)) == both, query
    assert await find(wire, "back\\slash") == [("t1", 0)]
    for query in ("line one", "grüße", "LINE", "needle", "\\n"):
        assert await find(wire, query + "  "[: max(0, 3 - len(query))]) == [], query


async def test_filters_and_pages(wire: Wire) -> None:
    """By role, step, error, reward; every match once, the first of each message."""
    messages = ["word word", "nothing", "a word"]
    await store(
        wire,
        *(
            said(f"t{n}", *messages, timing={"start": NOW - n}, ok=n != 2, run=run_of(n))
            for n in range(5)
        ),
        said("other", "word", run={"id": "run-2"}),
        said("bare", "word", run=None),
    )
    expected = [(f"t{n}", node) for n in range(5) for node in (0, 2)]
    assert await find(wire, "word") == expected
    for limit in (1, 3, 10):
        assert await find(wire, "word", limit=limit) == expected
    assert await find(wire, "word", role="tool") == []
    assert await find(wire, "word", run_step=0) == expected[:2]
    assert await find(wire, "word", has_error="true") == expected[4:6]
    assert await find(wire, "word", reward_min=2) == []
    assert await find(wire, "word", run="run-2") == [("other", 0)]
    assert await find(wire, "word", run="nobody") == []


def run_of(step: int) -> Mapping[str, Any]:
    """The run of the tests, at a step."""
    return {"id": "run-1", "work": {"step": step}}


async def test_a_page_reads_a_bounded_number_of_bytes(tmp_path: Path, clock: FakeClock) -> None:
    """Where nothing matches for long, a page is empty and still goes on."""
    async with (
        running_platform(tmp_path, clock=clock, limits={"trace_search_bytes": 2000}) as platform,
        Wire(platform.url) as wire,
    ):
        # The index says that the query may be in them, all of its parts are.
        haystack = (said(f"t{n:02}", "needl eedle" * 80) for n in range(12))
        await store(wire, *haystack, said("a-needle", "needle"))
        reply = await wire.get("/runs/run-1/search", params={"query": "needle"})
        assert (reply.json["items"], reply.json["next_cursor"] is None) == ([], False)
        assert await find(wire, "needle") == [("a-needle", 0)]
        await indexed(platform)
        assert await find(wire, "needle") == [("a-needle", 0)]


async def test_a_cursor_survives_a_replaced_trace(wire: Wire) -> None:
    """The next page goes on behind the message, in the newest copy."""
    await store(wire, said("t1", "word", "word", "word"))
    params = {"query": "word", "limit": 1}
    first = (await wire.get("/runs/run-1/search", params=params)).json
    await store(wire, said("t1", "word", "gone", "word", text="new"))
    params["cursor"] = first["next_cursor"]
    second = (await wire.get("/runs/run-1/search", params=params)).json
    assert [(item["node_idx"], item["generation"]) for item in second["items"]] == [(2, 2)]
    assert second["coverage"] is None


async def test_queries_have_a_length(wire: Wire) -> None:
    """3 to 256 characters; the rest is refused, and so are unknown fields."""
    for params in (
        {"query": "ab"},
        {"query": "a" * 257},
        {},
        {"query": "abc", "field": "role"},
        {"query": "abc", "limit": 101},
    ):
        reply = await wire.get("/runs/run-1/search", params=params)
        assert (reply.status, reply.code) == (400, "invalid_filter"), params
    assert await find(wire, "a" * 256) == []


async def test_the_index_finds_what_reading_finds(wire: Wire, platform: RunningPlatform) -> None:
    """Indexed or not, the matches are the same; the index leaves out what cannot match."""
    contents = [
        "abcdef",
        "q\"u'o*te AND OR NOT",
        "nul\0in the middle",
        "日本語のテキスト",
        "x" * 70_000 + "end",
    ]
    await store(wire, *(said(f"t{n}", content) for n, content in enumerate(contents)))
    queries = [
        "abc",
        "cde",
        "bcd ",
        "\"u'",
        " AND ",
        "NOT",
        "nul\0in",
        "middle",
        "本語の",
        "xend",
        "zzz",
    ]
    before = [await find(wire, query) for query in queries]
    await indexed(platform)
    assert [await find(wire, query) for query in queries] == before
    assert [len(found) for found in before] == [1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0]
    # Replaced and deleted traces are not found through what the index still says of them.
    await store(wire, said("t0", "other words"))
    await wire.delete("/traces/t1")
    await indexed(platform)
    assert await find(wire, "abc") == []
    assert await find(wire, "NOT") == []
    assert await find(wire, "other") == [("t0", 0)]


WORDS = st.text(alphabet='ab"\\/\n\u00e9\U0001d11e', min_size=3, max_size=6)
CONTENT = st.text(alphabet='ab"\\/\n\u00e9\U0001d11e', max_size=40) | st.lists(
    st.fixed_dictionaries({"text": st.text(alphabet='ab"\u00e9', max_size=9)}), max_size=2
)


@settings(max_examples=200, deadline=None)
@given(st.lists(CONTENT, max_size=4), WORDS, st.booleans())
def test_matches_are_those_of_a_plain_search(
    contents: list[Any], query: str, ascii_only: bool
) -> None:
    """Against Python's own ``find``, for any content and however it is escaped."""
    text = json.dumps(said("t", *contents), ensure_ascii=ascii_only)
    expected = []
    for index, content in enumerate(contents):
        plain = (
            content if isinstance(content, str) else json.dumps(content, ensure_ascii=ascii_only)
        )
        start = plain.find(query)
        if start >= 0:
            expected.append((index, start, start + len(query)))
            assert plain[start : start + len(query)] == query
    found = [(m.node, m.start, m.end) for m in Query(query, "content").matches(text.encode())]
    assert found == expected


@pytest.mark.parametrize("size", [0, 1, PIECE_CHARACTERS, PIECE_CHARACTERS * 3 + 17])
def test_any_query_is_whole_in_a_piece(size: int) -> None:
    """Pieces that are indexed overlap by the longest query."""
    content = "".join(chr(0x4E00 + n % 20_000) for n in range(size))
    pieces = list(pieces_of(texts_of(json.dumps(said("t", content, "short")).encode(), FIELDS)))
    assert max(map(len, pieces)) <= PIECE_CHARACTERS + LONGEST_QUERY
    for start in range(0, size, 1000):
        query = content[start : start + LONGEST_QUERY]
        assert any(query in piece for piece in pieces)
