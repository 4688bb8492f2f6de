"""new_id: prefix and ULID."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading

import pytest

from prime_async import ids
from prime_async.errors import UsageError
from prime_async.ids import new_id


def test_shape() -> None:
    """An id is its prefix, an underscore and 26 characters of Crockford base32."""
    assert re.fullmatch(r"push_[0-7][0-9A-HJKMNP-TV-Z]{25}", new_id("push"))


def test_fits_the_push_header() -> None:
    """The wire takes at most 64 letters, digits, dashes and underscores as the id of a push."""
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", new_id("a" * 16))


@pytest.mark.parametrize("prefix", ["", "Push", "a b", "../x", "a_b", "9a", "a" * 17, "é"])
def test_refuses_other_prefixes(prefix: str) -> None:
    """A prefix that would need escaping somewhere is an error of the caller."""
    with pytest.raises(UsageError, match="prefix"):
        new_id(prefix)


def test_increasing_within_a_process() -> None:
    """Ids made one after the other sort in that order, many in one millisecond too."""
    made = [new_id("x") for _ in range(5000)]
    assert made == sorted(set(made))


def test_increasing_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes backwards does not bring back earlier ids."""
    before = new_id("x")
    monkeypatch.setattr(ids.time, "time_ns", lambda: 1_000_000_000)
    assert new_id("x") > before


def test_time_is_in_the_id() -> None:
    """The first 48 bits are the milliseconds at which it was made."""
    import time

    from ulid import ULID

    before = time.time_ns() // 1_000_000
    made = ULID.from_str(new_id("x").removeprefix("x_")).milliseconds
    # Other tests of this process may have counted on past a clock that stood still.
    assert before <= made <= time.time_ns() // 1_000_000 + 1


def test_unique_over_threads() -> None:
    """Eight threads never make the same id, and each sees its own increase."""
    made: list[list[str]] = [[] for _ in range(8)]

    def work(mine: list[str]) -> None:
        mine.extend(new_id("x") for _ in range(1000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one for mine in made for one in mine}) == 8000
    assert all(mine == sorted(mine) for mine in made)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_unique_after_fork() -> None:
    """Parent and child that go on in the same millisecond do not make the same ids."""
    program = """
import os
from prime_async import ids
ids.time.time_ns = lambda: 1_700_000_000_000_000_000
ids.new_id("x")
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, "\\n".join(ids.new_id("x") for _ in range(500)).encode())
    os._exit(0)
os.close(writing)
mine = {ids.new_id("x") for _ in range(500)}
with os.fdopen(reading) as pipe:
    theirs = set(pipe.read().split())
os.wait()
assert len(mine) == len(theirs) == 500 and not mine & theirs
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_import_loads_no_ulid() -> None:
    """The library behind it is loaded with the first id, not with the module."""
    program = "import sys, prime_async.ids; sys.exit('ulid' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
