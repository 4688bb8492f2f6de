"""The queue by itself: bounded in bytes, first in first out, room given back."""

from __future__ import annotations

from prime_async.runs.blocks import BLOCK_BYTES, Item, joined
from prime_async.runs.queue import Lane, Offered, RecordQueue


def item(index: int, size: int = 100) -> Item:
    """A record of so many bytes."""
    return Item(index, b"x" * size)


def gone_for(queue: RecordQueue, lane: Lane, newer: Item) -> tuple[Lane, list[int]] | None:
    """Which indexes of which lane give way to an item."""
    over = queue.offer_over(lane, newer)
    return None if over is None else (over[0], [old.index for old in over[1]])


def test_bytes_count_until_they_are_released() -> None:
    """What is on its way belongs to the limit."""
    cost = item(0).cost
    queue = RecordQueue(3 * cost)
    assert [queue.offer(Lane.TRACE, item(n)) for n in range(4)].count(Offered.FULL) == 1
    taken = queue.take(Lane.TRACE, 1_000_000, 10)
    assert [one.index for one in taken] == [0, 1, 2]
    assert queue.offer(Lane.TRACE, item(4)) is Offered.FULL
    heard: list[str] = []
    queue.on_room(lambda: heard.append("room"))
    queue.release(taken)
    assert heard == ["room"]
    assert queue.offer(Lane.TRACE, item(4)) is not Offered.FULL
    assert queue.peak_bytes == 3 * cost


def test_the_oldest_of_its_lane_gives_way() -> None:
    """As many as are needed; none of another lane, none on its way."""
    cost = item(0).cost
    queue = RecordQueue(4 * cost)
    queue.offer(Lane.METRIC, item(0))
    for number in range(3):
        queue.offer(Lane.TRACE, item(number))
    assert gone_for(queue, Lane.TRACE, item(3)) == (Lane.TRACE, [0])
    assert gone_for(queue, Lane.TRACE, item(4, 100 + cost)) == (Lane.TRACE, [1, 2])
    assert [one.index for one in queue.take(Lane.TRACE, 1_000_000, 10)] == [3, 4]
    assert queue.offer_over(Lane.TRACE, item(5)) is None
    assert queue.waiting(Lane.METRIC)[0] == 1


def test_the_lane_that_holds_more_gives_way() -> None:
    """To one that holds less and still does then; not the other way round."""
    cost = item(0).cost
    queue = RecordQueue(4 * cost)
    queue.offer(Lane.METRIC, item(0))
    for number in range(3):
        queue.offer(Lane.TRACE, item(number))
    assert gone_for(queue, Lane.METRIC, item(1)) == (Lane.TRACE, [0])
    assert gone_for(queue, Lane.METRIC, item(2)) == (Lane.METRIC, [0])
    assert [queue.waiting(lane)[0] for lane in (Lane.METRIC, Lane.TRACE)] == [2, 2]
    assert queue.bytes == 4 * cost


def test_batches_by_bytes_and_number() -> None:
    """A larger record is a batch of its own."""
    queue = RecordQueue(1_000_000)
    for number, size in enumerate((100, 100, 5_000, 100)):
        queue.offer(Lane.TRACE, item(number, size))
    sizes = []
    while taken := queue.take(Lane.TRACE, 1_000, 10):
        sizes.append([one.index for one in taken])
    assert sizes == [[0, 1], [2], [3]]


def test_a_closed_queue_takes_nothing() -> None:
    """And says so to those who wait for room."""
    queue = RecordQueue(1_000)
    heard: list[str] = []
    queue.on_room(lambda: heard.append("closed"))
    queue.close()
    assert queue.offer(Lane.TRACE, item(0)) is Offered.CLOSED
    assert heard == ["closed"]


def test_lines_that_wait_lie_one_behind_the_other() -> None:
    """A batch ends with its block and is one piece then, without being joined; records of a lane
    that has no blocks, and large ones, stay the objects they are.
    """
    queue = RecordQueue(10 * BLOCK_BYTES)
    size = BLOCK_BYTES // 10
    for number in range(25):
        queue.offer(Lane.TRACE, Item(number, b"%02d" % number * (size // 2)))
    taken = queue.take(Lane.TRACE, BLOCK_BYTES, 100)
    (piece,) = joined(taken)
    assert [one.index for one in taken] == list(range(10))
    assert bytes(piece) == b"".join(one.data for one in taken)
    large = Item(25, b"x" * BLOCK_BYTES)
    queue.offer(Lane.TRACE, large)
    rest: list[Item] = []
    while taken := queue.take(Lane.TRACE, BLOCK_BYTES, 100):
        rest += taken
    lengths = [10 * (size // 2) * 2, 5 * (size // 2) * 2, BLOCK_BYTES]
    assert [len(piece) for piece in joined(rest)] == lengths
    assert rest[-1].data is large.held


def test_a_block_is_used_again_when_its_last_record_is_gone() -> None:
    """And not before: what is still on its way keeps its bytes."""
    queue = RecordQueue(10 * BLOCK_BYTES)
    size = BLOCK_BYTES // 10

    def fill(first: int) -> list[Item]:
        for number in range(first, first + 10):
            queue.offer(Lane.TRACE, Item(number, b"%04d" % number * (size // 4)))
        return queue.take(Lane.TRACE, BLOCK_BYTES, 100)

    slow = fill(0)[-1]
    for first in range(10, 60, 10):
        assert [one.data[:4] for one in fill(first)] == [
            b"%04d" % number for number in range(first, first + 10)
        ]
    assert slow.data == b"0009" * (size // 4)
