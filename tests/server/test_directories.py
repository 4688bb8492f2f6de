"""The directories kept for reading pages: bounded in bytes, whatever the evaluations look like."""

from __future__ import annotations

import tracemalloc

from prime_async.server.store import pages
from prime_async.server.store.pages import Directories

Directory = pages._Directory


def test_many_small_evaluations_do_not_add_up() -> None:
    """A directory of one chunk weighs what it weighs: 100,000 of them stay within the bound."""
    kept = Directories()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for evaluation in range(100_000):
        kept.put(evaluation, Directory([(evaluation, 10)]))
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 10_000 < len(kept) < 50_000
    assert grown < 1.5 * pages._KEPT_BYTES
    assert kept.get(99_999, 10) is not None
    assert kept.get(0, 10) is None


def test_the_one_used_longest_ago_goes_first() -> None:
    """Reading keeps a directory; growing replaces it; one that is too large is kept alone."""
    kept = Directories()
    chunks = [(number, 1) for number in range(pages._KEPT_BYTES // 64)]
    for evaluation in range(3):
        kept.put(evaluation, Directory(chunks))
    assert kept.get(0, len(chunks)) is not None
    kept.put(3, Directory(chunks))
    assert [kept.get(each, len(chunks)) is not None for each in range(4)] == [
        True,
        False,
        True,
        True,
    ]
    assert kept.get(0, len(chunks) + 1) is None, "the evaluation has grown"
    kept.put(4, Directory(chunks * 8))
    assert len(kept) == 1
    kept.drop(4)
    assert (len(kept), kept._size) == (0, 0)
