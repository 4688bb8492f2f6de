"""What the control frames of a spool say. msgspec Structs, no I/O; ``data`` frames hold raw bytes
instead.

Unknown fields are passed over when reading, fields added later must have defaults: a spool written
    today is read by
tomorrow's version, and the other way round.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from prime_async.spool.ranges import Ranges

__all__ = ["Ack", "Checkpoint", "Cut", "End", "Meta", "Refusal", "Release", "SourceInfo"]


class SourceInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which file a push reads, and how it looked; information only, nothing is opened by it.

    Attributes:
        path: absolute path on the machine that wrote the spool.
        size: bytes.
        mtime_ns: time of the last change, nanoseconds since 1970.
        inode: file number there.
    """

    path: str
    size: int = 0
    mtime_ns: int = 0
    inode: int = 0

    @classmethod
    def of(cls, path: Path | str) -> SourceInfo:
        """Take the fingerprint of a file or folder.

        Raises:
            OSError: there is none.
        """
        found = Path(path).stat()
        return cls(
            path=str(Path(path).absolute()),
            size=found.st_size,
            mtime_ns=found.st_mtime_ns,
            inode=found.st_ino,
        )

    def same_content(self, other: SourceInfo) -> bool:
        """Return True when size and time of change agree (path and inode may differ: it may have
        been copied)."""
        return (self.size, self.mtime_ns) == (other.size, other.mtime_ns)


class Meta(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an entry is about: first frame of every segment, written as JSON. Never holds a key.

    Attributes:
        kind, id: the entry, as in its folder names, such as ``evals.push`` and ``push_01J…``.
        created_at: seconds since 1970, when the entry was made.
        version: version of the package that made it.
        base_url: where it was to be delivered; credentials in it are cut off.
        context: name of the configuration context it was made under, or None.
        target: ids there, such as ``{"evaluation_id": …, "push_id": …}``.
        source: the file that is being pushed, or None when the records came from memory.
        segment: number of the segment that carries this copy, from 1.
        extra: whatever else the owner needs to go on; JSON values.
    """

    kind: str = ""
    id: str = ""
    created_at: float = 0.0
    version: str = ""
    base_url: str | None = None
    context: str | None = None
    target: dict[str, str] = msgspec.field(default_factory=dict)
    source: SourceInfo | None = None
    segment: int = 1
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.base_url and "@" in self.base_url:
            parts = urlsplit(self.base_url)
            self.base_url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class Cut(msgspec.Struct, frozen=True, omit_defaults=True):
    """A batch: its borders, fixed before its first send so that a second send is the same batch.

    Attributes:
        intervals: indexes it holds, ``[[start, stop], …]``; more than one where refused records
            left gaps.
        digest: key of its content, where the wire goes by content, or None.
    """

    intervals: list[tuple[int, int]]
    digest: str | None = None

    @property
    def ranges(self) -> Ranges:
        """The indexes as a set."""
        return Ranges(self.intervals)


class Ack(msgspec.Struct, frozen=True, omit_defaults=True):
    """Records the platform holds now; ``receipt`` is its id for them, where it gives one."""

    intervals: list[tuple[int, int]]
    receipt: str | None = None

    @property
    def ranges(self) -> Ranges:
        """The indexes as a set."""
        return Ranges(self.intervals)


class Release(msgspec.Struct, frozen=True):
    """Records of a cut that certainly did not arrive: they are free to be cut anew."""

    intervals: list[tuple[int, int]]

    @property
    def ranges(self) -> Ranges:
        """The indexes as a set."""
        return Ranges(self.intervals)


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record that is not to be sent again, and why.

    Attributes:
        index: its position in the input.
        reason: in words.
        path: the place in the record that was refused, such as ``info.logits``, or None.
        status: HTTP status of the refusal, or None when it was refused before it was sent.
    """

    index: int
    reason: str
    path: str | None = None
    status: int | None = None


class End(msgspec.Struct, frozen=True):
    """The source has ended: records have the indexes ``0 … total - 1``."""

    total: int


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known, so that the segments before it can be deleted.

    Attributes:
        acked, refused: intervals of the records confirmed and refused.
        refusals: reasons of refusals, as far as they are kept.
        cuts: batches without a complete answer.
        total: how many records the source had, or None while it has not ended.
    """

    acked: list[tuple[int, int]]
    refused: list[tuple[int, int]]
    refusals: list[Refusal]
    cuts: list[Cut]
    total: int | None
