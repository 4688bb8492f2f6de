"""The bridge under signals, fork and interpreter exit, each in a program of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.prime_sync.scripts import run, run_file

posix = pytest.mark.skipif(sys.platform == "win32", reason="fork and SIGINT as POSIX has them")

pytestmark = posix

SLOW = """
async def slow():
    print("started")
    try:
        await asyncio.sleep(30)
    finally:
        await asyncio.sleep(0.05)
        print("cleaned")

async def echo(value):
    return value
"""


def test_ctrl_c_cancels_the_call_waits_for_its_clean_up_and_leaves_the_bridge_usable() -> None:
    """The coroutine does not run on behind the user's back."""
    outcome = run(
        SLOW
        + """
try:
    BRIDGE.call(slow())
except KeyboardInterrupt:
    print("interrupted")
print(BRIDGE.call(echo("usable")))
""",
        interrupt_at="started",
    )
    assert outcome.lines == ["started", "cleaned", "interrupted", "usable"]
    assert (outcome.code, outcome.errors) == (0, "")
    assert outcome.seconds < 5


def test_ctrl_c_that_nobody_catches_ends_the_program_with_a_short_traceback() -> None:
    """Exit code and last line are those of any Python program."""
    outcome = run(SLOW + "BRIDGE.call(slow())", interrupt_at="started")
    assert outcome.code in (-2, 130)
    assert outcome.lines == ["started", "cleaned"]
    assert outcome.errors.splitlines()[-1] == "KeyboardInterrupt"
    assert "prime_sync" not in outcome.errors


def test_an_error_from_a_signal_handler_cancels_the_call() -> None:
    """An alarm that raises is an interruption like any other."""
    outcome = run(
        SLOW
        + """
def alarm(number, frame):
    raise TimeoutError("alarm")
signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    BRIDGE.call(slow())
except TimeoutError as error:
    print(error)
"""
    )
    assert outcome.lines == ["started", "cleaned", "alarm"]
    assert outcome.errors == ""


def test_ctrl_c_while_iterating_closes_the_source() -> None:
    """The source cleans up before the interruption goes on; the iterator has ended."""
    outcome = run(
        """
async def source():
    try:
        yield 1
        print("started")
        await asyncio.sleep(30)
    finally:
        await asyncio.sleep(0.05)
        print("cleaned")
iterator = BRIDGE.iterate(source())
try:
    for item in iterator:
        pass
except KeyboardInterrupt:
    print("interrupted", list(iterator))
""",
        interrupt_at="started",
    )
    assert outcome.lines == ["started", "cleaned", "interrupted []"]
    assert (outcome.code, outcome.errors) == (0, "")


def test_ctrl_c_inside_a_with_block_leaves_it() -> None:
    """A remote resource held by the block is given back."""
    outcome = run(
        """
import contextlib
@contextlib.asynccontextmanager
async def manager():
    try:
        yield
    finally:
        await asyncio.sleep(0.05)
        print("left")
try:
    with BRIDGE.scope(manager(), id):
        print("started")
        time.sleep(30)
except KeyboardInterrupt:
    print("interrupted")
""",
        interrupt_at="started",
    )
    assert outcome.lines == ["started", "left", "interrupted"]
    assert (outcome.code, outcome.errors) == (0, "")


def test_ctrl_c_while_entering_undoes_the_entering() -> None:
    """Half an entry is cancelled and cleaned up."""
    outcome = run(
        """
import contextlib
@contextlib.asynccontextmanager
async def manager():
    try:
        print("started")
        await asyncio.sleep(30)
        yield
    finally:
        print("undone")
try:
    with BRIDGE.scope(manager(), id):
        print("never")
except KeyboardInterrupt:
    print("interrupted")
""",
        interrupt_at="started",
    )
    assert outcome.lines == ["started", "undone", "interrupted"]
    assert (outcome.code, outcome.errors) == (0, "")


def test_ctrl_c_in_a_callback_cancels_the_call() -> None:
    """A callback runs in the main thread, so Ctrl-C reaches it, and ends the call around it."""
    outcome = run(
        """
from prime_sync._bridge import Mailbox
async def work(report):
    try:
        await report()
    finally:
        print("cleaned")
def callback():
    print("started")
    time.sleep(30)
mail = Mailbox()
try:
    BRIDGE.call(work(mail.run_callback(callback)), mail)
except KeyboardInterrupt:
    print("interrupted")
""",
        interrupt_at="started",
    )
    assert outcome.lines == ["started", "cleaned", "interrupted"]
    assert (outcome.code, outcome.errors) == (0, "")


def test_a_clean_up_that_hangs_does_not_hold_ctrl_c_for_ever() -> None:
    """After the budget the interruption goes on, and the log says what still runs."""
    outcome = run(
        """
import prime_sync._bridge as module
module.CLEANUP_SECONDS = 0.1
async def stubborn():
    print("started")
    try:
        await asyncio.sleep(30)
    finally:
        await asyncio.sleep(1)
try:
    BRIDGE.call(stubborn())
except KeyboardInterrupt:
    print("interrupted")
""",
        interrupt_at="started",
    )
    assert outcome.lines == ["started", "interrupted"]
    assert "stubborn still cleans up" in outcome.errors
    assert outcome.code == 0


FORKED = """
async def echo(value):
    return value
def child(work):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status, used = os.wait4(pid, 0)
    print("child", os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime < 1)
"""


def test_FR04_a_forked_child_has_a_loop_of_its_own() -> None:
    """Both sides go on working, each with its own thread; grandchildren too."""
    outcome = run(
        FORKED
        + """
async def where():
    return os.getpid(), threading.get_ident()
before = BRIDGE.call(where())
def work():
    assert BRIDGE.call(where()) != before
    assert BRIDGE.call(where())[0] == os.getpid()
    child(lambda: print("grandchild", BRIDGE.call(echo(1))))
child(work)
assert BRIDGE.call(where()) == before
"""
    )
    assert outcome.lines == ["grandchild 1", "child 0 True", "child 0 True"]
    assert (outcome.code, outcome.errors) == (0, "")


def test_FR04_a_child_that_ends_at_once_is_quick_and_leaves_the_parents_connection_alone() -> None:
    """Destroying inherited objects sends nothing and does not make the parent deaf."""
    outcome = run(
        FORKED
        + """
import socket
ours, peer = socket.socketpair()
async def connect():
    return await asyncio.open_connection(sock=ours)
reader, writer = BRIDGE.call(connect())
def work():
    global reader, writer
    transport = writer.transport
    writer.write(b"from the child")
    transport.abort()
    del reader, writer, transport
    gc.collect()
child(work)
peer.setblocking(False)
try:
    print("peer saw", peer.recv(100))
except BlockingIOError:
    print("peer saw nothing")
peer.setblocking(True)
async def talk():
    writer.write(b"ping")
    peer.send(b"pong")
    return await reader.read(4)
print(BRIDGE.call(talk()), peer.recv(4))
"""
    )
    assert outcome.lines == ["child 0 True", "peer saw nothing", "b'pong' b'ping'"]
    assert (outcome.code, outcome.errors) == (0, "")


def test_FR04_a_child_of_a_busy_parent_exits_normally() -> None:
    """With a call in flight in another thread, a child that runs its exit handlers still ends."""
    outcome = run(
        FORKED
        + """
started = threading.Event()
stop = threading.Event()
async def busy():
    started.set()
    while not stop.is_set():
        await asyncio.sleep(0.01)
thread = threading.Thread(target=BRIDGE.call, args=(busy(),))
thread.start()
started.wait()
pid = os.fork()
if pid == 0:
    gc.collect()
    sys.exit(0)
print(os.waitpid(pid, 0)[1])
stop.set()
thread.join()
"""
    )
    assert outcome.lines == ["0"]
    assert (outcome.code, outcome.errors) == (0, "")
    assert outcome.seconds < 10


def test_FR04_iterators_and_blocks_of_the_parent_are_not_the_childs_to_end() -> None:
    """A child cannot read on, and leaving the block there does not undo what the parent holds."""
    outcome = run(
        FORKED
        + """
import contextlib
async def numbers():
    try:
        for number in range(1000):
            yield number
    finally:
        print("source closed in", "parent" if os.getpid() == parent else "child")
@contextlib.asynccontextmanager
async def manager():
    try:
        yield
    finally:
        print("left in", "parent" if os.getpid() == parent else "child")
parent = os.getpid()
iterator = BRIDGE.iterate(numbers(), prefetch=2)
next(iterator)
def work():
    try:
        list(iterator)
    except Exception as error:
        print(type(error).__name__)
    iterator.close()
    scope.__exit__(None, None, None)
scope = BRIDGE.scope(manager(), id)
with scope:
    child(work)
print(sum(1 for _ in iterator))
"""
    )
    assert outcome.lines == [
        "WrongLoopError",
        "child 0 True",
        "left in parent",
        "source closed in parent",
        "999",
    ]
    assert (outcome.code, outcome.errors) == (0, "")


def test_fork_in_a_callback_ends_the_call_in_the_child() -> None:
    """The child has no task to wait for, and is told so."""
    outcome = run(
        """
from prime_sync._bridge import Mailbox
async def work(report):
    await report()
    return "parent done"
mail = Mailbox()
parent = os.getpid()
def callback():
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
try:
    print(BRIDGE.call(work(mail.run_callback(callback)), mail))
except RuntimeError as error:
    print(type(error).__name__)
"""
    )
    assert outcome.lines == ["WrongLoopError", "parent done"]
    assert (outcome.code, outcome.errors) == (0, "")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_of_worker_processes(method: str, tmp_path: Path) -> None:
    """Workers of every start method call the bridge, after the parent has done so."""
    program = tmp_path / "program.py"  # a file: spawned workers import the main module by path
    program.write_text(
        f"""
import multiprocessing
from prime_sync._bridge import BRIDGE
async def double(value):
    return 2 * value
def work(value):
    return BRIDGE.call(double(value))
if __name__ == "__main__":
    assert work(1) == 2
    with multiprocessing.get_context({method!r}).Pool(3) as pool:
        print(sum(pool.map(work, range(30))))
    print(work(2))
"""
    )
    outcome = run_file(program)
    assert outcome.lines == ["870", "4"]
    assert (outcome.code, outcome.errors) == (0, "")


def test_exit_with_a_call_in_flight_in_a_daemon_thread() -> None:
    """The task is cancelled and cleans up; the program ends in time and in silence."""
    outcome = run(
        SLOW
        + """
started = threading.Event()
async def in_flight():
    started.set()
    await slow()
threading.Thread(target=BRIDGE.call, args=(in_flight(),), daemon=True).start()
started.wait()
""",
    )
    assert outcome.lines[:2] == ["started", "cleaned"]
    assert outcome.code == 0
    assert "Task was destroyed" not in outcome.errors
    assert outcome.seconds < 5


def test_exit_does_not_wait_for_a_task_that_will_not_end() -> None:
    """After the budget the program ends all the same, and says so."""
    outcome = run(
        """
tasks = []
async def stubborn():
    while True:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            pass
async def begin():
    tasks.append(asyncio.create_task(stubborn()))
BRIDGE.call(begin())
"""
    )
    assert outcome.code == 0
    assert "gave up" in outcome.errors
    assert outcome.seconds < 6


def test_exit_handlers_of_the_user() -> None:
    """One registered after the first call still works; one that runs too late is told why."""
    outcome = run(
        """
async def echo(value):
    return value
def late():
    try:
        BRIDGE.call(echo(1))
    except Exception as error:
        print(type(error).__name__, error)
atexit.register(late)
BRIDGE.call(echo(0))
atexit.register(lambda: print("in time", BRIDGE.call(echo(2))))
"""
    )
    assert outcome.lines[0] == "in time 2"
    assert outcome.lines[1].startswith("PrimeError the interpreter is exiting")
    assert (outcome.code, outcome.errors) == (0, "")


def test_a_first_call_in_an_exit_handler() -> None:
    """A loop that is only wanted at exit either serves or refuses clearly, and never hangs."""
    outcome = run(
        """
async def echo(value):
    return value
def late():
    try:
        print(BRIDGE.call(echo(1)))
    except Exception as error:
        print(type(error).__name__)
atexit.register(late)
"""
    )
    assert outcome.lines in (["1"], ["PrimeError"])
    assert (outcome.code, outcome.errors) == (0, "")


def test_FR06_importing_starts_and_registers_nothing() -> None:
    """No thread, no socket, no exit or fork hook before the first call."""
    outcome = run(
        """
for name in [name for name in sys.modules if name.startswith("prime_")]:
    del sys.modules[name]
import socket
seen = []
atexit.register = lambda *args: seen.append("atexit")
os.register_at_fork = lambda **hooks: seen.append("fork hook")
threading.Thread.start = lambda self: seen.append("thread")
socket.socket.__init__ = lambda *args, **options: seen.append("socket")
import prime_sync._bridge
import prime_sync
print(seen)
"""
    )
    assert outcome.lines == ["[]"]
