"""What the frames of an entry add up to, against a model of plain sets."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from prime_async.spool import (
    Ack,
    Cut,
    End,
    FrameType,
    Ranges,
    Refusal,
    Release,
    Spool,
    SpoolState,
)
from prime_async.spool.state import REASONS_KEPT, decode_control

_TOP = 24
_index = st.integers(0, _TOP - 1)
_sets = st.lists(st.tuples(_index, st.integers(1, 6)), min_size=1, max_size=3).map(
    lambda parts: Ranges((start, start + length) for start, length in parts)
)


class SpoolMachine(RuleBasedStateMachine):
    """An entry under any row of calls: its owner, the disk and the model agree."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.spool = Spool(Path(self.folder.name) / "spool", segment_bytes=400)
        self.writer = self.spool.create("test", "one")
        self.acked: set[int] = set()
        self.refused: set[int] = set()
        self.known: set[int] = set()
        self.cuts: list[tuple[set[int], str | None]] = []
        self.total: int | None = None

    @rule(index=_index, size=st.integers(0, 120))
    def data(self, index: int, size: int) -> None:
        self.writer.data(index, b"x" * size)
        self.known.add(index)

    @rule(ranges=_sets, digest=st.sampled_from([None, "sha256:a", "sha256:b"]))
    def cut(self, ranges: Ranges, digest: str | None) -> None:
        self.writer.cut(ranges, digest)
        inside = set(ranges.indexes())
        self.cuts = [one for one in self.cuts if not one[0] & inside]
        self.cuts.append((inside, digest))

    @rule(ranges=_sets)
    def ack(self, ranges: Ranges) -> None:
        self.writer.ack(ranges, "receipt")
        self._settle(self.acked, set(ranges.indexes()))

    @rule(data=st.data())
    def ack_a_whole_cut(self, data: st.DataObject) -> None:
        if self.cuts:
            inside, _ = data.draw(st.sampled_from(self.cuts))
            self.writer.ack(Ranges.of(inside))
            self._settle(self.acked, inside)

    @rule(index=_index)
    def refuse(self, index: int) -> None:
        self.writer.refuse(index, "no")
        self._settle(self.refused, {index})

    @rule(ranges=_sets)
    def release(self, ranges: Ranges) -> None:
        self.writer.release(ranges)
        inside = set(ranges.indexes())
        self.cuts = [one for one in self.cuts if not one[0] & inside]

    @rule(total=st.integers(0, _TOP + 4))
    def end(self, total: int) -> None:
        self.writer.end(total)
        self.total = total

    @rule()
    def prune(self) -> None:
        before = self.writer.entry.bytes
        freed = self.writer.prune()
        # The checkpoint itself takes room, and may begin a segment.
        assert self.writer.entry.bytes - (before - freed) >= 0
        # Only settled records may have gone; forget those the model cannot see any more.
        present = set(self.writer.entry.state().present.indexes())
        gone = self.known - present
        assert gone <= self.acked | self.refused
        self.known = present

    @rule()
    def hand_over(self) -> None:
        self.writer.close()
        self.writer = self.spool.open("test", "one").take_over()

    def _settle(self, into: set[int], indexes: set[int]) -> None:
        into |= indexes
        settled = self.acked | self.refused
        self.cuts = [one for one in self.cuts if not (one[0] & indexes and one[0] <= settled)]

    @invariant()
    def agrees(self) -> None:
        state = self.writer.state()
        settled = self.acked | self.refused
        cut = set().union(*(inside for inside, _ in self.cuts))
        undelivered = (self.known | cut | set(range(self.total or 0))) - settled
        assert set(state.present.indexes()) == self.known
        assert set(state.acked.indexes()) == self.acked
        assert set(state.refused.indexes()) == self.refused
        assert set(state.unknown.indexes()) == cut - settled
        assert set(state.undelivered.indexes()) == undelivered
        assert set(state.missing.indexes()) == undelivered - self.known
        assert state.complete == (self.total is not None and not undelivered)
        assert [(set(c.ranges.indexes()), c.digest) for c in state.cuts] == self.cuts
        assert (state.damage, state.torn) == ([], 0)

    @invariant()
    def disk_agrees(self) -> None:
        on_disk, live = self.writer.entry.state(), self.writer.state()
        assert on_disk == live
        assert self.writer.entry.state(verify=False) == live

    def teardown(self) -> None:
        self.writer.close()
        self.folder.cleanup()


TestSpoolMachine = SpoolMachine.TestCase
TestSpoolMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize(
    ("kind", "control"),
    [
        (FrameType.CUT, Cut([(0, 128), (130, 131)], "sha256:x")),
        (FrameType.CUT, Cut([(5, 6)])),
        (FrameType.ACK, Ack([(0, 128)], "receipt")),
        (FrameType.RELEASE, Release([(0, 1)])),
        (FrameType.REFUSE, Refusal(7, "not an object", "info.logits", 422)),
        (FrameType.END, End(0)),
    ],
)
def test_control_records_round_trip(kind: FrameType, control: Any) -> None:
    """Each control record reads back equal."""
    assert decode_control(kind, msgspec.msgpack.encode(control)) == control


def test_fields_of_the_future_are_passed_over() -> None:
    """A spool written by a later version with more fields is still understood."""
    payload = msgspec.msgpack.encode({"intervals": [[0, 3]], "receipt": "r", "colour": "blue"})
    assert decode_control(FrameType.ACK, payload) == Ack([(0, 3)], "r")
    assert decode_control(200, b"anything") is None
    state = SpoolState()
    state.fold(200, 0, None)
    assert state == SpoolState()


def test_reasons_are_bounded() -> None:
    """A push of which everything is refused does not fill the memory with reasons."""
    state = SpoolState()
    for index in range(REASONS_KEPT + 500):
        state.fold(FrameType.REFUSE, index, Refusal(index, "no"))
    assert len(state.refusals) == REASONS_KEPT
    assert state.refused.total == REASONS_KEPT + 500


def test_many_batches_fold_quickly_into_little() -> None:
    """A hundred thousand batches that went well are one interval and no open cut."""
    state = SpoolState()
    for start in range(0, 1_000_000, 10):
        span = [(start, start + 10)]
        state.fold(FrameType.CUT, 0, Cut(span))
        state.fold(FrameType.ACK, 0, Ack(span))
    assert state.acked.to_list() == [[0, 1_000_000]]
    assert state.cuts == []


def test_copy_is_apart() -> None:
    """A copy handed out does not change under its reader."""
    state = SpoolState()
    state.fold(FrameType.CUT, 0, Cut([(0, 4)]))
    copied = state.copy()
    state.fold(FrameType.ACK, 0, Ack([(0, 4)]))
    state.fold(FrameType.DATA, 9, None)
    assert copied.unknown.to_list() == [[0, 4]]
    assert not copied.acked
    assert not copied.present
