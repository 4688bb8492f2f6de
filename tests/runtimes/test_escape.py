"""What an escape would try; run as root and, by `test_ordinary.py`, as an ordinary user."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest
import pytest_asyncio

from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime
from prime_async.server.runtimes.errors import CommandRefusedError, SandboxFileError
from prime_async.server.runtimes.protocol import ExecSpec, TerminalSize
from prime_async.server.runtimes.sandbox import Sandbox
from tests.runtimes.boxes import chunks, ending, finish, run, sh, spec

pytestmark = pytest.mark.asyncio(loop_scope="module")

CANARY = "canary of the host"


def status_of(pid: int) -> dict[str, str]:
    """What the kernel says about a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


async def test_no_process_runs_as_host_root(isolated: Sandbox) -> None:
    """Neither keeper nor command: other ids, no capability, no way to new privileges."""
    command = await isolated.exec(ExecSpec(("/bin/sleep", "60")))
    for pid in (isolated.record.pid, command.host_pid):
        found = status_of(pid)
        assert "0" not in found["Uid"].split()
        assert "0" not in found["Gid"].split()
        assert {found[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
        assert found["NoNewPrivs"] == "1"
    await command.aclose()


async def test_the_spawner_is_not_root_either(isolating: BubblewrapRuntime) -> None:
    """And others of its user cannot read its memory."""
    await isolating.start(spec())
    pid = isolating.spawner.pid
    assert pid is not None
    found = status_of(pid)
    assert "0" not in found["Uid"].split()
    assert int(found["CapPrm"], 16) == 0
    assert Path(f"/proc/{pid}/mem").stat().st_uid == 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attacked(shared_isolating: BubblewrapRuntime) -> AsyncIterator[Sandbox]:
    """One sandbox for attempts that change nothing when they fail."""
    box = await shared_isolating.start(spec(timeout_seconds=3600.0))
    try:
        yield box
    finally:
        await box.stop()


@pytest.mark.parametrize(
    "attempt",
    [
        "mount -o remount,rw,bind /usr",
        "mount -o remount,rw /usr",
        "umount -l /usr",
        "mount -t tmpfs none /mnt",
        "mount -t proc proc /mnt",
        "touch /usr/escaped",
        "touch /usr/bin/escaped",
        "echo '|/app/x' > /proc/sys/kernel/core_pattern",
        "echo 1 > /proc/sys/vm/overcommit_memory",
        "echo 7 > /proc/sys/user/max_user_namespaces",
        "echo b > /proc/sysrq-trigger",
        "mkdir /sys/fs/cgroup/escaped",
        "cat /sys/kernel/uevent_helper",
        "mknod /app/disk b 254 0",
        "mknod /app/kmem c 1 2",
        "cat /dev/mem",
        "cat /dev/vda",
        "cat /proc/kcore",
        "cat /etc/shadow",
        "unshare -Ur true",
        "unshare -m true",
        "unshare -n true",
        "unshare -p -f true",
        "chroot / true",
        "hostname escaped",
        "date -s 2000-01-01",
        "ip link set lo down",
        "echo x > /dev/escaped",
        "chown 1234 /app",
        "kill -9 1 && sleep 0.2 && kill -0 1 && exit 1",
    ],
)
async def test_an_attempt_from_inside_fails(attacked: Sandbox, attempt: str) -> None:
    """Refused by the kernel; the host's files are as before, and the sandbox still runs."""
    done = await sh(attacked, attempt)
    assert done.code != 0, done.stdout
    for path in ("/usr/escaped", "/usr/bin/escaped"):
        assert not Path(path).exists()
    assert (await sh(attacked, "echo fine")).stdout == "fine\n"


async def test_kill_everything_does_not_end_the_sandbox(isolated: Sandbox) -> None:
    """``kill -9 -1`` ends commands, not the keeper."""
    await sh(isolated, "kill -9 -1")
    assert (await sh(isolated, "echo fine")).stdout == "fine\n"


async def test_setuid_programs_give_nothing(isolated: Sandbox) -> None:
    """Neither the host's nor one of the sandbox's own."""
    await sh(isolated, "cp /usr/bin/id /app/id; chmod 6755 /app/id; chmod 777 /app")
    try:
        done = await run(isolated, "/app/id", "-u", user="user")
    except CommandRefusedError:
        # One user only: then there is nobody to become.
        done = await run(isolated, "/app/id", "-u")
        assert done.stdout == "0\n"
        return
    assert done.stdout == "1000\n"
    assert (await sh(isolated, "su -c id", user="user", stdin=False)).code != 0


async def test_host_processes_are_neither_seen_nor_signalled(isolated: Sandbox) -> None:
    """It has numbers of its own, and sees nobody else's."""
    done = await sh(isolated, "ls -d /proc/[0-9]* | wc -l")
    assert int(done.stdout) <= 6
    done = await sh(isolated, f"kill -9 {os.getpid()}; kill -9 {isolated.record.pid}")
    assert done.code != 0
    done = await sh(isolated, "cat /proc/1/environ; readlink /proc/1/cwd; cat /proc/1/cmdline")
    assert str(isolated.state.folder) not in done.stdout


async def test_loopback_and_abstract_sockets_of_the_host_are_not_reached(
    isolated: Sandbox,
) -> None:
    """Its network is its own, and what listens here is not there."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        port = server.getsockname()[1]
        name = f"prime-async-test-{os.getpid()}"
        local.bind(f"\0{name}")
        local.listen()
        script = f"""
import socket
for address in (("127.0.0.1", {port}), ("10.0.2.15", {port}), ("169.254.169.254", 80)):
    s = socket.socket(); s.settimeout(2)
    try: s.connect(address)
    except OSError: pass
    else: print("reached", address)
s = socket.socket(socket.AF_UNIX)
try: s.connect("\\0{name}")
except OSError: pass
else: print("reached the abstract socket")
print(sorted(name for _, name in socket.if_nameindex()))
"""
        done = await run(isolated, "python3", "-c", script)
        assert done.stdout == "['lo']\n", done.stderr


async def test_the_proxy_leads_to_nothing_of_the_host(isolated: Sandbox) -> None:
    """The only way out does not lead back to the host, whatever it is called."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        own = socket.gethostname()
        names = ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0.0.0.0"]
        names += ["169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "[::]"]
        script = f"""
import socket
for name in {names!r}:
    for head in (f"CONNECT {{name}}:{port} HTTP/1.1", f"GET http://{{name}}:{port}/ HTTP/1.1"):
        s = socket.create_connection(("127.0.0.1", 41080), 5)
        s.sendall(head.encode() + b"\\r\\n\\r\\n")
        print(s.recv(12).decode())
"""
        done = await run(isolated, "python3", "-c", script)
        assert set(done.stdout.split("\n")) == {"HTTP/1.1 403", ""}, (done.stdout, own)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_the_servers_own_files_are_not_there(store: Path, refusal: str) -> None:
    """Nor the folder of all sandboxes, nor what a home holds, nor the environment of the server."""
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    os.environ["PRIME_API_KEY"] = "canary-key"
    secret = store.parent / "api_key"
    secret.write_text(CANARY)
    try:
        # Entered now: its spawner is a child that could have inherited the variable.
        async with BubblewrapRuntime(store) as runtime, ending(runtime):
            box = await runtime.start(spec(environment={"MINE": "1"}))
            await runtime.start(spec(environment={"OTHER": "canary-other"}))
            script = (
                f"cat {secret}; ls {store} {store.parent}; env; cat /proc/*/environ;"
                "ls -A /root /run; grep -r canary / --include=kept.json 2>/dev/null"
            )
            done = await sh(box, script)
        assert "canary" not in done.stdout
        assert "api_key" not in done.stdout
        assert "meta" not in done.stdout
    finally:
        del os.environ["PRIME_API_KEY"]


async def test_another_sandbox_is_out_of_reach(isolating: BubblewrapRuntime) -> None:
    """Its files, processes, loopback and shared memory."""
    one, two = await isolating.start(spec()), await isolating.start(spec())
    script = (
        "echo canary > /app/secret; echo canary > /tmp/secret; echo canary > /dev/shm/secret;"
        "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & echo"
    )
    await sh(one, script)
    script = (
        "cat /app/secret /tmp/secret /dev/shm/secret; ls /dev/shm; pgrep -f http.server;"
        "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 8123), 2)\"; ipcs -m"
    )
    done = await sh(two, script)
    assert "canary" not in done.stdout
    assert "refused" in done.stderr


@pytest.fixture
def bait(isolated: Sandbox) -> Iterator[Path]:
    """A file of the host, and links to it in every place of the sandbox."""
    store = isolated.state.folder.parent
    bait = store.parent / "bait"
    bait.mkdir()
    (bait / "file").write_text(CANARY)
    (bait / "file").chmod(0o666)
    bait.chmod(0o777)
    store.parent.chmod(0o755)
    app = isolated.state.folder / "root" / "app"
    (app / "absolute").symlink_to(bait / "file")
    (app / "upwards").symlink_to("../" * 12 + str(bait / "file").lstrip("/"))
    (app / "folder").symlink_to(bait)
    (app / "magic").symlink_to(f"/proc/{os.getpid()}/root{bait}/file")
    (app / "magic-folder").symlink_to("/proc/1/root")
    (app / "self").symlink_to("/proc/self/root")
    yield bait
    store.parent.chmod(0o700)
    shutil.rmtree(bait)


LINKS = [
    "/app/absolute",
    "/app/upwards",
    "/app/folder/file",
    "/app/magic",
    "/app/magic-folder/etc/passwd",
    "/app/self/etc/passwd",
    "/proc/self/root/etc/passwd",
    "/proc/1/root/etc/passwd",
    "/proc/kcore",
    "/proc/sys/kernel/core_pattern",
    "/app/../../../../../../..{bait}/file",
    "{bait}/file",
]


@pytest.mark.parametrize("link", LINKS)
async def test_no_file_call_leads_out(isolated: Sandbox, bait: Path, link: str) -> None:
    """Reading, writing, listing, walking, making and deleting through links and dots."""
    files = isolated.files
    path = link.format(bait=bait)

    async def attempt(call: object) -> bytes:
        try:
            return repr(await call).encode()  # type: ignore[misc]  # a coroutine of any kind
        except SandboxFileError:
            return b""

    seen = b"".join(
        [
            await attempt(files.read(path)),
            await attempt(files.stat(path)),
            await attempt(files.digest(path)),
            await attempt(files.list(path)),
            await attempt(files.list(path.rpartition("/")[0])),
            await attempt(files.upload(path, chunks(b"escaped"))),
            await attempt(files.upload(path + "/new", chunks(b"escaped"))),
            await attempt(files.mkdir(path)),
            await attempt(files.mkdir(path + "-new/a")),
            await attempt(files.delete(path, recursive=True)),
        ]
    )
    assert CANARY.encode() not in seen
    assert (bait / "file").read_text() == CANARY
    assert sorted(os.listdir(bait)) == ["file"]
    assert "escaped" not in Path("/proc/sys/kernel/core_pattern").read_text()


async def test_a_race_of_names_leads_nowhere(isolated: Sandbox, bait: Path) -> None:
    """A folder that turns into a link to the host and back, while files are written into it."""
    script = (
        f"cd /app; mkdir real; while :; do mv real x; ln -s {bait} real; rm real; mv x real; done"
    )
    command = await isolated.exec(ExecSpec(("/bin/bash", "-c", script)))
    with anyio.move_on_after(1):
        while True:
            for path in ("/app/real/file", "/app/real/new"):
                try:
                    await isolated.files.upload(path, chunks(b"escaped"))
                    assert CANARY.encode() not in (await isolated.files.read(path)).data
                except SandboxFileError:
                    continue
    await command.aclose()
    assert (bait / "file").read_text() == CANARY
    assert sorted(os.listdir(bait)) == ["file"]


async def test_a_terminal_is_not_what_the_sandbox_puts_there(isolated: Sandbox) -> None:
    """/dev cannot be changed, and terminals come from the sandbox's own devpts."""
    done = await sh(isolated, "rm -f /dev/ptmx; ln -sf /app/fake /dev/ptmx")
    assert done.code != 0
    command = await isolated.exec(ExecSpec(("/usr/bin/tty",), pty=TerminalSize()))
    assert (await finish(command)).stdout == "/dev/pts/0\r\n"


async def test_secrets_are_on_no_command_line(isolating: BubblewrapRuntime) -> None:
    """Nowhere on this machine, from start to end."""
    box = await isolating.start(spec(environment={"TOKEN": "canary-token"}))
    command = await box.exec(ExecSpec(("/bin/sleep", "60"), environment={"MORE": "canary-more"}))
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert b"canary-token" not in path.read_bytes()
            assert b"canary-more" not in path.read_bytes()
        except OSError:
            continue  # It ended.
    await command.aclose()


async def test_the_window_before_exec_shows_no_memory(isolated: Sandbox) -> None:
    """A copy of the spawner is a process of the sandbox for a moment: it cannot be looked into."""
    script = """
import os, time
end = time.monotonic() + 1.5
while time.monotonic() < end:
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in (1, os.getpid()): continue
        try:
            if "python" not in open(f"/proc/{name}/comm").read(): continue
            with open(f"/proc/{name}/mem", "rb"):
                # Still before exec: what was opened is the copy of the spawner.
                if "python" in open(f"/proc/{name}/comm").read(): print("mem", name)
        except OSError: pass
print("watched")
"""
    watcher = await isolated.exec(ExecSpec(("python3", "-c", script)))
    with anyio.move_on_after(1):
        while True:
            await run(isolated, "/bin/true", environment={"SECRET": "x"})
    assert (await finish(watcher)).stdout == "watched\n"


async def test_signals_from_the_server_stay_inside(isolated: Sandbox) -> None:
    """A number is one of the sandbox's own: the host's process of that number gets nothing."""
    assert not await isolated.signal(os.getpid() + 1_000_000, signal.SIGKILL)
    for pid in (0, 1, -2):
        with pytest.raises(CommandRefusedError):
            await isolated.signal(pid, signal.SIGKILL)
