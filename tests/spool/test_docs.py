"""docs/spool.md: its examples run, and a reader written from it alone understands a segment."""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec

from prime_async.ids import new_id
from prime_async.spool import FrameType, Ranges, Spool

_TEXT = (Path(__file__).parents[2] / "docs" / "spool.md").read_text(encoding="utf-8")


def test_examples_run(home: Path) -> None:
    """The examples do what they say, in the user's own spool."""
    first, second = re.findall(r"```python\n(.*?)```", _TEXT, re.DOTALL)
    names: dict[str, Any] = {"push_id": new_id("push"), "url": "https://api.example", "id": "e1"}
    exec(first, names)
    spool = Spool(home / ".prime" / "spool")
    assert spool.root == names["spool"].root
    assert spool.entries() == []
    with spool.create("evals.push", names["push_id"]) as writer:
        writer.data(0, b"{}")
    sent = second.replace("...  # send; ", "")
    assert sent != second
    exec(sent, names)
    assert not writer.entry.state().undelivered


def _read(raw: bytes) -> list[tuple[int, int, bytes]]:
    """Read a segment as the tables of the page describe it, with nothing of ours."""
    magic, version, check = struct.unpack("<8sII", raw[:16])
    assert (magic, version, check) == (b"PRIMESPL", 1, zlib.crc32(raw[:12]))
    found, at = [], 16
    while at < len(raw):
        marker, kind, zero, length, index, body, head = struct.unpack(
            "<2sBBIQII", raw[at : at + 24]
        )
        payload = raw[at + 24 : at + 24 + length]
        assert (marker, zero) == (b"\xf5\xfa", 0)
        assert (body, head) == (zlib.crc32(payload), zlib.crc32(raw[at : at + 20]))
        found.append((kind, index, payload))
        at += 24 + length
    return found


def test_the_description_is_complete(tmp_path: Path) -> None:
    """Every type of frame is listed under its number and holds the fields the page names."""
    spool = Spool(tmp_path, segment_bytes=400)
    with spool.create("k", "one") as writer:
        writer.data(0, bytes(500))
        writer.cut(Ranges([(0, 2)]), "sha256:x")
        writer.release(Ranges([(1, 2)]))
        writer.refuse(1, "no", path="a.b", status=422)
        writer.ack(Ranges([(0, 1)]), "receipt")
        seen = [frame for path in writer.entry.segments() for frame in _read(path.read_bytes())]
        writer.prune()
        writer.end(2)
        for path in writer.entry.segments():
            seen += _read(path.read_bytes())
    rows = {int(n): (name, text) for n, name, text in _rows()}
    assert {number: name for number, (name, _) in rows.items()} == {
        kind.value: kind.name.lower() for kind in FrameType
    }
    assert {kind for kind, _, _ in seen} == set(rows)
    for kind, index, payload in seen:
        if kind == FrameType.DATA:
            assert (index, payload) == (0, bytes(500))
            continue
        fields = json.loads(payload) if kind == FrameType.META else msgspec.msgpack.decode(payload)
        assert all(f"`{field}`" in rows[kind][1] for field in fields), (kind, fields)
        assert index == (1 if kind == FrameType.REFUSE else 0)


def _rows() -> list[tuple[str, str, str]]:
    return re.findall(r"^\| (\d) \| `(\w+)` \| (.*) \|$", _TEXT, re.MULTILINE)
