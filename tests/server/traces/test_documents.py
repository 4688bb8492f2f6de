"""Documents over HTTP: heads, ranges, tags, names; pages of messages that are large."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_async.errors import LocalPlatformError
from prime_async.server.serve import PlatformServer
from tests.platform import RunningPlatform, platform_config
from tests.server.traces.uploads import lines, send, store, trace
from tests.server.wire import Wire

RAW = "/traces/t1?raw=true"


async def test_a_head_has_everything_but_the_body(wire: Wire) -> None:
    """Of the document as of the summary; nothing is left over on the connection."""
    await store(wire, trace("t1"))
    for path in (RAW, "/traces/t1"):
        whole = await wire.get(path)
        head = await wire.send("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        for name in ("Content-Length", "Content-Type", "ETag", "Content-Disposition"):
            assert head.headers.get(name) == whole.headers.get(name)
    assert (await wire.send("HEAD", "/traces/t2?raw=true")).status == 404
    assert (await wire.get("/traces/t1")).status == 200


async def test_parts_of_a_document(wire: Wire) -> None:
    """One range of bytes, as RFC 9110 has it; what is no such range gets the whole."""
    await store(wire, trace("t0"), trace("t1"))
    whole = (await wire.get(RAW)).body
    size = len(whole)
    for asked, part in (
        ("bytes=0-9", (0, 10)),
        ("bytes=5-", (5, size)),
        ("bytes=-7", (size - 7, size)),
        (f"bytes=10-{size + 99}", (10, size)),
    ):
        reply = await wire.get(RAW, headers={"Range": asked})
        assert (reply.status, reply.body) == (206, whole[slice(*part)]), asked
        assert reply.headers["Content-Range"] == f"bytes {part[0]}-{part[1] - 1}/{size}"
    for asked in ("bytes=0-1,5-6", "lines=1-2", "bytes=x"):
        assert (await wire.get(RAW, headers={"Range": asked})).body == whole
    beyond = await wire.get(RAW, headers={"Range": f"bytes={size}-"})
    assert (beyond.status, beyond.headers["Content-Range"]) == (416, f"bytes */{size}")
    assert beyond.code == "range_not_satisfiable"


async def test_a_tag_names_the_bytes(wire: Wire) -> None:
    """304 for who has them; another copy has another tag, and a range of it is not mixed up."""
    await store(wire, trace("t1"))
    tag = (await wire.get(RAW)).headers["ETag"]
    for told in (tag, "*", f'"other", {tag}'):
        known = await wire.get(RAW, headers={"If-None-Match": told})
        assert (known.status, known.body, known.headers["ETag"]) == (304, b"", tag)
    part = {"Range": "bytes=0-3", "If-Range": tag}
    assert (await wire.get(RAW, headers=part)).status == 206
    await store(wire, trace("t1", ok=False))
    again = await wire.get(RAW, headers={"If-None-Match": tag})
    assert (again.status, again.headers["ETag"] != tag) == (200, True)
    assert (await wire.get(RAW, headers=part)).body == again.body


async def test_the_name_of_a_download(wire: Wire) -> None:
    """Whatever an id has in it stays one file name."""
    odd = 'a/b"; é\n..'
    await store(wire, trace(odd))
    found = await wire.get("/traces/a%2Fb%22%3B%20%C3%A9%0A..?raw=true")
    disposition = found.headers["Content-Disposition"]
    assert disposition == "attachment; filename*=UTF-8''a%2Fb%22%3B%20%C3%A9%0A...json"


async def test_a_page_of_messages_ends_early_when_they_are_large(wire: Wire) -> None:
    """And goes on where it ended; each message once."""
    nodes = [{"message": {"role": "user", "content": f"{n}" * 1_500_000}} for n in range(5)]
    await send(wire, lines(trace("t1", nodes=nodes)))
    seen: list[int] = []
    sizes: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        more = {"cursor": cursor} if cursor else {}
        page = (await wire.get("/traces/t1/nodes", params={"limit": "100", **more})).json
        seen += [node["node_idx"] for node in page["items"]]
        sizes.append(len(page["items"]))
        cursor = page["next_cursor"]
    assert seen == list(range(5))
    assert sizes == [3, 2]


async def test_a_folder_belongs_to_one_platform(platform: RunningPlatform, tmp_path: Path) -> None:
    """A second one is refused before it touches anything; the first one's drafts stay."""
    draft = platform.config.traces_dir / "incoming" / "draft"
    draft.write_bytes(b"half")
    second = platform_config(tmp_path)
    with pytest.raises(LocalPlatformError, match="another platform uses the folder"):
        await PlatformServer(second).start()
    assert draft.read_bytes() == b"half"
    async with Wire(platform.url) as wire:
        assert (await wire.get("//healthz")).status == 200
