"""A spool and its entries: made, rolled, limited, listed, carried away, deleted."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
import time
from pathlib import Path

import msgspec
import pytest

from prime_async._version import __version__
from prime_async.errors import PrimeError, SpoolError, UsageError
from prime_async.spool import FrameType, Meta, Ranges, SegmentReader, SourceInfo, Spool


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """A spool in a folder that does not exist yet."""
    return Spool(tmp_path / "prime" / "spool", segment_bytes=1000)


def test_makes_nothing_before_it_is_needed(spool: Spool) -> None:
    """Listing and measuring an empty spool leaves no trace."""
    assert spool.entries() == []
    assert spool.used_bytes() == 0
    assert not spool.root.parent.exists()


def test_modes(spool: Spool) -> None:
    """Folders are 0700, files 0600, whatever the umask."""
    before = os.umask(0)
    try:
        with spool.create("evals.push", "push_1") as writer:
            writer.data(0, b"{}")
    finally:
        os.umask(before)
    made = [spool.root.parent, *spool.root.parent.rglob("*")]
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in made}
    assert modes == {(True, 0o700), (False, 0o600)}


def test_meta_is_kept_and_filled_in(spool: Spool, tmp_path: Path) -> None:
    """What the owner says and what the spool knows stands in every segment, as JSON."""
    (tmp_path / "in.jsonl").write_text("{}\n")
    source = SourceInfo.of(tmp_path / "in.jsonl")
    meta = Meta(base_url="https://api.example", target={"evaluation_id": "e1"}, source=source)
    with spool.create("evals.push", "push_1", meta) as writer:
        for index in range(5):
            writer.data(index, bytes(700))
    segments = writer.entry.segments()
    assert [path.name for path in segments] == [f"000{n}.seg" for n in range(1, 6)]
    for number, path in enumerate(segments, 1):
        first = next(SegmentReader(path).frames())
        read = msgspec.json.decode(first.payload, type=Meta)
        assert first.type == FrameType.META
        assert (read.kind, read.id, read.segment) == ("evals.push", "push_1", number)
        assert (read.version, read.source) == (__version__, source)
        assert read.target == {"evaluation_id": "e1"}
        assert abs(read.created_at - time.time()) < 60


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://user:secret@api.example:8443/x?y=1", "https://api.example:8443/x?y=1"),
        ("https://secret@api.example", "https://api.example"),
        ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        (None, None),
    ],
)
def test_credentials_in_a_url_are_not_kept(
    spool: Spool, given: str | None, kept: str | None
) -> None:
    """No key goes to the disk, not even one that came inside of a URL."""
    with spool.create("k", "one", Meta(base_url=given)) as writer:
        writer.data(0, b"{}")
    state = spool.open("k", "one").state()
    assert state.meta is not None
    assert state.meta.base_url == kept
    assert all(b"secret" not in path.read_bytes() for path in writer.entry.segments())


def test_source_fingerprint(tmp_path: Path) -> None:
    """A file that was written to since, or replaced, is seen; a copy with its times kept is not."""
    path = tmp_path / "in.jsonl"
    path.write_text("{}\n")
    before = SourceInfo.of(path)
    assert (before.size, before.path) == (3, str(path))
    shutil.copy2(path, tmp_path / "copy.jsonl")
    assert before.same_content(SourceInfo.of(tmp_path / "copy.jsonl"))
    path.write_text("{}\n{}\n")
    assert not before.same_content(SourceInfo.of(path))
    with pytest.raises(FileNotFoundError):
        SourceInfo.of(tmp_path / "none")


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "a/b", "../up", "a\0", "ä", "x" * 101])
def test_names_stay_inside(spool: Spool, name: str) -> None:
    """Kind and id are names of folders, never paths."""
    with pytest.raises(UsageError, match="spool folder"):
        spool.create(name, "one")
    with pytest.raises(UsageError, match="spool folder"):
        spool.create("kind", name)
    with pytest.raises(UsageError, match="spool folder"):
        spool.open("kind", name)
    assert not spool.root.exists()


def test_create_twice(spool: Spool) -> None:
    """An id is used once; the first entry is not touched by the second attempt."""
    with spool.create("k", "one") as writer:
        writer.data(0, b"first")
        with pytest.raises(SpoolError, match="already a spool entry"):
            spool.create("k", "one")
    assert [record.payload for record in spool.open("k", "one").records()] == [b"first"]


def test_open_what_is_not_there(spool: Spool) -> None:
    """The error names the folder, and is one of the package."""
    with pytest.raises(PrimeError, match="there is no spool entry"):
        spool.open("k", "none")


def test_records_over_segments(spool: Spool) -> None:
    """Records come back in the order they were written, each once, or just those asked for."""
    with spool.create("k", "one") as writer:
        for index in (3, 1, 2, 1, 0):
            writer.data(index, b"%d" % index * 300)
        entry = writer.entry
        assert len(entry.segments()) > 1
        assert [record.index for record in entry.records()] == [3, 1, 2, 0]
        assert [r.index for r in entry.records(Ranges([(0, 2), (3, 4)]))] == [3, 1, 0]
        assert all(r.payload == b"%d" % r.index * 300 for r in entry.records())


def test_large_records_get_a_segment_of_their_own(spool: Spool) -> None:
    """A record above the size of a segment is kept whole."""
    with spool.create("k", "one") as writer:
        for index in range(3):
            writer.data(index, bytes(5000))
        assert len(writer.entry.segments()) == 3


def test_order_of_ten_thousand_segments(spool: Spool) -> None:
    """Segments are ordered by number, not by name."""
    writer = spool.create("k", "one")
    writer.close()
    writer.entry.segments()[0].rename(writer.entry.path / "9999.seg")
    with writer.entry.take_over() as again:
        again.data(0, b"{}")
    assert [path.name for path in writer.entry.segments()] == ["9999.seg", "10000.seg"]


def test_summary(spool: Spool) -> None:
    """A listing says how much is left of what, how old it is and who is at it."""
    with spool.create("evals.push", "push_1") as writer:
        for index in range(6):
            writer.data(index, b"{}")
        writer.cut(Ranges([(0, 4)]))
        writer.ack(Ranges([(0, 3)]))
        writer.refuse(5, "no")
        live = writer.entry.summary()
        assert live.holder is not None
        assert (live.holder.pid, live.holder.purpose) == (os.getpid(), "owner")
    summary = spool.entries()[0].summary()
    assert (summary.kind, summary.id, summary.path) == ("evals.push", "push_1", writer.entry.path)
    assert (summary.records, summary.undelivered) == (6, 2)
    assert summary.bytes == sum(path.stat().st_size for path in writer.entry.segments())
    assert summary.bytes == writer.bytes_written == spool.used_bytes()
    assert 0 <= summary.age < 60
    assert summary.holder is None
    assert not summary.damaged


def test_entries_by_kind(spool: Spool) -> None:
    """All entries, or those of a kind, sorted; strange names in the folder are not entries."""
    for kind, entry_id in (("b", "2"), ("a", "9"), ("b", "1")):
        spool.create(kind, entry_id).close()
    (spool.root / "b" / ".removed-3").mkdir()
    (spool.root / "notes.txt").write_text("mine")
    assert [(e.kind, e.id) for e in spool.entries()] == [("a", "9"), ("b", "1"), ("b", "2")]
    assert [e.id for e in spool.entries("b")] == ["1", "2"]
    assert spool.entries("c") == []


def test_full_spool_refuses_records_only(tmp_path: Path) -> None:
    """At the limit new records are refused, delivered ones can still be noted; room comes back."""
    spool = Spool(tmp_path, max_bytes=10_000)
    with spool.create("k", "one") as writer:
        for index in range(9):
            writer.data(index, bytes(1000))
        with pytest.raises(SpoolError, match="is full: its limit is 10000 bytes") as caught:
            writer.data(9, bytes(1000))
        assert caught.value.errno == errno.EDQUOT
        assert caught.value.hint is not None
        assert writer.state().present.total == 9
        writer.cut(Ranges([(0, 9)]))
        writer.ack(Ranges([(0, 9)]))
        writer.end(9)
        with spool.create("k", "two") as other, pytest.raises(SpoolError, match="is full"):
            other.data(0, bytes(1000))
        writer.remove()
    with spool.create("k", "three") as writer:
        writer.data(0, bytes(1000))
    assert spool.used_bytes() <= 10_000


def test_limit_counts_what_others_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that has used up its share sees what came in from elsewhere meanwhile."""
    from prime_async.spool import owner

    monkeypatch.setattr(owner, "_GRANT_BYTES", 2000)
    one, two = Spool(tmp_path, max_bytes=12_000), Spool(tmp_path, max_bytes=12_000)
    with one.create("k", "one") as first, two.create("k", "two") as second:

        def both() -> None:
            for index in range(100):
                first.data(index, bytes(900))
                second.data(index, bytes(900))

        with pytest.raises(SpoolError, match="is full"):
            both()
    # Each may be ahead by the share it took.
    assert 12_000 - 2 * 2000 <= one.used_bytes() <= 12_000 + 2 * 2000


def test_remove_only_when_everything_is_settled(spool: Spool) -> None:
    """Undelivered records, and a source that may have more, keep an entry on the disk."""
    writer = spool.create("k", "one")
    writer.data(0, b"{}")
    with pytest.raises(SpoolError, match="records 0 are not delivered"):
        writer.remove()
    writer.ack(Ranges([(0, 1)]))
    with pytest.raises(SpoolError, match="its source has not ended"):
        writer.remove()
    writer.end(1)
    writer.remove()
    assert spool.entries() == []
    assert list((spool.root / "k").iterdir()) == []
    writer.close()
    with pytest.raises(SpoolError, match="closed"):
        writer.data(1, b"{}")


def test_discard_is_the_word_for_deleting_anyway(spool: Spool) -> None:
    """Undelivered records go only when the caller says so, and never under a living owner."""
    with spool.create("k", "one") as writer:
        writer.data(0, b"{}")
        entry = spool.open("k", "one")
        with pytest.raises(SpoolError, match=rf"in use by process {os.getpid()} .*\(owner\)"):
            entry.remove(discard=True)
    with pytest.raises(SpoolError, match="not delivered"):
        entry.remove()
    entry.remove(discard=True)
    assert spool.entries() == []
    with pytest.raises(SpoolError):
        entry.remove()


def test_crash_in_a_removal(spool: Spool) -> None:
    """What a removal had renamed when it was killed is no entry and goes with the next create."""
    spool.create("k", "one").close()
    (spool.root / "k" / "one").rename(spool.root / "k" / ".removed-one")
    assert spool.entries() == []
    spool.create("k", "two").close()
    assert [path.name for path in (spool.root / "k").iterdir()] == ["two"]


def test_removal_over_the_rest_of_another(spool: Spool) -> None:
    """A removal that was cut off does not keep a later entry of the same name from going."""
    spool.create("k", "one").close()
    left = spool.root / "k" / ".removed-one"
    left.mkdir()
    (left / "0001.seg").write_bytes(b"")
    spool.open("k", "one").remove(discard=True)
    assert list((spool.root / "k").iterdir()) == []


def test_take_over_goes_on_in_a_new_segment(spool: Spool) -> None:
    """Who delivers the rest changes nothing of what is there, torn tail included."""
    with spool.create("k", "one") as writer:
        for index in range(3):
            writer.data(index, b"{}")
        writer.cut(Ranges([(0, 2)]), "sha256:x")
    first = writer.entry.segments()[0]
    with first.open("ab") as file:
        file.write(b"\xf5\xfa half a frame")
    before = first.read_bytes()
    with writer.entry.take_over() as again:
        assert len(again.entry.segments()) == 1
        state = again.state()
        assert (state.unknown.to_list(), state.undelivered.to_list()) == ([[0, 2]], [[0, 3]])
        assert state.torn == 15
        again.ack(Ranges([(0, 2)]))
        again.data(3, b"{}")
    assert first.read_bytes() == before
    assert writer.entry.state().undelivered.to_list() == [[2, 4]]


def test_prune_gives_room_back(tmp_path: Path) -> None:
    """An owner that keeps every record before it is sent can go on for ever under the limit."""
    spool = Spool(tmp_path, max_bytes=40_000, segment_bytes=4000)
    with spool.create("runs", "run_1") as writer:
        writer.refuse(0, "poison")
        for index in range(1, 500):
            writer.data(index, bytes(500))
            writer.cut(Ranges([(index, index + 1)]), f"sha256:{index}")
            if index % 20 == 0:
                writer.ack(Ranges([(index - 19, index + 1)]))
                assert writer.prune() > 0
        assert writer.entry.bytes < 20_000
        state = writer.entry.state()
        assert state == writer.state()
        assert state.acked.to_list() == [[1, 481]]
        assert state.undelivered.to_list() == [[481, 500]]
        assert [refusal.reason for refusal in state.refusals] == ["poison"]
        assert len(state.cuts) == 19
        writer.prune()
        assert writer.prune() == 0
        assert sorted(r.index for r in writer.entry.records(state.undelivered)) == [
            *range(481, 500)
        ]


def test_prune_keeps_what_lies_behind_an_open_record(spool: Spool) -> None:
    """Segments go oldest first: one undelivered record holds those that follow it."""
    with spool.create("k", "one") as writer:
        for index in range(6):
            writer.data(index, bytes(700))
        writer.ack(Ranges([(1, 6)]))
        assert writer.prune() == 0
        writer.ack(Ranges([(0, 1)]))
        assert writer.prune() > 3500
        assert writer.state().undelivered.to_list() == []


def test_lost_segment_is_reported(spool: Spool) -> None:
    """A gap in the numbers is damage: something was in there."""
    with spool.create("k", "one") as writer:
        for index in range(4):
            writer.data(index, bytes(700))
        writer.end(4)
    writer.entry.segments()[1].unlink()
    state = writer.entry.state()
    assert ["missing" in damage.reason for damage in state.damage] == [True]
    assert state.missing.to_list() == [[1, 2]]
    assert writer.entry.summary().damaged


def test_control_record_that_makes_no_sense_is_damage(spool: Spool) -> None:
    """An intact frame with a payload nobody can read is reported; the rest counts."""
    from prime_async.spool import SegmentWriter

    spool.create("k", "one").close()
    folder = spool.open("k", "one").path
    with SegmentWriter(folder / "0002.seg") as segment:
        segment.append(FrameType.ACK, b"\xc1 no msgpack")
        segment.append(FrameType.ACK, msgspec.msgpack.encode({"intervals": [[5, 2]]}))
        segment.append(FrameType.META, b"{")
        segment.append(FrameType.DATA, b"{}", index=3)
    state = spool.open("k", "one").state()
    assert [damage.path.name for damage in state.damage] == ["0002.seg"] * 3
    assert state.present.to_list() == [[3, 4]]


def test_threads_share_a_writer(tmp_path: Path) -> None:
    """Records from many threads, with syncs and closes of segments in between, all arrive."""
    spool = Spool(tmp_path, segment_bytes=20_000)
    failures: list[BaseException] = []
    with spool.create("k", "one") as writer:
        done = threading.Event()

        def log(thread: int) -> None:
            try:
                for index in range(thread * 300, thread * 300 + 300):
                    writer.data(index, b"%d" % index * 30)
            except BaseException as error:
                failures.append(error)

        def sync() -> None:
            try:
                while not done.is_set():
                    writer.sync()
            except BaseException as error:
                failures.append(error)

        syncing = threading.Thread(target=sync)
        logging = [threading.Thread(target=log, args=(number,)) for number in range(6)]
        for thread in (syncing, *logging):
            thread.start()
        for thread in logging:
            thread.join()
        done.set()
        syncing.join()
        assert failures == []
        assert writer.entry.state() == writer.state()
    read = {record.index: record.payload for record in writer.entry.records()}
    assert read == {index: b"%d" % index * 30 for index in range(1800)}


def test_closing_syncs_unless_all_is_delivered(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stays behind undelivered is safe from a power cut when close returns."""
    from prime_async.spool import writer as module

    synced: list[int] = []
    monkeypatch.setattr(module, "_fdatasync", synced.append)
    with spool.create("k", "one") as writer:
        writer.data(0, b"{}")
    assert len(synced) == 1
    with writer.entry.take_over() as again:
        again.ack(Ranges([(0, 1)]))
        again.end(1)
    assert len(synced) == 1


def test_error_while_closing_still_lets_go(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails at the end does not keep the entry locked."""
    from prime_async.spool import writer as module

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    writer = spool.create("k", "one")
    writer.data(0, b"{}")
    with monkeypatch.context() as patch:
        patch.setattr(module, "_fdatasync", fail)
        with pytest.raises(SpoolError, match="Input/output"):
            writer.close()
    with writer.entry.take_over() as again:
        assert again.state().present.total == 1


@pytest.mark.parametrize("as_file", [False, True])
def test_FR44_entry_from_another_machine(spool: Spool, tmp_path: Path, as_file: bool) -> None:
    """A folder or one file carried away is taken in elsewhere, once, and the original stays."""
    with spool.create("evals.push", "push_1", Meta(target={"evaluation_id": "e"})) as writer:
        for index in range(5):
            writer.data(index, b"%d" % index)
    carried = tmp_path / "usb" / ("records.bin" if as_file else "anything")
    carried.parent.mkdir()
    if as_file:
        shutil.copyfile(writer.entry.segments()[0], carried)
    else:
        shutil.copytree(writer.entry.path, carried)
    elsewhere = Spool(tmp_path / "elsewhere")
    entry = elsewhere.adopt(carried)
    assert (entry.kind, entry.id) == ("evals.push", "push_1")
    assert [record.payload for record in entry.records()] == [b"0", b"1", b"2", b"3", b"4"]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in entry.path.iterdir()}
    assert modes == {0o600}
    with entry.take_over() as again:
        again.ack(Ranges([(0, 3)]))
    assert elsewhere.adopt(carried).state().undelivered.to_list() == [[3, 5]]
    assert carried.exists()


def test_adopt_refuses_what_it_cannot_place(spool: Spool, tmp_path: Path) -> None:
    """No segments, no meta, a name that leads outside, no room: errors, and nothing is made."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("hello, I am no segment at all")
    for path in (tmp_path / "empty", tmp_path / "text"):
        with pytest.raises(SpoolError, match="no spool segment"):
            spool.adopt(path)
    with pytest.raises(SpoolError, match="cannot read"):
        spool.adopt(tmp_path / "none")
    from prime_async.spool import SegmentWriter

    with SegmentWriter(tmp_path / "evil.seg") as segment:
        segment.append(FrameType.META, msgspec.json.encode(Meta(kind="..", id="..")))
    with pytest.raises(UsageError, match="spool folder"):
        spool.adopt(tmp_path / "evil.seg")
    with SegmentWriter(tmp_path / "good.seg") as segment:
        segment.append(FrameType.META, msgspec.json.encode(Meta(kind="k", id="one")))
        segment.append(FrameType.DATA, bytes(1000))
    small = Spool(tmp_path / "small", max_bytes=500)
    with pytest.raises(SpoolError, match="is full"):
        small.adopt(tmp_path / "good.seg")
    assert not spool.root.exists()
    assert not small.root.exists()
    assert spool.adopt(tmp_path / "good.seg").id == "one"
