"""`SpoolState`: the frames of an entry, folded into what is delivered and what is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from prime_async.spool.frames import FrameType
from prime_async.spool.ranges import Ranges
from prime_async.spool.reader import Damage
from prime_async.spool.records import Ack, Checkpoint, Cut, End, Meta, Refusal, Release

__all__ = ["REASONS_KEPT", "SpoolState", "decode_control"]

REASONS_KEPT = 1000
"""So many reasons of refusals are kept in memory; every refused index is kept as a range."""


class SpoolState(msgspec.Struct, kw_only=True):
    """What is known about the records of an entry. Every index is a position in the input, from 0.

    Attributes:
        meta: what the entry is about, or None when no copy of it can be read.
        present: records whose bytes are in the spool.
        acked: records the platform has confirmed.
        refused: records that are not to be sent again.
        refusals: reasons, of the first 1000 refused records.
        total: how many records the source had, or None while it had not ended.
        damage: stretches of the segments that could not be read.
        torn: bytes of unfinished frames, left by a crash in the middle of a write.
    """

    meta: Meta | None = None
    present: Ranges = msgspec.field(default_factory=Ranges)
    acked: Ranges = msgspec.field(default_factory=Ranges)
    refused: Ranges = msgspec.field(default_factory=Ranges)
    refusals: list[Refusal] = msgspec.field(default_factory=list)
    total: int | None = None
    damage: list[Damage] = msgspec.field(default_factory=list)
    torn: int = 0
    # Open batches by their first index, which no two share, and the records of them all.
    _open: dict[int, Cut] = msgspec.field(default_factory=dict)
    _cut: Ranges = msgspec.field(default_factory=Ranges)

    @property
    def cuts(self) -> list[Cut]:
        """Batches that were sent, or about to be, and have no complete answer; in the order they
        were cut."""
        return list(self._open.values())

    def copy(self) -> SpoolState:
        """Return an equal state that can be changed apart from this one."""
        return msgspec.structs.replace(
            self,
            present=self.present.copy(),
            acked=self.acked.copy(),
            refused=self.refused.copy(),
            refusals=self.refusals.copy(),
            damage=self.damage.copy(),
            _open=self._open.copy(),
            _cut=self._cut.copy(),
        )

    def checkpoint(self) -> Checkpoint:
        """Return what is known of deliveries, for the spool itself to write down."""
        return Checkpoint(
            acked=list(self.acked),
            refused=list(self.refused),
            refusals=self.refusals,
            cuts=self.cuts,
            total=self.total,
        )

    @property
    def settled(self) -> Ranges:
        """Records that need nothing more: confirmed or refused."""
        return self.acked | self.refused

    @property
    def unknown(self) -> Ranges:
        """Records of batches without an answer: they may have arrived."""
        return self._cut - self.settled

    @property
    def undelivered(self) -> Ranges:
        """Records neither confirmed nor refused, as far as they are known: up to `total` once the
        source has ended."""
        known = self.present | self._cut
        if self.total is not None:
            known.add(0, self.total)
        return known - self.settled

    @property
    def missing(self) -> Ranges:
        """Undelivered records whose bytes are not in the spool: only the source can bring them
        back."""
        return self.undelivered - self.present

    @property
    def complete(self) -> bool:
        """True when the source has ended and every record is confirmed or refused."""
        return self.total is not None and not self.undelivered

    def fold(self, kind: int, index: int, control: Any) -> None:
        """Take one frame in: its type, its index and, unless it is ``data``, its decoded payload.

        Frames must come in the order they were written. Types unknown to this version change
        nothing.
        """
        if kind == FrameType.DATA:
            self.present.add(index)
        elif kind == FrameType.CUT:
            self._fold_cut(control)
        elif kind == FrameType.ACK:
            self._fold_ack(control)
        elif kind == FrameType.REFUSE:
            self._fold_refusal(control)
        elif kind == FrameType.RELEASE:
            self._drop_cuts(control.ranges)
        elif kind == FrameType.META:
            # Copies differ in the number of their segment only, and the first may have gone.
            self.meta = self.meta or msgspec.structs.replace(control, segment=1)
        elif kind == FrameType.END:
            self.total = control.total
        elif kind == FrameType.CHECKPOINT:
            self._fold_checkpoint(control)

    def _fold_cut(self, cut: Cut) -> None:
        # A record belongs to the last batch that names it; what else was in the older one is uncut
        # again.
        self._drop_cuts(cut.ranges)
        if cut.intervals:
            self._open[cut.intervals[0][0]] = cut
            _add_all(self._cut, cut.intervals)

    def _fold_ack(self, ack: Ack) -> None:
        _add_all(self.acked, ack.intervals)
        cut = self._open.get(ack.intervals[0][0]) if ack.intervals else None
        if (
            cut is not None and cut.intervals == ack.intervals
        ):  # the common case: a whole batch arrived
            self._drop(cut)
        else:
            self._drop_settled(ack.ranges)

    def _fold_refusal(self, refusal: Refusal) -> None:
        self.refused.add(refusal.index)
        if len(self.refusals) < REASONS_KEPT:
            self.refusals.append(refusal)
        self._drop_settled(Ranges([(refusal.index, refusal.index + 1)]))

    def _fold_checkpoint(self, known: Checkpoint) -> None:
        self.acked, self.refused = Ranges(known.acked), Ranges(known.refused)
        self.refusals = list(known.refusals)
        self.total = known.total
        self._open, self._cut = {}, Ranges()
        for cut in known.cuts:
            self._fold_cut(cut)

    def _drop_settled(self, ranges: Ranges) -> None:
        for cut in self._cuts_on(ranges):
            if self.settled.covers(cut.ranges):
                self._drop(cut)

    def _drop_cuts(self, ranges: Ranges) -> None:
        for cut in self._cuts_on(ranges):
            self._drop(cut)

    def _cuts_on(self, ranges: Ranges) -> list[Cut]:
        if not self._cut.overlaps(ranges):
            return []
        return [cut for cut in self._open.values() if cut.ranges.overlaps(ranges)]

    def _drop(self, cut: Cut) -> None:
        del self._open[cut.intervals[0][0]]
        for start, stop in cut.intervals:
            self._cut.remove(start, stop)


def decode_control(kind: int, payload: bytes) -> Any:
    """Return the Struct in the payload of a control frame; None for types that have none or are not
    known.

    Raises:
        msgspec.MsgspecError: the payload is not what the type promises.
    """
    if kind == FrameType.META:
        return msgspec.json.decode(payload, type=Meta)
    decoder = _DECODERS.get(kind)
    return decoder.decode(payload) if decoder else None


_DECODERS: dict[int, msgspec.msgpack.Decoder[Any]] = {
    FrameType.CUT: msgspec.msgpack.Decoder(Cut),
    FrameType.ACK: msgspec.msgpack.Decoder(Ack),
    FrameType.REFUSE: msgspec.msgpack.Decoder(Refusal),
    FrameType.RELEASE: msgspec.msgpack.Decoder(Release),
    FrameType.END: msgspec.msgpack.Decoder(End),
    FrameType.CHECKPOINT: msgspec.msgpack.Decoder(Checkpoint),
}


def _add_all(ranges: Ranges, intervals: Iterable[tuple[int, int]]) -> None:
    for start, stop in intervals:
        ranges.add(start, stop)
