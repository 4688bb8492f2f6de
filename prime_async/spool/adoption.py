"""`adopt`: takes an entry that was carried here from another machine into the spool of this one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prime_async.errors import SpoolError
from prime_async.spool.entries import numbered_segments
from prime_async.spool.frames import FrameType
from prime_async.spool.reader import SegmentReader
from prime_async.spool.records import Meta
from prime_async.spool.state import decode_control
from prime_async.spool.writer import spool_error

__all__ = ["copy_segments", "meta_of", "segments_of", "size_of"]


def segments_of(path: Path) -> list[tuple[int, Path]]:
    """Return the numbered segments at a path: those of a folder, or the one file.

    Raises:
        SpoolError: there are none.
    """
    if path.is_dir():
        found = numbered_segments(path)
    else:
        found = [(meta.segment, path) for meta in _metas(path)][:1]
    if not found:
        raise SpoolError(
            f"{path} holds no spool segment",
            path=path,
            hint="name a folder with NNNN.seg files, or one such file",
        )
    return found


def meta_of(segments: list[tuple[int, Path]]) -> Meta:
    """Return the first meta record in some segments.

    Raises:
        SpoolError: none can be read.
    """
    for _, path in segments:
        for meta in _metas(path):
            return meta
    path = segments[0][1]
    raise SpoolError(f"nothing in {path} says what it belongs to: its meta is damaged", path=path)


def size_of(segments: list[tuple[int, Path]]) -> int:
    """Return the bytes in some segments.

    Raises:
        SpoolError: one is gone.
    """
    try:
        return sum(path.stat().st_size for _, path in segments)
    except OSError as error:
        raise spool_error("cannot read the segments of", segments[0][1], error) from error


def copy_segments(segments: list[tuple[int, Path]], target: Path) -> None:
    """Make an entry's folder from copies of segments; all of it or nothing.

    Raises:
        SpoolError: a segment cannot be read, or the disk is full or cannot be written.
    """
    from shutil import copyfile, rmtree

    incoming = target.with_name(f".incoming-{target.name}")
    rmtree(incoming, ignore_errors=True)  # a copy that a crash cut off
    try:
        incoming.mkdir(mode=0o700)
        for number, path in segments:
            copy = incoming / f"{number:04d}.seg"
            copy.touch(mode=0o600)
            copyfile(path, copy)
        incoming.rename(target)
    except OSError as error:
        rmtree(incoming, ignore_errors=True)
        raise spool_error("cannot copy the spool entry to", target, error) from error


def _metas(path: Path) -> Iterator[Meta]:
    for frame in SegmentReader(path).frames(payloads=False):
        if frame.type == FrameType.META:
            yield decode_control(frame.type, frame.payload)
