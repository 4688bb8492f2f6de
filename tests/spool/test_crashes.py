"""kill -9 while writing, and disks that run full: what had been promised is there."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from prime_async.spool import Spool

_LOG = """
import sys, os
from pathlib import Path
from prime_async.spool import Ranges, Spool
spool = Spool(sys.argv[1], segment_bytes=int(sys.argv[3]))
size = int(sys.argv[2])
writer = spool.create("k", "one")
for index in range(1_000_000):
    writer.data(index, b"%012d" % index * (size // 12))
    if index % 7 == 6:
        writer.cut(Ranges([(index - 6, index + 1)]))
        if index % 2:
            writer.ack(Ranges([(index - 6, index + 1)]))
    os.write(1, b"%d\\n" % index)
"""


@pytest.mark.parametrize("size", [120, 65_004, 3_000_000])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_while_writing(tmp_path: Path, size: int, seed: int) -> None:
    """Every record whose call had returned before kill -9 is read back, whole; nothing else is."""
    chance = random.Random(seed * size)
    segment_bytes = max(20_000, size * 5)
    process = subprocess.Popen(
        [sys.executable, "-c", _LOG, str(tmp_path), str(size), str(segment_bytes)],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    for _ in range(chance.randrange(1, 60)):
        process.stdout.readline()
    for _ in range(chance.randrange(2000)):  # to another place in the middle of what it does
        os.getpid()
    process.kill()
    told = process.stdout.read().split(b"\n")[:-1]
    process.stdout.close()
    process.wait()
    entry = Spool(tmp_path).open("k", "one")
    read = {record.index: record.payload for record in entry.records()}
    assert all(payload == b"%012d" % index * (size // 12) for index, payload in read.items())
    assert list(read) == list(range(len(read)))
    assert len(read) > (int(told[-1]) if told else 0)
    state = entry.state()
    assert state.damage == []
    assert state.present.total == len(read)
    with entry.take_over() as writer:
        assert writer.state().undelivered == state.undelivered


_FILL = """
import json, os, resource, sys
from pathlib import Path
from prime_async.errors import SpoolError
from prime_async.spool import Ranges, Spool
spool = Spool(sys.argv[1], segment_bytes=int(sys.argv[3]))
writer = spool.create("k", "one")
if int(sys.argv[2]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
kept = 0
try:
    while kept < 10_000:
        writer.data(kept, b"%010d" % kept * 1000)
        kept += 1
except SpoolError as error:
    first = error
sizes = [path.stat().st_size for path in writer.entry.segments()]
assert sizes[-1] == writer._segments._segment.size, (sizes, writer._segments._segment.size)
small = 0
try:
    while small < 10_000:  # smaller records still find room, up to the last bytes
        writer.data(kept + small, b"x")
        small += 1
except SpoolError as error:
    second = error
try:
    writer.end(kept + small)
    noted = True
except SpoolError:
    noted = False
writer.close()
print(json.dumps({"kept": kept, "small": small, "errno": [first.errno, second.errno],
                  "hint": first.hint, "text": str(first), "noted": noted}))
"""


def _fill(root: Path, limit: int, segment_bytes: int) -> dict[str, object]:
    import json

    done = subprocess.run(
        [sys.executable, "-c", _FILL, str(root), str(limit), str(segment_bytes)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    told: dict[str, object] = json.loads(done.stdout)
    return told


def _check_full(root: Path, told: dict[str, object]) -> None:
    kept, small = told["kept"], told["small"]
    assert isinstance(kept, int)
    assert isinstance(small, int)
    assert kept > 0
    assert small > 0
    entry = Spool(root).open("k", "one")
    state = entry.state()
    assert (state.damage, state.torn) == ([], 0)
    read = list(entry.records())
    assert [record.index for record in read] == list(range(kept + small))
    assert all(r.payload == b"%010d" % r.index * 1000 for r in read[:kept])
    assert (state.total == kept + small) == told["noted"]


def test_limit_on_file_size(tmp_path: Path) -> None:
    """A write that only partly fits is taken back: the file stays whole, the error says why."""
    told = _fill(tmp_path, limit=55_555, segment_bytes=1 << 20)
    assert told["errno"] == [errno.EFBIG, errno.EFBIG]
    assert "ulimit" in str(told["hint"])
    assert str(tmp_path) in str(told["text"])
    _check_full(tmp_path, told)


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "spool-test", str(disk)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting needs root")
    return disk


@pytest.mark.parametrize("segment_bytes", [1 << 20, 30_000])
def test_full_disk(small_disk: Path, segment_bytes: int) -> None:
    """On a disk without room, in a segment or for the next one, all that was accepted is there."""
    try:
        told = _fill(small_disk, limit=0, segment_bytes=segment_bytes)
        assert told["errno"] == [errno.ENOSPC, errno.ENOSPC]
        assert "free some space" in str(told["hint"])
        _check_full(small_disk, told)
        with pytest.raises(OSError, match="No space left"):
            Spool(small_disk).create("k", "two")
        left = [entry.id for entry in Spool(small_disk).entries()]
        assert left == ["one"]
        Spool(small_disk).open("k", "one").remove(discard=True)
        Spool(small_disk).create("k", "two").close()
    finally:
        subprocess.run(["umount", str(small_disk)], check=True)


@pytest.mark.parametrize("done", [0, 30, 47])
def test_interrupted_in_the_middle_of_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    """Ctrl-C during an append leaves that frame whole or not there; what follows is not harmed."""
    from prime_async.errors import SpoolError
    from prime_async.spool import FrameType, SegmentReader, SegmentWriter
    from prime_async.spool import writer as module

    def interrupted(fd: int, parts: tuple[bytes, ...]) -> int:
        os.write(fd, b"".join(parts)[:done])
        raise KeyboardInterrupt

    def full(fd: int, parts: tuple[bytes, ...]) -> int:
        os.write(fd, b"".join(parts)[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with SegmentWriter(tmp_path / "a.seg") as writer:
        with monkeypatch.context() as patch:
            patch.setattr(module, "_writev", interrupted)
            with pytest.raises(KeyboardInterrupt):
                writer.append(FrameType.DATA, b"interrupted at a bad moment"[:23], index=1)
        writer.append(FrameType.DATA, b"kept", index=2)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_writev", full)
            with pytest.raises(SpoolError, match="No space left"):
                writer.append(FrameType.DATA, b"no room", index=3)
        assert writer.size == (tmp_path / "a.seg").stat().st_size
    reader = SegmentReader(tmp_path / "a.seg")
    assert [frame.index for frame in reader.frames()] == ([1, 2] if done == 47 else [2])
    assert (reader.damage, reader.torn) == ([], 0)


def test_roll_back_that_fails_closes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a half-written frame cannot be cut off, nothing more is written behind it."""
    from prime_async.errors import SpoolError
    from prime_async.spool import FrameType, SegmentReader, SegmentWriter
    from prime_async.spool import writer as module

    writer = SegmentWriter(tmp_path / "a.seg")
    writer.append(FrameType.DATA, b"whole")

    def half(fd: int, parts: tuple[bytes, ...]) -> int:
        os.write(fd, b"".join(parts)[:30])
        raise OSError(errno.EIO, "Input/output error")

    def no(_fd: int, _size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(module, "_writev", half)
        patch.setattr(os, "ftruncate", no)
        with pytest.raises(OSError, match="Input/output"):
            writer.append(FrameType.DATA, b"half of this is on the disk")
    with pytest.raises(SpoolError, match="closed"):
        writer.append(FrameType.DATA, b"more")
    reader = SegmentReader(tmp_path / "a.seg")
    assert [frame.payload for frame in reader.frames()] == [b"whole"]
    assert reader.torn == 30
