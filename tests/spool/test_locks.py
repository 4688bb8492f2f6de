"""One owner per entry, over processes, forks and crashes, with flock and without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from prime_async.errors import SpoolError
from prime_async.spool import EntryLock, Holder, Ranges, Spool, locks, pidlock, processes

_PREAMBLE = """
import os, sys
from pathlib import Path
from prime_async.spool import EntryLock, Spool, locks
root = Path(sys.argv[1])
if sys.argv[2] == "pidfile":
    locks._try_flock = lambda fd: None
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(params=["flock", "pidfile"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind of lock in turn, here and in the processes of the test."""
    if request.param == "pidfile":
        monkeypatch.setattr(locks, "_try_flock", lambda _: None)
    return str(request.param)


@pytest.fixture
def start(tmp_path: Path, kind: str) -> Iterator[Start]:
    """Starts processes that run a program on the spool of the test."""
    running: list[subprocess.Popen[str]] = []

    def launch(program: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", _PREAMBLE + program, str(tmp_path), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield launch
    for process in running:
        process.kill()
        process.communicate()


_OWN = """
with Spool(root).create("k", "one") as writer:
    writer.data(0, b"{}")
    print("owned", flush=True)
    sys.stdin.readline()
print("let go", flush=True)
sys.stdin.readline()
"""


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _answer(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_living_owner_is_recognised(tmp_path: Path, start: Start) -> None:
    """While the push runs nobody else delivers; reading goes on; when it lets go, one may."""
    owner = start(_OWN)
    assert _line(owner) == "owned"
    entry = Spool(tmp_path).open("k", "one")
    assert entry.try_take_over() is None
    holder = entry.holder()
    assert holder is not None
    assert (holder.pid, holder.purpose) == (owner.pid, "owner")
    with pytest.raises(SpoolError, match=rf"in use by process {owner.pid} .*owner"):
        entry.take_over()
    assert [record.index for record in entry.records()] == [0]
    _answer(owner)
    assert _line(owner) == "let go"
    assert entry.holder() is None
    with entry.take_over() as writer:
        assert writer.state().undelivered.to_list() == [[0, 1]]
        assert entry.try_take_over() is None


def test_killed_owner_lets_go(tmp_path: Path, start: Start) -> None:
    """After kill -9 of the owner, even before anybody has reaped it, its records are free."""
    owner = start(_OWN)
    assert _line(owner) == "owned"
    entry = Spool(tmp_path).open("k", "one")
    assert entry.holder() is not None
    os.kill(owner.pid, signal.SIGKILL)
    os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)
    assert entry.holder() is None
    with entry.take_over() as writer:
        assert writer.state().present.to_list() == [[0, 1]]


_CONTEND = """
import random
marker = root / "inside"
won = 0
print("ready", flush=True)
sys.stdin.readline()
while won < 15:
    lock = EntryLock.acquire(root / "k" / "one", "replay")
    if lock is None:
        os.sched_yield()
        continue
    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    for _ in range(random.randrange(200)):
        os.getpid()
    marker.unlink()
    lock.release()
    won += 1
print("done", flush=True)
"""


def test_processes_contend(tmp_path: Path, start: Start) -> None:
    """Of four processes after the same entry, at no time two have it, and each gets it."""
    Spool(tmp_path).create("k", "one").close()
    contenders = [start(_CONTEND) for _ in range(4)]
    assert [_line(process) for process in contenders] == ["ready"] * 4
    for process in contenders:
        _answer(process)
    assert [_line(process) for process in contenders] == ["done"] * 4
    assert [process.wait(30) for process in contenders] == [0] * 4


_TAKE_ONCE = """
print("ready", flush=True)
sys.stdin.readline()
lock = EntryLock.acquire(root / "k" / "one", "replay")
print("won" if lock else "lost", flush=True)
sys.stdin.readline()
"""


def test_one_inherits_from_the_dead(tmp_path: Path, start: Start) -> None:
    """Of several that find the owner dead at the same time, exactly one takes its place."""
    owner = start(_OWN)
    assert _line(owner) == "owned"
    heirs = [start(_TAKE_ONCE) for _ in range(4)]
    assert [_line(process) for process in heirs] == ["ready"] * 4
    owner.kill()
    owner.wait()
    for process in heirs:
        _answer(process)
    assert sorted(_line(process) for process in heirs) == ["lost", "lost", "lost", "won"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_of_the_owner(tmp_path: Path, start: Start) -> None:
    """A child can neither write to, delete nor hold its parent's entry, and may end cleanly."""
    owner = start("""
from prime_async.errors import SpoolError
writer = Spool(root).create("k", "one")
writer.data(0, b"{}")
writer._segments.lock.acquire()  # as if another thread were writing at the moment of the fork
pid = os.fork()
if pid == 0:
    refused = 0
    for call in (lambda: writer.data(1, b"{}"), lambda: writer.end(1), writer.sync, writer.prune,
                 writer.state, lambda: writer.remove(discard=True)):
        try:
            call()
        except SpoolError as error:
            refused += "fork" in str(error)
    writer.close()
    os.write(1, b"child %d\\n" % refused)
    sys.stdin.readline()
    os._exit(0)
writer._segments.lock.release()
writer.data(1, b"{}")
os.write(1, b"parent\\n")
os.kill(os.getpid(), 9)
""")
    assert sorted([_line(owner), _line(owner)]) == ["child 6", "parent"]
    owner.wait()
    entry = Spool(tmp_path).open("k", "one")
    # The child is still alive: it must not keep what its dead parent owned.
    with entry.take_over() as writer:
        assert writer.state().present.to_list() == [[0, 2]]


def test_entry_removed_while_waiting(tmp_path: Path, kind: str) -> None:
    """Who comes for an entry that is being deleted gets an error or nothing, not a ghost."""
    writer = Spool(tmp_path).create("k", "one")
    entry = Spool(tmp_path).open("k", "one")
    writer.end(0)
    writer.remove()
    with pytest.raises(SpoolError, match=r"No such file"):
        entry.try_take_over()
    assert entry.holder() is None
    assert kind


def test_lock_of_a_deleted_folder_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened before the removal, locked after it: the lock is of a file nobody can see any more."""
    writer = Spool(tmp_path).create("k", "one")
    real = locks._try_flock

    def late(fd: int) -> bool | None:
        monkeypatch.setattr(locks, "_try_flock", real)
        writer.remove(discard=True)
        Spool(tmp_path).create("k", "one").close()
        return real(fd)

    monkeypatch.setattr(locks, "_try_flock", late)
    assert EntryLock.acquire(writer.entry.path, "replay") is None


def test_releasing_twice(tmp_path: Path, kind: str) -> None:
    """A second release changes nothing, not even when another has the entry by then."""
    Spool(tmp_path).create("k", "one").close()
    folder = tmp_path / "k" / "one"
    first = EntryLock.acquire(folder, "replay")
    assert first is not None
    first.release()
    second = EntryLock.acquire(folder, "replay")
    assert second is not None
    first.release()
    assert EntryLock.acquire(folder, "replay") is None
    assert EntryLock.holder(folder) is not None
    second.release()
    assert kind


def test_two_owners_in_one_process(tmp_path: Path, kind: str) -> None:
    """Two parts of one program exclude each other as two processes do."""
    with Spool(tmp_path).create("k", "one") as writer:
        assert Spool(tmp_path).open("k", "one").try_take_over() is None
        writer.data(0, b"{}")
    assert kind


class TestPidFiles:
    """What the fall-back does with locks that are not simply held or free."""

    @pytest.fixture(autouse=True)
    def _without_flock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(locks, "_try_flock", lambda _: None)

    @staticmethod
    def _leave(tmp_path: Path, content: bytes) -> Path:
        (tmp_path / "lock.3").write_bytes(content)
        return tmp_path / "lock.3"

    def test_pid_in_use_by_another_program(self, tmp_path: Path) -> None:
        """A process that has the owner's number but began at another time is not the owner."""
        mine = Holder.this_process("owner")
        other = msgspec.structs.replace(mine, started="some other time")
        self._leave(tmp_path, msgspec.json.encode(other))
        assert EntryLock.holder(tmp_path) is None
        lock = EntryLock.acquire(tmp_path, "replay")
        assert lock is not None
        assert [p.name for p in tmp_path.glob("lock.*")] == ["lock.4"]
        lock.release()

    def test_other_machine_counts_as_alive(self, tmp_path: Path) -> None:
        """A machine that cannot be asked may still be delivering; its name is in the message."""
        mine = Holder.this_process("owner")
        other = msgspec.structs.replace(mine, host="elsewhere", pid=1)
        self._leave(tmp_path, msgspec.json.encode(other))
        assert EntryLock.acquire(tmp_path, "replay") is None
        assert str(EntryLock.holder(tmp_path)) == "process 1 on elsewhere (owner)"

    def test_lock_that_is_being_written(self, tmp_path: Path) -> None:
        """An empty lock is about to be filled in; after a minute it is what a crash left."""
        path = self._leave(tmp_path, b"")
        assert EntryLock.acquire(tmp_path, "replay") is None
        os.utime(path, (0, 0))
        lock = EntryLock.acquire(tmp_path, "replay")
        assert lock is not None
        lock.release()

    def test_late_comer_steps_back(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who saw an old state and took a number below the newest lets it be."""
        real = pidlock._last
        seen = iter([1])  # as it was before two others came and went
        self._leave(tmp_path, msgspec.json.encode(Holder.this_process("owner")))
        monkeypatch.setattr(pidlock, "_last", lambda folder: next(seen, None) or real(folder))
        assert EntryLock.acquire(tmp_path, "replay") is None
        assert [path.name for path in tmp_path.glob("lock.*")] == ["lock.3"]

    def test_unreadable_file_system_is_an_error(self, tmp_path: Path) -> None:
        """No folder, no lock."""
        with pytest.raises(SpoolError, match="cannot lock"):
            EntryLock.acquire(tmp_path / "none", "replay")


def test_file_systems_without_flock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where flock is not supported the fall-back takes over; other errors are errors."""
    import errno
    import fcntl

    folder = tmp_path
    code = errno.ENOLCK

    def refuse(_fd: int, _how: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    lock = EntryLock.acquire(folder, "replay")
    assert lock is not None
    assert (folder / "lock.1").exists()
    assert EntryLock.acquire(folder, "replay") is None
    lock.release()
    code = errno.EIO
    with pytest.raises(SpoolError, match="cannot lock"):
        EntryLock.acquire(folder, "replay")


def test_start_time_by_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    """On systems without /proc the start time comes from ps, and goes with the process."""
    monkeypatch.setattr(processes, "_started_by_proc", processes._started_by_ps)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    holder = msgspec.structs.replace(
        Holder.this_process("owner"), pid=process.pid, started=processes._started(process.pid)
    )
    assert holder.started
    assert holder.alive
    process.communicate(b"\n")
    assert not holder.alive


def test_unknown_start_time_counts_as_alive() -> None:
    """Where the system tells no start time, only the owner can let go."""
    holder = msgspec.structs.replace(Holder.this_process("owner"), pid=1 << 22, started=None)
    assert holder.alive


def test_delivery_by_the_next_process(tmp_path: Path, start: Start) -> None:
    """What a killed process left is delivered by another, and the entry is gone after that."""
    owner = start(_OWN)
    assert _line(owner) == "owned"
    owner.kill()
    owner.wait()
    spool = Spool(tmp_path)
    writer = spool.open("k", "one").take_over()
    writer.cut(Ranges([(0, 1)]))
    writer.ack(Ranges([(0, 1)]))
    writer.end(1)
    writer.remove()
    assert spool.entries() == []
