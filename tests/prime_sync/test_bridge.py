"""Calls through the bridge: one test per row of behaviour that a sync client promises."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import sys
import threading
import time
import traceback
import types
import warnings
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from prime_async.errors import PrimeError, WrongLoopError
from prime_sync import _bridge
from prime_sync._bridge import Bridge
from prime_sync._mailbox import Mailbox

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE")


async def echo(value: Any) -> Any:
    return value


async def fail(error: BaseException) -> None:
    raise error


def test_returns_the_value_and_raises_the_error_itself(bridge: Bridge) -> None:
    """A call gives back the very object the coroutine returned or raised."""
    value, error = object(), ValueError("no")
    assert bridge.call(echo(value)) is value
    with pytest.raises(ValueError, match="no") as caught:
        bridge.call(fail(error))
    assert caught.value is error


def test_nothing_starts_before_the_first_call() -> None:
    """A bridge that was only made, and closed, has no thread and no loop."""
    before = threading.active_count()
    made = Bridge()
    assert threading.active_count() == before
    made.close()


def test_a_thread_that_does_not_start_is_named(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full process, or a subinterpreter, is not taken for one that exits."""

    def full(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", full)
    with pytest.raises(PrimeError, match="does not start: can't start new thread"):
        bridge.call(echo(1))
    monkeypatch.undo()
    assert bridge.call(echo(2)) == 2


def test_one_thread_and_one_loop_for_all_calls(bridge: Bridge) -> None:
    """Every calling thread is served by the same loop."""

    async def where() -> tuple[int, int]:
        return threading.get_ident(), id(asyncio.get_running_loop())

    with ThreadPoolExecutor(8) as pool:
        places = set(pool.map(lambda _: bridge.call(where()), range(64)))
    assert len(places) == 1


def test_eight_threads_with_a_thousand_calls_each(bridge: Bridge) -> None:
    """Calls from many threads at once never mix up their results."""

    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    def work(thread: int) -> int:
        return sum(bridge.call(add(thread, number)) for number in range(1000))

    with ThreadPoolExecutor(8) as pool:
        sums = list(pool.map(work, range(8)))
    assert sums == [1000 * thread + 499_500 for thread in range(8)]


def test_context_variables_of_the_caller_are_seen(bridge: Bridge) -> None:
    """The coroutine sees the caller's context, each caller its own."""

    async def read() -> str:
        return VARIABLE.get()

    def with_value(value: str) -> str:
        VARIABLE.set(value)
        return bridge.call(read())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(with_value, "abcd")) == list("abcd")


def test_background_work_goes_on_between_calls(bridge: Bridge) -> None:
    """A task that one call started moves on while no call is running."""
    done = threading.Event()
    tasks = set()

    async def begin() -> None:
        async def later() -> None:
            await asyncio.sleep(0.01)
            done.set()

        tasks.add(asyncio.create_task(later()))

    bridge.call(begin())
    assert done.wait(5)


def test_worker_threads_of_anyio_are_kept_between_calls(bridge: Bridge) -> None:
    """Two calls that use a thread use the same one: the loop has a root task for anyio."""
    anyio = pytest.importorskip("anyio.to_thread")

    async def in_thread() -> int:
        ident: int = await anyio.run_sync(threading.get_ident)
        return ident

    assert bridge.call(in_thread()) == bridge.call(in_thread())


async def test_inside_a_running_loop_it_works_and_warns_once_per_line(bridge: Bridge) -> None:
    """FR-01: a blocking call in async code is carried out; each line of it warns once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            assert bridge.call(echo(1)) == 1
        assert bridge.call(echo(2)) == 2
    assert len(caught) == 2
    assert {warning.category for warning in caught} == {RuntimeWarning}
    assert {warning.filename for warning in caught} == {__file__}
    assert "echo" in str(caught[0].message)


async def test_in_a_notebook_it_does_not_warn(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FR-01: under an IPython kernel a loop always runs, so the warning would say nothing."""
    shell = types.SimpleNamespace(kernel=object())
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert bridge.call(echo(1)) == 1


async def test_a_warning_made_an_error_leaves_no_coroutine_behind(bridge: Bridge) -> None:
    """With warnings as errors the call is refused, and nothing says 'never awaited' later."""
    coro = echo(1)
    with pytest.raises(RuntimeWarning):
        bridge.call(coro)
    del coro
    gc.collect()


def test_on_its_own_loop_thread_it_refuses_and_names_the_async_twin(bridge: Bridge) -> None:
    """A call from the loop thread would wait for itself; it fails at once instead."""

    async def reenter() -> Any:
        return bridge.call(echo(1))

    with pytest.raises(WrongLoopError, match="async client: echo"):
        bridge.call(reenter())


def test_a_traceback_shows_the_users_frames_and_the_coroutines_only(bridge: Bridge) -> None:
    """None of the bridge's own frames is in the way."""

    def generated_method() -> None:
        bridge.call(fail(KeyError("x")))

    with pytest.raises(KeyError) as caught:
        generated_method()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:] == ["generated_method", "fail"]


def test_a_variable_keeps_the_frames_of_the_bridge(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PRIME_SYNC_TRACEBACK=1 shows the whole way, for people who work on the bridge."""
    monkeypatch.setenv("PRIME_SYNC_TRACEBACK", "1")
    with pytest.raises(KeyError) as caught:
        bridge.call(fail(KeyError("x")))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:] == ["call", "_run", "fail"]


def test_a_group_of_one_error_arrives_as_that_error(bridge: Bridge) -> None:
    """A task group in the core does not turn the error a user catches into a group."""
    nested = ExceptionGroup("outer", [ExceptionGroup("inner", [KeyError("x")])])
    with pytest.raises(KeyError):
        bridge.call(fail(nested))
    two = ExceptionGroup("two", [KeyError("x"), ValueError("y")])
    with pytest.raises(ExceptionGroup, match="two"):
        bridge.call(fail(two))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_an_error_that_would_stop_a_loop_reaches_only_its_caller(
    bridge: Bridge, error: BaseException
) -> None:
    """SystemExit and its kind leave the loop running for the others."""
    with pytest.raises(type(error)):
        bridge.call(fail(error))
    assert bridge.call(echo(1)) == 1


def test_no_reference_to_the_result_or_the_error_stays(bridge: Bridge) -> None:
    """What a call returned or raised is the user's alone once the loop has turned once more."""

    class Big:
        pass

    class Broken(Exception):
        pass

    async def make() -> Big:
        return Big()

    async def broken() -> None:
        raise Broken

    result = weakref.ref(bridge.call(make()))
    try:
        bridge.call(broken())
    except Broken as error:
        failure = weakref.ref(error)
    bridge.call(echo(None))
    assert (result(), failure()) == (None, None)


def test_after_close_it_says_why_it_refuses(bridge: Bridge) -> None:
    """A call that comes after the end is refused with the way out, and leaves no coroutine."""
    bridge.call(echo(1))
    bridge.close()
    with pytest.raises(PrimeError, match="interpreter is exiting"):
        bridge.call(echo(1))
    gc.collect()


def test_close_cancels_what_is_in_flight(bridge: Bridge) -> None:
    """A call in another thread ends with the same error, after its clean-up."""
    waiting, cleaned = threading.Event(), threading.Event()

    async def forever() -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(bridge.call, forever())
        assert waiting.wait(5)
        bridge.close()
        with pytest.raises(PrimeError, match="interpreter is exiting"):
            call.result(5)
    assert cleaned.is_set()


def test_close_does_not_wait_for_ever(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A clean-up that hangs is given up after the budget, and that is said."""
    monkeypatch.setattr(_bridge, "EXIT_SECONDS", 0.05)
    release = threading.Event()

    async def begin() -> None:
        async def stubborn() -> None:
            while not release.is_set():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue

        tasks.add(asyncio.create_task(stubborn()))

    tasks: set[asyncio.Task[None]] = set()
    bridge.call(begin())
    bridge.close()
    release.set()
    assert "gave up" in caplog.text


def test_callbacks_run_in_the_calling_thread(bridge: Bridge) -> None:
    """A user's callback runs where the user called, in order, and may call the bridge itself."""
    seen: list[tuple[int, int]] = []
    mail = Mailbox()

    def progress(count: int) -> int:
        seen.append((count, threading.get_ident()))
        return bridge.call(echo(count)) * 2  # type: ignore[no-any-return]

    async def work(report: Callable[[int], Awaitable[int]]) -> int:
        return await report(1) + await report(2) + await report(3)

    assert bridge.call(work(mail.run_callback(progress)), mail) == 12
    assert seen == [(count, threading.get_ident()) for count in (1, 2, 3)]
    assert mail.run_callback(None) is None


def test_the_core_gets_what_a_callback_raises(bridge: Bridge) -> None:
    """It decides what a broken callback means, as if it had called it itself."""
    mail = Mailbox()

    def broken(number: int) -> None:
        raise ZeroDivisionError(number)

    async def work(report: Callable[[int], Awaitable[None]]) -> str:
        try:
            await report(1)
        except ZeroDivisionError as error:
            return repr(error)
        return ""

    call = work(mail.run_callback(broken))
    assert bridge.call(call, mail) == "ZeroDivisionError(1)"


def test_a_callback_that_raises_stop_iteration_ends_the_call(bridge: Bridge) -> None:
    """A future refuses it, so that the call would wait for ever; as in a coroutine it is told."""
    mail = Mailbox()

    async def work(report: Callable[[], Awaitable[None]]) -> None:
        await report()

    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        bridge.call(work(mail.run_callback(lambda: next(iter(())))), mail)
    assert isinstance(caught.value.__cause__, StopIteration)


def test_an_asynchronous_callback_is_awaited_on_the_loop(bridge: Bridge) -> None:
    """It is what a user who shares code between both faces may pass."""
    mail = Mailbox()

    async def where() -> int:
        return threading.get_ident()

    async def work(report: Callable[[], Awaitable[int]]) -> bool:
        return await report() == threading.get_ident()

    assert bridge.call(work(mail.run_callback(where)), mail)


def test_an_exit_in_a_callback_ends_the_call(bridge: Bridge) -> None:
    """SystemExit goes to the caller after the clean-up, in which no callback is run any more."""
    mail, cleaned = Mailbox(), threading.Event()

    def leave(number: int) -> None:
        raise SystemExit(number)

    async def work(report: Callable[[int], Awaitable[None]]) -> None:
        try:
            await report(1)
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await report(2)
            cleaned.set()

    with pytest.raises(SystemExit) as caught:
        bridge.call(work(mail.run_callback(leave)), mail)
    assert cleaned.is_set()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "leave"
    assert "run_pending" not in names


def test_a_call_costs_no_more_than_the_standard_librarys(bridge: Bridge) -> None:
    """Beside ``run_coroutine_threadsafe`` in the same run, in turn, the best of several.

    Processor time: the tests share their cores with others.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def cost(call: Callable[[], object]) -> float:
        began = time.process_time()
        for _ in range(500):
            call()
        return time.process_time() - began

    def ours() -> object:
        return bridge.call(echo(1))

    def theirs() -> object:
        return asyncio.run_coroutine_threadsafe(echo(1), loop).result()

    costs = [(cost(ours), cost(theirs)) for _ in range(6)]
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert min(pair[0] for pair in costs) <= min(pair[1] for pair in costs)
