"""One segment file: written, cut off, damaged, read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prime_async.errors import SpoolError, UsageError
from prime_async.spool import Frame, FrameType, SegmentReader, SegmentWriter, frames

_payloads = st.one_of(
    st.binary(max_size=300),
    # Payloads made of the format's own bytes must not be taken for frames.
    st.lists(st.sampled_from([frames.MARKER, b"\x00", b"\xf5", b"PRIMESPL"]), max_size=60).map(
        b"".join
    ),
)
_frames = st.tuples(
    st.sampled_from([FrameType.DATA, FrameType.META, FrameType.ACK]),
    st.integers(0, (1 << 64) - 1),
    _payloads,
)
_own_folder = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60
)


def _write(path: Path, wanted: list[tuple[FrameType, int, bytes]]) -> list[int]:
    path.unlink(missing_ok=True)
    with SegmentWriter(path) as writer:
        offsets = [writer.append(kind, payload, index=index) for kind, index, payload in wanted]
        return [*offsets, writer.size]


def _read(path: Path) -> list[tuple[int, int, bytes]]:
    return [(frame.type, frame.index, frame.payload) for frame in SegmentReader(path).frames()]


def _five(path: Path) -> tuple[list[tuple[FrameType, int, bytes]], list[int]]:
    wanted = [(FrameType.DATA, index, b'{"n":%d}' % index * (index + 1)) for index in range(5)]
    return wanted, _write(path, wanted)


@_own_folder
@given(st.lists(_frames, max_size=20))
def test_round_trip(tmp_path: Path, wanted: list[tuple[FrameType, int, bytes]]) -> None:
    """What is appended is read back, in order, byte for byte, with its offsets."""
    path = tmp_path / "a.seg"
    offsets = _write(path, wanted)
    reader = SegmentReader(path)
    read = list(reader.frames())
    assert [(frame.type, frame.index, frame.payload) for frame in read] == wanted
    assert [frame.offset for frame in read] == offsets[:-1]
    assert (reader.damage, reader.torn, reader.end) == ([], 0, path.stat().st_size)
    again = [
        (f.type, f.index, f.offset, f.length) for f in SegmentReader(path).frames(payloads=False)
    ]
    assert again == [(f.type, f.index, f.offset, f.length) for f in read]


def test_one_write_per_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Durable logging promises one system call: header and payload go down together."""
    from prime_async.spool import writer as module

    calls: list[int] = []
    real = module._writev

    def counted(fd: int, parts: tuple[bytes, ...]) -> int:
        calls.append(sum(map(len, parts)))
        return real(fd, parts)

    with SegmentWriter(tmp_path / "a.seg") as writer:
        monkeypatch.setattr(module, "_writev", counted)
        writer.append(FrameType.DATA, b"x" * 65_000, index=1)
    assert calls == [65_000 + frames.FRAME_HEADER_BYTES]


@pytest.mark.parametrize("held", ["", "held", "without ctypes"])
def test_records_of_all_sizes_are_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    """Whether or not the interpreter is kept meanwhile, and where it cannot be."""
    from prime_async.spool import writer as module

    if held == "without ctypes":
        monkeypatch.setattr(module, "_held_write", lambda: None)
    sizes = (0, 1, 5_120, 5_121, 65_000, 262_144, 262_145, 600_000)
    wanted = [(FrameType.DATA, size, os.urandom(size)) for size in sizes]
    with SegmentWriter(tmp_path / "a.seg") as writer:
        for kind, index, payload in wanted:
            writer.append(kind, payload, index=index, held=bool(held))
    assert _read(tmp_path / "a.seg") == wanted


def test_files_are_private(tmp_path: Path) -> None:
    """Nobody else may read a segment, whatever the umask."""
    before = os.umask(0)
    try:
        _five(tmp_path / "a.seg")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.seg").stat().st_mode) == 0o600


def test_never_writes_into_what_exists(tmp_path: Path) -> None:
    """A file or a link of that name is an error and stays as it was."""
    (tmp_path / "a.seg").write_bytes(b"mine")
    (tmp_path / "b.seg").symlink_to(tmp_path / "elsewhere")
    for name in ("a.seg", "b.seg"):
        with pytest.raises(SpoolError, match=r"exists"):
            SegmentWriter(tmp_path / name)
    assert (tmp_path / "a.seg").read_bytes() == b"mine"
    assert not (tmp_path / "elsewhere").exists()


def test_missing_folder_is_named(tmp_path: Path) -> None:
    """The error carries the path and the number of the system's error."""
    with pytest.raises(SpoolError, match=r"No such file") as caught:
        SegmentWriter(tmp_path / "no" / "a.seg")
    assert caught.value.path == tmp_path / "no" / "a.seg"
    assert caught.value.errno == 2


def test_torn_at_every_offset(tmp_path: Path) -> None:
    """A file cut anywhere reads as the frames that are whole, without any error."""
    wanted, offsets = _five(tmp_path / "a.seg")
    whole = (tmp_path / "a.seg").read_bytes()
    cut = tmp_path / "cut.seg"
    for length in range(len(whole)):
        cut.write_bytes(whole[:length])
        reader = SegmentReader(cut)
        read = [(frame.type, frame.index, frame.payload) for frame in reader.frames()]
        complete = sum(end <= length for end in offsets[1:])
        assert read == wanted[:complete], length
        assert reader.damage == [], length
        behind = offsets[complete] if length >= offsets[0] else 0
        assert reader.torn == length - behind, length
        headers = list(SegmentReader(cut).frames(payloads=False))
        assert len(headers) == complete, length


@pytest.mark.parametrize("zeros", [1, 15, 16, 23, 24, 25, 4096])
def test_tail_of_zeros_is_torn(tmp_path: Path, zeros: int) -> None:
    """A power cut can leave a file longer than what was written into it."""
    wanted, _ = _five(tmp_path / "a.seg")
    with (tmp_path / "a.seg").open("ab") as file:
        file.write(bytes(zeros))
    reader = SegmentReader(tmp_path / "a.seg")
    assert len(list(reader.frames())) == len(wanted)
    assert (reader.damage, reader.torn) == ([], zeros)


@pytest.mark.parametrize("content", [b"", b"PRI", bytes(16), bytes(100)])
def test_empty_beginnings_are_torn(tmp_path: Path, content: bytes) -> None:
    """A crash right after a segment was made leaves nothing to read and no error."""
    (tmp_path / "a.seg").write_bytes(content)
    reader = SegmentReader(tmp_path / "a.seg")
    assert list(reader.frames()) == []
    assert (reader.damage, reader.torn) == ([], len(content))


def test_flipped_bits(tmp_path: Path) -> None:
    """Any flipped bit costs at most the frame it is in; it is reported; no wrong byte comes out."""
    wanted, offsets = _five(tmp_path / "a.seg")
    whole = (tmp_path / "a.seg").read_bytes()
    path = tmp_path / "flipped.seg"
    for place in range(len(whole)):
        for bit in (0, 5):
            broken = bytearray(whole)
            broken[place] ^= 1 << bit
            path.write_bytes(broken)
            reader = SegmentReader(path)
            read = [(frame.type, frame.index, frame.payload) for frame in reader.frames()]
            # The reserved byte is inside the header's checksum too; the file header costs nothing.
            hit = next((n for n in range(5) if offsets[n] <= place < offsets[n + 1]), None)
            assert read == [one for n, one in enumerate(wanted) if n != hit], place
            assert len(reader.damage) == 1, place
            assert reader.torn == 0, place
            begin = 0 if hit is None else offsets[hit]
            assert reader.damage[0].offset == begin, place
            assert str(path) in str(reader.damage[0])


@_own_folder
@given(
    st.lists(_frames, min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_scribbled_over(
    tmp_path: Path,
    wanted: list[tuple[FrameType, int, bytes]],
    scribbles: list[tuple[int, int]],
) -> None:
    """However a file is scribbled over, every untouched frame is read and nothing is made up."""
    path = tmp_path / "a.seg"
    offsets = _write(path, wanted)
    whole = path.read_bytes()
    broken = bytearray(whole)
    for place, value in scribbles:
        broken[place % len(broken)] = value
    path.write_bytes(broken)
    untouched = [
        one
        for n, one in enumerate(wanted)
        if whole[offsets[n] : offsets[n + 1]] == broken[offsets[n] : offsets[n + 1]]
    ]
    assert _read(path) == untouched


def test_hole_in_the_middle(tmp_path: Path) -> None:
    """Zeros over several frames, as a power cut can leave, are one damage; what follows is read."""
    _, offsets = _five(tmp_path / "a.seg")
    broken = bytearray((tmp_path / "a.seg").read_bytes())
    broken[offsets[1] : offsets[3]] = bytes(offsets[3] - offsets[1])
    (tmp_path / "a.seg").write_bytes(broken)
    reader = SegmentReader(tmp_path / "a.seg")
    assert [frame.index for frame in reader.frames()] == [0, 3, 4]
    assert [(found.offset, found.length) for found in reader.damage] == [
        (offsets[1], offsets[3] - offsets[1])
    ]


def test_damage_wider_than_the_search_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next frame is found wherever its header lies across the windows of the search."""
    from prime_async.spool import reader as module

    monkeypatch.setattr(module, "_SCAN_BYTES", 32)
    for size in range(100, 140):
        path = tmp_path / f"{size}.seg"
        offsets = _write(path, [(FrameType.DATA, 0, b"x" * size), (FrameType.DATA, 1, b"y")])
        broken = bytearray(path.read_bytes())
        broken[offsets[0]] ^= 1
        path.write_bytes(broken)
        assert _read(path) == [(FrameType.DATA, 1, b"y")]


def test_follows_a_file_that_grows(tmp_path: Path) -> None:
    """A reader goes on from where an earlier one ended, past a frame that was half there."""
    path, whole = tmp_path / "grow.seg", tmp_path / "a.seg"
    _, offsets = _five(whole)
    path.write_bytes(whole.read_bytes()[: offsets[3] - 1])
    reader = SegmentReader(path)
    assert len(list(reader.frames())) == 2
    path.write_bytes(whole.read_bytes())
    assert [frame.index for frame in reader.frames(start=reader.end)] == [2, 3, 4]
    assert reader.torn == 0


def test_newer_format_is_refused(tmp_path: Path) -> None:
    """A format of the future is an error that says what to do, not damage."""
    from zlib import crc32

    head = b"PRIMESPL" + (2).to_bytes(4, "little")
    (tmp_path / "a.seg").write_bytes(head + crc32(head).to_bytes(4, "little"))
    with pytest.raises(SpoolError, match=r"newer prime-async"):
        _read(tmp_path / "a.seg")


def test_foreign_file_is_damage(tmp_path: Path) -> None:
    """A file that never was a segment gives no frames and says so."""
    (tmp_path / "a.seg").write_bytes(b"just some text that is long enough to be looked at\n")
    reader = SegmentReader(tmp_path / "a.seg")
    assert list(reader.frames()) == []
    assert len(reader.damage) == 1


def test_unreadable_file(tmp_path: Path) -> None:
    """An error of the system becomes a SpoolError with its cause."""
    with pytest.raises(SpoolError, match=r"cannot read") as caught:
        _read(tmp_path / "none.seg")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_limits_of_a_frame(tmp_path: Path) -> None:
    """Indexes are 64-bit numbers, a payload is at most 128 MiB; nothing is written otherwise."""
    with SegmentWriter(tmp_path / "a.seg") as writer:
        for index in (-1, 1 << 64):
            with pytest.raises(UsageError, match="index"):
                writer.append(FrameType.DATA, b"", index=index)
        with pytest.raises(UsageError, match="134217728"):
            writer.append(FrameType.DATA, bytes(frames.MAX_PAYLOAD_BYTES + 1))
        assert writer.size == (tmp_path / "a.seg").stat().st_size == len(frames.FILE_HEADER)


def test_size_limit(tmp_path: Path) -> None:
    """A frame that does not fit is refused; a smaller one may still."""
    path = tmp_path / "a.seg"
    with SegmentWriter(path, max_bytes=100) as writer:
        with pytest.raises(SpoolError, match="full at 100 bytes"):
            writer.append(FrameType.DATA, bytes(61))
        writer.append(FrameType.DATA, bytes(60))
    assert path.stat().st_size == 100
    assert len(_read(path)) == 1


def test_closed_writer(tmp_path: Path) -> None:
    """After close nothing is written; closing again is nothing."""
    writer = SegmentWriter(tmp_path / "a.seg")
    writer.close()
    writer.close()
    assert writer.closed
    with pytest.raises(SpoolError, match="closed"):
        writer.append(FrameType.DATA, b"")


def test_sync_counts_what_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync covers what was written before it; one with nothing new touches no disk."""
    from prime_async.spool import writer as module

    with SegmentWriter(tmp_path / "a.seg") as writer:
        writer.append(FrameType.DATA, b"x")
        assert writer.synced == 0
        writer.sync()
        assert writer.synced == writer.size
        monkeypatch.setattr(module, "_fdatasync", lambda _: pytest.fail("nothing to sync"))
        writer.sync()


def test_sync_reports_the_medium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An I/O error of the disk reaches the one who waits for it."""
    from prime_async.spool import writer as module

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(module, "_fdatasync", fail)
    with SegmentWriter(tmp_path / "a.seg") as writer:
        with pytest.raises(SpoolError, match=r"Input/output error") as caught:
            writer.sync()
        assert caught.value.errno == 5
        assert writer.synced == 0


def test_frame_types_of_the_future_are_read(tmp_path: Path) -> None:
    """A type this version does not know comes through, for the one who folds to pass over."""
    path = tmp_path / "a.seg"
    _write(path, [(FrameType.DATA, 0, b"x")])
    raw = bytearray(path.read_bytes())
    from zlib import crc32

    at = len(frames.FILE_HEADER)
    raw[at + 2] = 200
    raw[at + 20 : at + 24] = crc32(raw[at : at + 20]).to_bytes(4, "little")
    path.write_bytes(raw)
    assert list(SegmentReader(path).frames()) == [Frame(200, 0, at, 1, b"x")]
