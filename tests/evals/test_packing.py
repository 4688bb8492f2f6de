"""Chunks, batches, the packer: each sample once, in order, by its true bytes, under the ceiling."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from prime_async.evals.batches import OVERHEAD, TARGET_BYTES, Batch, Packer
from prime_async.evals.encoding import SLICE_BYTES, Chunk, SampleEncoder, join
from prime_async.spool import Ranges

PROPERTY = settings(max_examples=80, deadline=None)

LIMIT = 400


def _sample(index: int, size: int) -> bytes:
    """A JSON object of about that many bytes; its index is in it."""
    return json.dumps({"i": index, "t": "☕" * (size // 3)}, ensure_ascii=False).encode()


@st.composite
def indexed(draw: st.DrawFn, *, most: int = 300) -> list[tuple[int, bytes]]:
    """Samples in rising order, with holes where some were refused."""
    sizes = draw(st.lists(st.integers(0, most), min_size=1, max_size=40))
    holes = draw(st.sets(st.integers(0, 40), max_size=10))
    found = [(index, _sample(index, size)) for index, size in enumerate(sizes)]
    return [one for one in found if one[0] not in holes]


def _bytes_of(batch: Batch) -> bytes:
    return b"".join(batch.pieces())


def _read(batch: Batch) -> list[int]:
    return [sample["i"] for sample in json.loads(_bytes_of(batch))["samples"]]


def _check(batch: Batch) -> None:
    """What the wire carries is what the batch says about itself."""
    assert len(_bytes_of(batch)) == batch.size
    assert _bytes_of(batch) == _bytes_of(batch), "a second try sends other bytes"
    indexes = list(batch.indexes.indexes())
    assert indexes == [index for index, _ in batch.samples] == _read(batch)
    assert batch.count == len(indexes)
    assert batch.stop == indexes[-1] + 1


@PROPERTY
@given(indexed(), st.integers(1, 1000))
def test_joined_and_taken_apart_again(samples: list[tuple[int, bytes]], most: int) -> None:
    """Chunks hold every sample once, in order, without holes, and none of several is too large."""
    chunks = join(samples, most)
    assert [one for chunk in chunks for one in chunk.samples()] == samples
    assert all(chunk.number == 1 or len(chunk.data) <= most for chunk in chunks)
    assert all(left.start + left.number <= right.start for left, right in pairwise(chunks))


def test_large_neighbours_do_not_make_a_chunk_too_large() -> None:
    """A sample of nearly the limit after small ones stays apart, whatever the limit."""
    samples = [(0, b"1" * 100_000), (1, b"2" * 26_000_000), (2, b"3" * 100)]
    assert [chunk.number for chunk in join(samples)] == [1, 1, 1]
    assert [chunk.number for chunk in join([samples[0], (1, b"2" * 20_000)])] == [2]
    assert max(len(chunk.data) for chunk in join([(i, b"x" * 999) for i in range(999)])) <= (
        SLICE_BYTES
    )


@PROPERTY
@given(st.data())
def test_packed_once_in_order_under_the_ceiling(data: st.DataObject) -> None:
    """Whatever comes in, each sample leaves once, in order, in requests under the ceiling."""
    ceiling = data.draw(st.integers(350, 2_000))
    samples = data.draw(indexed())
    packer = Packer(ceiling)
    given = [packer.add(chunk) for chunk in join(samples, ceiling - OVERHEAD)] + [packer.flush()]
    batches = [batch for batch in given if batch is not None]
    assert [one for batch in batches for one in batch.samples] == samples
    for batch in batches:
        _check(batch)
        assert batch.size <= ceiling
    assert packer.flush() is None


@PROPERTY
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 3)), max_size=60))
def test_any_order_of_chunks(places: list[tuple[int, int]]) -> None:
    """Ranges within a request rise, even when chunks come back in another order."""
    packer = Packer(TARGET_BYTES)
    chunks = [
        Chunk(start, number, b",".join(_sample(start + place, 5) for place in range(number)))
        for start, number in places
    ]
    given = [packer.add(chunk) for chunk in chunks] + [packer.flush()]
    batches = [batch for batch in given if batch is not None]
    assert [index for batch in batches for index in _read(batch)] == [
        start + place for start, number in places for place in range(number)
    ]
    for batch in batches:
        _check(batch)


def test_a_request_names_at_most_so_many_ranges() -> None:
    """Every other sample refused: the header with the ranges stays short of the wire's 200."""
    packer = Packer(TARGET_BYTES)
    given = [packer.add(Chunk(index, 1, _sample(index, 1))) for index in range(0, 1000, 2)]
    batches = [batch for batch in [*given, packer.flush()] if batch is not None]
    assert max(len(batch.indexes) for batch in batches) <= 200
    assert sum(batch.count for batch in batches) == 500


def test_a_batch_closes_at_the_target() -> None:
    """Batches are about 1 MiB: neither crumbs nor everything in one."""
    packer = Packer(25 * 2**20)
    chunk = b"1" * 100_000
    given = [packer.add(Chunk(index, 1, chunk)) for index in range(100)]
    sizes = [batch.size for batch in given if batch is not None]
    assert len(sizes) == 9
    assert all(TARGET_BYTES <= size < TARGET_BYTES + 100_002 for size in sizes)


def test_pieces_are_small() -> None:
    """A body leaves in pieces of about 256 KiB; one of them exists at a time."""
    batch = Batch.of([(index, _sample(index, 10_000)) for index in range(300)])
    sizes = [len(piece) for piece in batch.pieces()]
    assert len(sizes) > 5
    assert max(sizes) < 512 * 1024
    assert sum(sizes) == batch.size


@PROPERTY
@given(indexed())
def test_split_into_halves(samples: list[tuple[int, bytes]]) -> None:
    """Both halves hold something, are the whole together, and differ by one sample at most."""
    assume(len(samples) > 1)
    batch = Batch.of(samples)
    left, right = batch.halves()
    assert left.samples + right.samples == samples
    assert left.count >= 1
    assert right.count >= 1
    largest = max(len(one) for _, one in samples)
    assert abs(left.size - right.size) <= largest + 1
    _check(left)
    _check(right)


@PROPERTY
@given(indexed(), st.sets(st.integers(0, 45)))
def test_taken_apart_by_index(samples: list[tuple[int, bytes]], chosen: set[int]) -> None:
    """`without` and `only` are the two parts of a batch; either may be empty."""
    assume(samples)
    batch = Batch.of(samples)
    rest, picked = batch.without(chosen), batch.only(chosen)
    assert rest.samples == [one for one in samples if one[0] not in chosen]
    assert picked.samples == [one for one in samples if one[0] in chosen]
    for part in (rest, picked):
        if part.count:
            _check(part)


@PROPERTY
@given(indexed())
def test_ranges_match_the_samples(samples: list[tuple[int, bytes]]) -> None:
    """The indexes of a batch are exactly those of its samples, holes left out."""
    assume(samples)
    assert Batch.of(samples).indexes == Ranges.of(index for index, _ in samples)


PLAIN = st.dictionaries(
    st.sampled_from(["a", "b", "long"]),
    st.one_of(st.integers(), st.text(max_size=5), st.text("☕x", min_size=80, max_size=150)),
)
ODD = st.one_of(
    PLAIN, st.just({1: 1}), st.just(object()), st.just(["no object"]), st.just({"a": 1})
)


@PROPERTY
@given(st.lists(ODD, max_size=40), st.booleans())
def test_encoded_together_or_apart_is_the_same(samples: list[Any], strict: bool) -> None:
    """One call for many samples gives the bytes and refusals that one by one would give."""
    together, apart = (SampleEncoder(limit=LIMIT, strict=strict) for _ in range(2))
    chunks: list[Chunk] = []
    start = 0
    while start < len(samples):
        stop = min(len(samples), start + together.at_once)
        chunks += together.encode_together(start, samples[start:stop])
        start = stop
    one_by_one = [(index, apart.encode(index, sample)) for index, sample in enumerate(samples)]
    expected = [(index, data) for index, data in one_by_one if data is not None]
    assert [one for chunk in chunks for one in chunk.samples()] == expected
    assert together.refused == apart.refused
    assert len(expected) + len(apart.refused) == len(samples)
    assert all(len(chunk.data) <= LIMIT for chunk in chunks)


@PROPERTY
@given(
    st.dictionaries(st.sampled_from("abcd"), st.text("x", min_size=0, max_size=400)),
    st.lists(st.sampled_from("abcde"), max_size=4, unique=True),
)
def test_trimmed_in_the_given_order_until_it_fits(sample: dict[str, str], trim: list[str]) -> None:
    """Fields go in order, no more than needed; what does not fit all the same is refused whole."""
    encoder = SampleEncoder(limit=LIMIT, trim=trim)
    data = encoder.encode(0, sample)
    if data is None:
        smallest = {name: text for name, text in sample.items() if name not in trim}
        assert len(json.dumps(smallest, separators=(",", ":"))) > LIMIT
        assert [refusal.index for refusal in encoder.refused] == [0]
        assert encoder.trimmed == {}
        return
    kept = json.loads(data)
    gone = encoder.trimmed.get(0, ())
    assert kept == {name: text for name, text in sample.items() if name not in gone}
    assert list(gone) == [name for name in trim if name in sample][: len(gone)]
    if gone:
        with_last_back = {**kept, gone[-1]: sample[gone[-1]]}
        assert len(json.dumps(with_last_back, separators=(",", ":"))) > LIMIT
