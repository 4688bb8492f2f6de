"""The generator on a small package with one of everything, and on what it must refuse."""

from __future__ import annotations

import importlib
import inspect
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prime_sync._generate import Plan, Unit, faults, generate
from prime_sync._generate_source import RefusalError

DATA = Path(__file__).parent.parent / "data" / "facade"

PLAN = Plan(
    package="demo_async",
    target="demo_sync",
    units=(
        Unit("demo_sync.clocks", ("demo_async.clocks",), "demo_async"),
        Unit("demo_sync.shelf", ("demo_async.shelf",)),
    ),
    async_only={"AsyncClock.socket": "hands out an asynchronous object"},
    phrases={"A clock for async code": "A clock for plain code"},
)


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The generated twin of the demo package, imported."""
    shutil.copytree(DATA / "demo_async", tmp_path / "demo_async")
    write(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("demo_sync")
    for name in [name for name in sys.modules if name.startswith("demo_")]:
        del sys.modules[name]


def write(root: Path, plan: Plan = PLAN) -> None:
    """Generate into a folder."""
    for path, text in generate(root, plan).items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)


@pytest.mark.parametrize("name", ["__init__", "clocks", "shelf"])
def test_the_text_is_exactly_this(name: str) -> None:
    """The layout does not depend on the version of Python, nor on any formatter."""
    texts = generate(DATA, PLAN)
    path = Path("demo_sync") / f"{name}.py"
    assert texts[path] == (DATA / path).read_text()


def test_the_text_is_as_the_formatter_would_write_it() -> None:
    """What people read looks like the rest of the repository."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length=100", "--diff", "."],
        cwd=DATA / "demo_sync",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.slow
def test_type_checkers_see_exact_types(demo: Any, tmp_path: Path) -> None:
    """Strict mypy accepts the package, and knows the type of every call."""
    user = tmp_path / "user.py"
    user.write_text(
        textwrap.dedent(
            """
            from demo_sync import Clock, Reading, Shelf, WallClock, now, parse
            clock = Clock(3)
            reveal_type(clock.read())
            reveal_type(clock.read(raw=True))
            reveal_type(clock.read(raw=bool(clock)))
            reveal_type(clock.ticks())
            reveal_type(WallClock.opened(1))
            reveal_type(clock.parent)
            reveal_type(clock.copies(2))
            reveal_type(now())
            reveal_type(Shelf(clock).clock)
            with clock as same, clock.paused() as why, clock.lent() as other:
                reveal_type((same, why, other))
            reveal_type(clock.add([Reading(1)], clock, on_tick=lambda value: None))
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "user.py", "demo_sync"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    revealed = [line.split('"')[1] for line in done.stdout.splitlines() if "Revealed" in line]
    assert done.returncode == 0, done.stdout
    assert revealed == [
        "demo_async.times.Reading",
        "int",
        "int | demo_async.times.Reading",
        "prime_sync._iterators.CloseableIterator[demo_async.times.Reading]",
        "demo_sync.clocks.WallClock",
        "demo_sync.clocks.Clock | None",
        "list[demo_sync.clocks.Clock]",
        "demo_async.times.Reading",
        "demo_sync.clocks.Clock",
        "tuple[demo_sync.clocks.Clock, str, demo_sync.clocks.Clock]",
        "int",
    ]


def test_methods_work_without_await(demo: Any) -> None:
    """Values, defaults, keyword-only and collected parameters arrive as they were given."""
    clock = demo.Clock(3)
    assert (clock.read(), clock.read(raw=True)) == (demo.Reading(3), 3)
    assert demo.Clock.count(1, 2, three=3) == 6
    assert clock.wait(0.0, 1.0, quiet=False) is None
    assert demo.now(4) == demo.Reading(4)
    assert (repr(clock), len(clock), demo.Clock.NAME) == ("Clock(3)", 3, "clock")
    assert demo.WallClock().chime() == "cuckoo"
    assert demo.parse("7") == demo.Reading(7)


def test_attributes_and_properties_are_those_of_the_async_side(demo: Any) -> None:
    """Public attributes can be read, properties with a setter written."""
    clock = demo.Clock(2)
    clock.label = "kitchen"
    assert (clock.label, clock.zone, clock.start) == ("kitchen", "utc", 2)
    with clock as same:
        assert same is clock
    assert clock.closed


def test_clients_are_unwrapped_on_the_way_in_and_wrapped_on_the_way_out(demo: Any) -> None:
    """The user never meets an async client."""
    clock = demo.Clock(2)
    assert clock.add([demo.Reading(1)], clock) == 3
    assert clock.add([demo.Reading(1)], 5) == 6
    assert [type(copy) for copy in clock.copies(2)] == [demo.Clock] * 2
    assert type(clock.follow(demo.Clock(1))) is demo.Clock
    assert clock.follow(demo.Clock(0)) is None
    assert type(clock.parent) is demo.Clock
    assert demo.Clock(0).parent is None
    assert demo.WallClock.opened(1).chime() == "cuckoo"
    assert type(demo.Shelf(clock).clock) is demo.Clock
    assert demo.Shelf("four").clock.start == 4
    with clock.lent() as other:
        assert (type(other), other.start) == (demo.Clock, 3)


def test_iterators_and_context_managers(demo: Any) -> None:
    """Everything asynchronous to iterate over or to enter has its plain form."""
    clock = demo.Clock(5)
    assert [reading.value for reading in clock.ticks(3)] == [5, 6, 7]
    with clock.ticks() as ticks:
        assert next(ticks) == demo.Reading(5)
    assert list(clock.plain_ticks()) == list(clock.late_ticks()) == list(demo.Shelf(clock)) == [5]
    with clock.paused("lunch") as why, clock.held() as held:
        assert (why, held) == ("lunch", "held")


def test_callbacks_run_in_the_calling_thread(demo: Any) -> None:
    """In calls and in iterators."""
    seen: list[tuple[int, int]] = []
    clock = demo.Clock(0)

    def on_tick(value: int) -> None:
        seen.append((value, threading.get_ident()))

    assert clock.add([demo.Reading(1), demo.Reading(2)], on_tick=on_tick) == 3
    assert len(list(clock.ticks(2, on_tick))) == 2
    assert seen == [(value, threading.get_ident()) for value in (1, 3, 0, 1)]


def test_docstrings_speak_of_the_sync_side(demo: Any) -> None:
    """Names, examples and phrases are adapted, prose stays."""
    doc = inspect.cleandoc(demo.Clock.__doc__)  # as Python 3.13 has it anyhow
    assert "A clock for plain code." in doc
    assert "from demo_sync import Clock" in doc
    assert "with Clock(3) as clock:\n        print(clock.read())" in doc
    assert "for reading in clock.ticks(2):" in doc
    assert "async" not in doc.lower()
    assert demo.WallClock.__doc__ == "A :class:`Clock` on a wall."
    assert "``clock.read(raw=True)`` gives" in demo.Clock.read.__doc__
    assert "Do not await your dinner." in demo.Clock.read.__doc__


def test_checking_finds_drift_missing_and_stray_files(tmp_path: Path) -> None:
    """Each is named; hand-written modules begin with an underscore and are left alone."""
    shutil.copytree(DATA / "demo_async", tmp_path / "demo_async")
    write(tmp_path)
    texts = generate(tmp_path, PLAN)
    (tmp_path / "demo_sync" / "_own.py").write_text("")
    assert faults(tmp_path, PLAN, texts) == []
    (tmp_path / "demo_sync" / "stray.py").write_text("")
    (tmp_path / "demo_sync" / "shelf.py").unlink()
    clocks = tmp_path / "demo_sync" / "clocks.py"
    clocks.write_text(clocks.read_text().replace("Yield readings", "Yields readings"))
    found = "\n".join(faults(tmp_path, PLAN, texts))
    assert "demo_sync/stray.py: nothing generates this file" in found
    assert "+++ demo_sync/shelf.py (generated)" in found
    assert '-        """Yields readings' in found


REFUSED = {
    "no return type": "async def f(self): ...",
    "parameter x has no type": "async def f(self, x) -> None: ...",
    "Event of asyncio in a public signature": "async def f(self, x: Event) -> None: ...",
    "asyncio of asyncio in a public signature": "async def f(self, x: asyncio.Lock) -> None: ...",
    "takes only an async iterable": "async def f(self, x: AsyncIterable[int]) -> None: ...",
    "to run off the loop": "async def f(self, x: Callable[[int], None]) -> None: ...",
    "has no call to run in": "def f(self, x: Callable[[], Awaitable[None]]) -> int: ...",
    "decorator cache is not known": "@cache\n    def f(self) -> int: ...",
    "f is public and has no type": "f = 3",
    "x is public and has no type": "def __init__(self) -> None:\n        self.x = 3",
    "the last overload must be": (
        "@overload\n    async def f(self, x: Literal[1]) -> int: ...\n"
        "    async def f(self, x: int) -> int: ..."
    ),
    "one hop per item": "async def __anext__(self) -> int: ...",
    "has no sync form": "def __eq__(self, other: object) -> bool: ...",
    "a result that holds async clients": "async def f(self) -> dict[str, AsyncThing]: ...",
    "an iterator of async clients": "async def f(self) -> AsyncIterator[AsyncThing]: yield self",
    "an async client inside a container": "async def f(self, x: list[AsyncThing]) -> None: ...",
    "make it an async def": "def f(self) -> Awaitable[int]: ...",
    "cannot write a Call": "async def f(self, x: int = int()) -> None: ...",
    "cannot tell where Nowhere comes from": "async def f(self, x: Nowhere) -> None: ...",
    "_Private is private": "async def f(self, x: _Private) -> None: ...",
    "a property is plain": "@property\n    async def f(self) -> int: ...",
}


@pytest.mark.parametrize(("message", "code"), REFUSED.items(), ids=list(REFUSED))
def test_what_has_no_sync_form_is_refused_with_its_place(
    message: str, code: str, tmp_path: Path
) -> None:
    """File and line are named, so that the author of an async method knows at once."""
    text = f"""
from __future__ import annotations
import asyncio
from asyncio import Event
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from functools import cache
from typing import Literal, overload
__all__ = ["AsyncThing"]
class _Private: ...
class AsyncThing:
    {code}
"""
    package(tmp_path, text, {"AsyncThing": "thing_async.thing"})
    with pytest.raises(RefusalError, match=r"thing_async/thing.py:1\d: ") as caught:
        generate(tmp_path, THINGS)
    assert message in str(caught.value)


THINGS = Plan("thing_async", "thing_sync", (Unit("thing_sync.thing", ("thing_async.thing",)),))


def package(root: Path, text: str, exports: dict[str, str]) -> None:
    """Write a package with one module."""
    folder = root / "thing_async"
    folder.mkdir()
    (folder / "thing.py").write_text(text)
    (folder / "__init__.py").write_text(
        f"__all__ = {sorted(exports)}\n__getattr__, __dir__ = lazy_exports(__name__, {exports})\n"
    )


@pytest.mark.parametrize("head", ["class AsyncThing(dict):", "@final\nclass AsyncThing:"])
def test_a_class_that_is_more_than_a_class_is_refused(head: str, tmp_path: Path) -> None:
    """A base without a twin, or a decorator, would be lost."""
    package(
        tmp_path, f'__all__ = ["AsyncThing"]\n{head} ...\n', {"AsyncThing": "thing_async.thing"}
    )
    with pytest.raises(RefusalError, match="AsyncThing: bases need twins"):
        generate(tmp_path, THINGS)


def test_every_fault_of_a_run_is_named(tmp_path: Path) -> None:
    """One run is enough to learn what to change."""
    text = '__all__ = ["AsyncThing"]\nclass AsyncThing:\n    async def f(self): ...\n    g = 1\n'
    package(tmp_path, text, {"AsyncThing": "thing_async.thing"})
    with pytest.raises(RefusalError) as caught:
        generate(tmp_path, THINGS)
    assert [line.split(":")[1] for line in str(caught.value).splitlines()] == ["3", "4"]


def test_everything_public_and_async_must_be_planned(tmp_path: Path) -> None:
    """A new client that nobody put into the plan is found, and so is one under a plain name."""
    text = '__all__ = ["AsyncThing", "f"]\nclass AsyncThing: ...\nasync def f() -> None: ...\n'
    package(tmp_path, text, {"AsyncThing": "thing_async.thing", "f": "thing_async.thing"})
    forgotten = replace(THINGS, units=())
    with pytest.raises(RefusalError, match=r"thing.py:2: AsyncThing is public"):
        generate(tmp_path, forgotten)
    listed = replace(forgotten, async_only={"AsyncThing": "not yet", "f": "not yet"})
    assert list(generate(tmp_path, listed)) == [Path("thing_sync/__init__.py")]
    (tmp_path / "thing_async" / "thing.py").write_text(
        '__all__ = ["Plain"]\nclass Plain:\n    async def f(self) -> None: ...\n'
    )
    with pytest.raises(RefusalError, match="is not called AsyncPlain"):
        generate(tmp_path, THINGS)


def test_entries_that_nothing_uses_fail(tmp_path: Path) -> None:
    """Exceptions do not outlive their reason."""
    text = '__all__ = ["AsyncThing"]\nclass AsyncThing:\n    """A thing."""\n'
    package(tmp_path, text, {"AsyncThing": "thing_async.thing"})
    plan = replace(THINGS, async_only={"AsyncThing.gone": ""}, phrases={"gone too": ""})
    with pytest.raises(RefusalError) as caught:
        generate(tmp_path, plan)
    assert "AsyncThing.gone, which does not exist" in str(caught.value)
    assert "no docstring says 'gone too'" in str(caught.value)


@pytest.mark.slow  # `make lint` runs the command itself
def test_the_facade_in_the_repository_is_up_to_date() -> None:
    """What CI runs: ``python -m prime_sync._generate --check``."""
    done = subprocess.run(
        [sys.executable, "-m", "prime_sync._generate", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
