"""Reading and replaying take memory for what is in hand, not for what is on the disk."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_async.spool import EntryWriter, Ranges, Spool, batches

_MIB = 1 << 20
_RECORDS = 2000
_PAYLOAD = b"x" * 32_768


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[EntryWriter]:
    """The owner of 64 MiB of records, half of them cut into batches of 16."""
    with Spool(tmp_path, segment_bytes=24 * _MIB).create("k", "one") as made:
        for index in range(_RECORDS):
            made.data(index, _PAYLOAD)
            if index % 32 == 15:
                made.cut(Ranges([(index - 15, index + 1)]), f"sha256:{index}")
        yield made


@pytest.fixture
def traced(writer: EntryWriter) -> Iterator[EntryWriter]:
    """Counts allocations from here on."""
    tracemalloc.start()
    yield writer
    tracemalloc.stop()


def _used() -> int:
    return tracemalloc.get_traced_memory()[1]


def test_reading(traced: EntryWriter) -> None:
    """64 MiB of records go by in 2 MiB of memory."""
    assert sum(len(record.payload) for record in traced.entry.records()) == _RECORDS * 32_768
    assert _used() < 2 * _MIB


@pytest.mark.parametrize("verify", [False, True])
def test_folding(traced: EntryWriter, verify: bool) -> None:
    """So does finding out what is delivered."""
    assert traced.entry.state(verify=verify).present.total == _RECORDS
    assert _used() < 2 * _MIB


def test_replaying(traced: EntryWriter) -> None:
    """A replay holds the batches in hand: here two of 512 KiB, and what it is given back."""
    seen = 0
    for batch in batches(traced.entry, traced.state(), max_bytes=512 * 1024):
        seen += len(batch.records)
    assert seen == _RECORDS
    assert _used() < 4 * _MIB


def test_searching_behind_damage(traced: EntryWriter) -> None:
    """A damaged header is got over in windows, not by loading the file."""
    path = traced.entry.segments()[0]
    with path.open("r+b") as file:
        file.seek(5 * _MIB)
        file.write(bytes(8 * _MIB))
    tracemalloc.reset_peak()
    state = traced.entry.state()
    assert ["checksum" in damage.reason for damage in state.damage] == [True, False]
    assert 200 < _RECORDS - state.present.total < 300
    assert _used() < 6 * _MIB


def test_writing(tmp_path: Path) -> None:
    """A writer keeps nothing of what it wrote but ranges."""
    with Spool(tmp_path).create("k", "one") as writer:
        writer.data(0, _PAYLOAD)
        tracemalloc.start()
        try:
            for index in range(1, 500):
                writer.data(index, _PAYLOAD)
            assert _used() < 128 * 1024
        finally:
            tracemalloc.stop()


def test_payload_is_not_copied(tmp_path: Path) -> None:
    """A large record goes to the disk from where it is, without a second copy in memory."""
    payload = b"x" * (16 * _MIB)
    with Spool(tmp_path).create("k", "one") as writer:
        tracemalloc.start()
        try:
            writer.data(0, payload)
            assert _used() < _MIB
        finally:
            tracemalloc.stop()
