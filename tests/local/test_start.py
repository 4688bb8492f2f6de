"""Starting the embedded platform: one per home, detached, found again, private."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prime_async import local
from prime_async._version import __version__
from prime_async.config import load_settings
from prime_async.errors import ConfigError, LocalPlatformError, UsageError
from prime_async.local import start
from prime_async.local.health import Health, probe

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform needs POSIX")


def state_of(home: Path) -> dict[str, Any]:
    return json.loads((home / ".prime/local/state.json").read_text())


def change_state(home: Path, **changes: Any) -> None:
    path = home / ".prime/local/state.json"
    path.write_text(json.dumps({**state_of(home), **changes}))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_start_and_use(platform_home: Path) -> None:
    """One call brings an address that answers, a context for all clients, and private files."""
    before = os.umask(0o022)
    try:
        address = await local.ensure_running()
    finally:
        os.umask(before)
    assert address.started
    port = int(address.base_url.rpartition(":")[2])
    assert await probe(address.unix_socket, port) == Health(__version__)
    assert await probe(None, port) == Health(__version__)
    settings = load_settings(context="local")
    assert settings.base_url == address.base_url
    assert settings.api_key == address.api_key
    assert settings.unix_socket == address.unix_socket
    assert address.environment() == {
        "PRIME_API_BASE_URL": address.base_url,
        "PRIME_API_KEY": address.api_key,
        "PRIME_TRACES_URL": address.base_url,
    }
    again = await local.ensure_running()
    assert not again.started
    assert again == address
    for path in [platform_home / ".prime", *(platform_home / ".prime").rglob("*")]:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


async def test_official_command_finds_it(
    platform_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The context file is one the official command reads."""
    official = pytest.importorskip("prime_cli.core.config")
    address = await local.ensure_running()
    monkeypatch.setenv("PRIME_CONTEXT", "local")
    config = official.Config()
    assert (config.base_url, config.api_key) == (address.base_url, address.api_key)
    assert config.traces_url == address.base_url


_STARTER = """
import anyio
from prime_async import local
address = anyio.run(local.ensure_running)
print(address.started, address.base_url)
"""


@pytest.mark.parametrize("count", [5, pytest.param(20, marks=pytest.mark.slow)])
async def test_many_processes_start_one(platform_home: Path, count: int) -> None:
    """However many need it at once, one platform is started and all get its address."""
    starters = [
        subprocess.Popen([sys.executable, "-c", _STARTER], stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    said = [(await asyncio.to_thread(starter.communicate, timeout=90))[0] for starter in starters]
    assert [starter.returncode for starter in starters] == [0] * count
    assert sum(line.startswith("True") for line in said) == 1
    assert len({line.split()[1] for line in said}) == 1


async def test_many_tasks_start_one(platform_home: Path) -> None:
    """The same within one process."""
    addresses = await asyncio.gather(*(local.ensure_running() for _ in range(10)))
    assert sum(address.started for address in addresses) == 1
    assert len({address.base_url for address in addresses}) == 1


async def test_platform_outlives_its_starter(
    platform_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a session, streams and an environment of its own, and nobody's descriptors."""
    monkeypatch.setenv("PRIME_API_KEY", "sk-CANARY-123")
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    script = (
        "import sys, os, anyio, signal\n"
        "from prime_async import local\n"
        "anyio.run(local.ensure_running)\n"
        "os.killpg(0, signal.SIGKILL)\n"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", script],
        close_fds=False,
        process_group=0,
        stdin=subprocess.DEVNULL,
    )
    os.close(writing)
    assert await asyncio.to_thread(starter.wait, 60) == -signal.SIGKILL
    # End of file although the platform lives: it does not hold the other end.
    assert await asyncio.to_thread(os.read, reading, 1) == b""
    os.close(reading)
    found = await local.status()
    assert found.answering
    process = Path(f"/proc/{found.pid}")
    if process.exists():
        environment = (process / "environ").read_bytes()
        assert b"CANARY" not in environment
        assert b"PRIME_" not in environment
        assert b"CANARY" not in (process / "cmdline").read_bytes()
        assert os.getsid(found.pid or 0) == found.pid
        streams = [os.readlink(process / "fd" / number) for number in "012"]
        assert streams == ["/dev/null", str(found.log), str(found.log)]


async def test_cancelled_start_does_no_harm(platform_home: Path) -> None:
    """Ctrl-C while it starts: the next call finds or starts one."""
    task = asyncio.create_task(local.ensure_running())
    started = platform_home / ".prime/local/start.lock"
    while not started.exists():
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    address = await local.ensure_running()
    assert await probe(address.unix_socket, 0) is not None


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_restart_keeps_port_and_key(platform_home: Path, end: str) -> None:
    """Clients that were told an address once keep it, also over a crash."""
    first = await local.ensure_running()
    if end == "stop":
        await local.stop()
        assert state_of(platform_home)["pid"] is None
    else:
        pid = state_of(platform_home)["pid"]
        os.kill(pid, signal.SIGKILL)
    second = await local.ensure_running()
    assert second.started
    assert second == first
    assert second.notes == ()


async def test_stale_pid_of_another_process(platform_home: Path) -> None:
    """A number that another process got later is not taken for the platform, nor ever signalled."""
    await local.ensure_running()
    await local.stop()
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            change_state(platform_home, pid=other.pid, process_start="earlier")
            assert not (await local.status()).running
            assert not (await local.stop()).was_running
            assert (await local.ensure_running()).started
            assert other.poll() is None
        finally:
            other.kill()


async def test_damaged_state_is_set_aside(platform_home: Path) -> None:
    """Everything in the state can be made anew: a damaged one is kept beside and does not block."""
    await local.ensure_running()
    await local.stop()
    path = platform_home / ".prime/local/state.json"
    path.write_text('{"port": "x"')
    with pytest.raises(ConfigError, match=r"state\.json:1:"):
        await local.status()
    assert (await local.ensure_running()).started
    assert path.with_suffix(".json.damaged").read_text() == '{"port": "x"'


async def test_deleted_context_is_written_again(platform_home: Path) -> None:
    """While the platform runs, asking for it repairs the context file."""
    address = await local.ensure_running()
    path = platform_home / ".prime/environments/local.json"
    path.unlink()
    assert await local.ensure_running() == address
    assert json.loads(path.read_text())["base_url"] == address.base_url


async def test_lost_socket_leaves_the_port(platform_home: Path) -> None:
    """A runtime folder emptied at logout does not make the running platform unreachable."""
    first = await local.ensure_running()
    assert first.unix_socket is not None
    Path(first.unix_socket).unlink()
    second = await local.ensure_running()
    assert not second.started
    assert (second.base_url, second.unix_socket) == (first.base_url, None)
    assert load_settings(context="local").unix_socket is None
    assert (await local.status()).answering


async def test_home_shared_with_another_machine(
    platform_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is held by no process of this machine: that is said, with the other one named."""
    await local.ensure_running()
    real = state_of(platform_home)
    change_state(platform_home, process_start="other-boot/1", host="node-7", unix_socket=None)
    monkeypatch.setattr(start, "_WRITE_SECONDS", 0.2)
    with pytest.raises(LocalPlatformError, match="in use on node-7"):
        await local.ensure_running()
    change_state(platform_home, **real)


async def test_older_platform_is_replaced(platform_home: Path) -> None:
    """After an upgrade the next use brings the new version, keeps the address and says so."""
    first = await local.ensure_running()
    change_state(platform_home, version="0.0.9")
    before = state_of(platform_home)["pid"]
    second = await local.ensure_running()
    assert second.started
    assert second == first
    assert second.notes == (f"the local platform was restarted: version 0.0.9 -> {__version__}",)
    assert state_of(platform_home)["pid"] != before


async def test_older_platform_with_live_things_stays(
    platform_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade does not end what is going on."""
    await local.ensure_running()
    change_state(platform_home, version="0.0.9")

    async def busy(*_: object, **__: object) -> Health:
        return Health("0.0.9", live=2)

    monkeypatch.setattr(start, "probe", busy)
    again = await local.ensure_running()
    assert not again.started
    assert "2 things live in it" in again.notes[0]


async def test_newer_platform_is_used_as_it_is(platform_home: Path) -> None:
    """Two installations of different age do not restart each other's platform in turns."""
    await local.ensure_running()
    change_state(platform_home, version="99.0")
    again = await local.ensure_running()
    assert not again.started
    assert again.notes == ()


async def test_platform_that_does_not_answer(platform_home: Path) -> None:
    """A stopped process is an error within the time limit that names the log; later it is used."""
    await local.ensure_running()
    found = await local.status()
    assert found.pid is not None
    os.kill(found.pid, signal.SIGSTOP)
    try:
        with pytest.raises(LocalPlatformError, match=r"not ready within 0\.5 s") as caught:
            await local.ensure_running(timeout=0.5)
        assert str(found.log) in str(caught.value)
        hung = await local.status(timeout=0.2)
        assert (hung.running, hung.answering) == (True, False)
    finally:
        os.kill(found.pid, signal.SIGCONT)
    assert not (await local.ensure_running()).started


async def test_failing_start_says_why(platform_home: Path) -> None:
    """The reason given by the daemon reaches the caller, with the log."""
    (platform_home / ".prime/local/platform.sqlite3").mkdir(parents=True)
    with pytest.raises(LocalPlatformError, match="did not start") as caught:
        await local.ensure_running()
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert not (await local.status()).running
    log = (platform_home / ".prime/local/server.log").read_text("utf-8")
    assert "not_started reason=" in log


async def test_home_that_cannot_be_written(platform_home: Path) -> None:
    """A home that does not exist is named before anything is started."""
    with pytest.raises(ConfigError, match="cannot create the directory"):
        await local.ensure_running(home=platform_home / "nowhere")


@pytest.mark.parametrize("port", [0, -1, 65536])
async def test_port_out_of_range(platform_home: Path, port: int) -> None:
    """A number that is no port is refused at once."""
    with pytest.raises(UsageError, match=r"1..65535"):
        await local.ensure_running(port=port)
    assert list(platform_home.iterdir()) == []


async def test_long_home_gets_a_short_socket(platform_home: Path) -> None:
    """Where the path would be too long for a socket, it is elsewhere, private, and works."""
    long_home = platform_home / ("h" * 100)
    long_home.mkdir()
    address = await local.ensure_running(home=long_home)
    try:
        assert address.unix_socket is not None
        socket = Path(address.unix_socket)
        assert long_home not in socket.parents
        assert len(str(socket)) <= 100
        assert mode(socket.parent) == 0o700
        assert mode(socket) == 0o600
        assert await probe(address.unix_socket, 0) is not None
        assert load_settings(home=long_home, context="local").unix_socket == address.unix_socket
    finally:
        await local.stop(home=long_home)
    assert not socket.exists()


async def test_FR57_key_is_not_shown(platform_home: Path) -> None:
    """Neither reprs nor the log hold the key."""
    address = await local.ensure_running()
    found = await local.status()
    assert address.api_key not in f"{address!r} {found!r}"
    assert address.api_key not in found.log.read_text()
    assert address.api_key not in repr(start.State(1, api_key=address.api_key))
