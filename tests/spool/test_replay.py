"""What is left of an entry comes in batches that can be sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prime_async.spool import EntryWriter, Ranges, Spool, SpoolBatch, batches


@pytest.fixture
def writer(tmp_path: Path) -> EntryWriter:
    """The owner of an entry with twenty records of ten bytes."""
    made = Spool(tmp_path, segment_bytes=300).create("k", "one")
    for index in range(20):
        made.data(index, b"%010d" % index)
    return made


def _left(writer: EntryWriter, max_bytes: int = 1000) -> list[SpoolBatch]:
    with writer:
        found = list(batches(writer.entry, writer.state(), max_bytes=max_bytes))
    for batch in found:
        assert all(record.payload == b"%010d" % record.index for record in batch.records)
    return found


def _shape(found: list[SpoolBatch]) -> list[tuple[list[list[int]], str | None]]:
    return [(b.ranges.to_list(), b.cut.digest if b.cut else None) for b in found]


def test_uncut_records_fill_batches(writer: EntryWriter) -> None:
    """Records outside of any cut come in order, up to the size asked for."""
    assert _shape(_left(writer, 70)) == [([[0, 7]], None), ([[7, 14]], None), ([[14, 20]], None)]


def test_number_of_records_is_a_limit_too(writer: EntryWriter) -> None:
    """Batches end at the number of records asked for."""
    with writer:
        found = list(batches(writer.entry, writer.state(), max_bytes=1000, max_records=8))
    assert [len(batch.records) for batch in found] == [8, 8, 4]


def test_a_record_above_the_limit_goes_alone(writer: EntryWriter) -> None:
    """A limit below the size of a record gives one record at a time."""
    assert [len(batch.records) for batch in _left(writer, 5)] == [1] * 20


def test_cut_batches_come_as_they_were_cut(writer: EntryWriter) -> None:
    """A batch that may have arrived is sent again with the same borders; settled ones are not."""
    writer.cut(Ranges([(0, 4)]), "sha256:a")
    writer.cut(Ranges([(4, 8), (10, 12)]), "sha256:b")
    writer.cut(Ranges([(12, 16)]), "sha256:c")
    writer.ack(Ranges([(0, 4)]))
    assert _shape(_left(writer)) == [
        ([[4, 8], [10, 12]], "sha256:b"),
        ([[12, 16]], "sha256:c"),
        ([[8, 10], [16, 20]], None),
    ]


def test_rest_of_a_range_cut(writer: EntryWriter) -> None:
    """Where the key is the range, the part that did not arrive is sent under its cut."""
    writer.cut(Ranges([(0, 20)]))
    writer.ack(Ranges([(0, 5)]))
    writer.refuse(7, "no")
    (batch,) = _left(writer)
    assert batch.ranges.to_list() == [[5, 7], [8, 20]]
    assert batch.cut is not None


def test_spoilt_digest(writer: EntryWriter) -> None:
    """A batch keyed by content that lost a record is cut anew: its digest can not come again."""
    writer.cut(Ranges([(0, 20)]), "sha256:a")
    writer.refuse(7, "no")
    assert _shape(_left(writer)) == [([[0, 7], [8, 20]], None)]


def test_batches_interleaved_on_the_disk(tmp_path: Path) -> None:
    """Records of several batches written at the same time find their batch."""
    writer = Spool(tmp_path).create("k", "one")
    writer.cut(Ranges([(0, 10)]))
    writer.cut(Ranges([(10, 20)]))
    for index in range(10):
        writer.data(19 - index, b"%010d" % (19 - index))
        writer.data(index, b"%010d" % index)
    found = _left(writer)
    assert _shape(found) == [([[10, 20]], None), ([[0, 10]], None)]
    assert all(batch.cut for batch in found)
    assert [r.index for r in found[0].records] == list(range(10, 20))


def test_damaged_record_frees_the_others(writer: EntryWriter) -> None:
    """Of a cut batch with a damaged record the others come uncut; it stays undelivered."""
    writer.cut(Ranges([(0, 20)]), "sha256:a")
    writer.end(20)
    state = writer.state()
    path = writer.entry.segments()[0]
    broken = path.read_bytes().replace(b"0000000001", b"0000000009")
    path.write_bytes(broken)
    assert _shape(list(batches(writer.entry, state, max_bytes=1000))) == [([[0, 1], [2, 20]], None)]
    fresh = writer.entry.state()
    assert fresh.missing.to_list() == [[1, 2]]
    assert len(fresh.damage) == 1
    writer.close()


def test_records_that_are_not_here_are_not_waited_for(tmp_path: Path) -> None:
    """Cuts of a source that can be read again have no records; they stay unknown."""
    writer = Spool(tmp_path).create("k", "one")
    writer.cut(Ranges([(0, 10)]))
    writer.data(3, b"0000000003")
    assert _shape(_left(writer)) == [([[3, 4]], None)]


def test_written_twice_sent_once(writer: EntryWriter) -> None:
    """A record that was kept twice is in one batch."""
    writer.data(3, b"0000000003")
    assert sum(len(batch.records) for batch in _left(writer)) == 20


_index = st.integers(0, 29)
_ranges = st.tuples(_index, st.integers(1, 8)).map(lambda p: Ranges([(p[0], p[0] + p[1])]))


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.permutations(range(30)),
    st.lists(_ranges, max_size=6),
    st.lists(_ranges, max_size=4),
    st.lists(_index, max_size=3),
    st.integers(1, 100),
)
def test_everything_left_comes_exactly_once(
    tmp_path_factory: pytest.TempPathFactory,
    order: list[int],
    cuts: list[Ranges],
    acks: list[Ranges],
    refused: list[int],
    max_bytes: int,
) -> None:
    """Whatever was cut, delivered and refused: the batches are what is undelivered, once each."""
    spool = Spool(tmp_path_factory.mktemp("spool"), segment_bytes=400)
    with spool.create("k", "one") as writer:
        for index in order:
            writer.data(index, b"%010d" % index)
        for number, cut in enumerate(cuts):
            writer.cut(cut, f"sha256:{number}" if number % 2 else None)
        for ack in acks:
            writer.ack(ack)
        for index in refused:
            writer.refuse(index, "no")
        state = writer.state()
        found = list(batches(writer.entry, state, max_bytes=max_bytes))
    sent = [record.index for batch in found for record in batch.records]
    assert sorted(sent) == list((state.undelivered & state.present).indexes())
    for batch in found:
        if batch.cut is not None and batch.cut.digest is not None:
            assert batch.ranges == batch.cut.ranges
