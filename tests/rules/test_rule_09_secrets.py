"""Rule 9: secrets. A key is in its header and its private file, and nowhere else."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import stat
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest

from prime_async import AsyncRun
from prime_async.errors import PrimeError
from tests.cli.harness import CANARY, COMMAND
from tests.official_stub import EVALUATION, OfficialStub
from tests.rules.calls import ALL_CALLS, TOLD_INSIDE, clients
from tests.rules.handles import HANDLE_CALLS, opened, plain
from tests.rules.surfaces import CommandSurface, PythonSurface, Surface, leave_on_disk
from tests.rules.table import scenario
from tests.stub import NOTHING, Answer

ECHO = {
    "detail": [{"loc": ["body", CANARY], "msg": f"unknown key {CANARY}", "type": CANARY}],
    "error": {"code": CANARY, "message": f"Bearer {CANARY} is not welcome"},
}
"""A platform that sends the key back in every place."""

ENDINGS = {
    "fine": Answer(json={"evaluation_id": EVALUATION}),
    "refused": Answer(401, json=ECHO, headers={"X-Request-Id": CANARY}),
    "invalid": Answer(422, json=ECHO),
    "broken": Answer(500, body=f"<p>{CANARY}</p>".encode()),
    "busy": Answer(503, json=ECHO),
    "cut off": NOTHING,
    "no JSON": Answer(body=b"<html>"),
}


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything is logged that anybody can log; none of it may hold the key."""
    caplog.set_level(logging.DEBUG)
    for name in ("prime_async", "aiohttp", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    monkeypatch.setenv("PRIME_DEBUG", "1")
    yield
    assert "CANARY" not in caplog.text


@pytest.mark.usefixtures("logs")
@scenario(9)
async def test_in_no_error_and_no_log(surface: Surface, official: OfficialStub) -> None:
    """Every call, every way it can end: the key is in the header alone."""
    for ending, answer in ENDINGS.items():
        official.route("*", ".*", answer)
        for name, call in surface.calls().items():
            outcome = await call()
            shown = [outcome.said, str(outcome.hint), repr(outcome.facts), repr(outcome.receipt)]
            assert "CANARY" not in "".join(shown), (ending, name)
            if outcome.error is not None:
                _look_into(outcome.error)
    assert len(official.requests) > 50
    for request in official.requests:
        headers = {name: value for name, value in request.headers.items() if "CANARY" in value}
        assert headers == {"Authorization": f"Bearer {CANARY}"}
        assert "CANARY" not in request.target
        assert b"CANARY" not in request.body


@pytest.mark.usefixtures("logs", "quick_cleaning")
@scenario(9, shows=ALL_CALLS, not_command="its words are those of the errors, see above")
async def test_in_no_error_of_any_call(surface: PythonSurface, official: OfficialStub) -> None:
    """Refused by an answer that has the key in every place."""
    await leave_on_disk(official)
    async with clients(surface.face) as on:
        for ending in ("refused", "invalid"):
            official.route("*", ".*", ENDINGS[ending])
            for call in ALL_CALLS:
                try:
                    told = await call.on(on, timeout=1)
                except PrimeError as error:
                    _look_into(error)
                else:
                    assert call.name in {*TOLD_INSIDE, "push_samples"}
                    assert "CANARY" not in repr(told)


WHAT_HOLDS = [call for call in HANDLE_CALLS if call.takes_timeout]


@pytest.mark.usefixtures("logs", "quick_cleaning")
@scenario(9, shows=WHAT_HOLDS, not_command="it prints no objects")
async def test_in_nothing_of_runs_and_processes(
    surface: PythonSurface, official: OfficialStub, home: Path
) -> None:
    """Refused likewise: errors, receipts, what they are shown as, and what is kept of them."""
    for call in WHAT_HOLDS:
        async with opened(call.kind, surface.face, official) as handle:
            official.route("*", ".*", ENDINGS["refused"])
            if call.kind is AsyncRun:
                await plain(handle.log_trace({"id": "t"}))
            try:
                told = repr(await call.on(handle, timeout=0.2))
            except PrimeError as error:
                _look_into(error)
                told = ""
            assert "CANARY" not in f"{told} {handle!r} {vars(handle)}", call
    assert _holding_the_key(home) == []


def _look_into(error: BaseException) -> None:
    """An error as programs look at it: its words, its attributes, pickled, with its causes."""
    known: BaseException | None = error
    while known is not None:
        assert known.__cause__ is not known, f"{known!r} is its own cause"
        for form in (str(known), repr(known), repr(vars(known)), repr(known.args)):
            assert "CANARY" not in form, f"{type(known).__name__}: {form}"
        known = known.__cause__
    assert "CANARY" not in "".join(traceback.format_exception(error))
    assert b"CANARY" not in pickle.dumps(error.args)
    _look_into_frames(error.__traceback__)


def _look_into_frames(trace: TracebackType | None) -> None:
    """Crash reporters print the local variables of every frame: none of ours shows the key."""
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        if not frame.f_globals.get("__name__", "").startswith("prime_"):
            continue
        for name, value in frame.f_locals.items():
            # What the platform sent back is shown as it was sent, by aiohttp's own objects.
            if name not in ("raw", "body"):
                assert "CANARY" not in repr(value), f"{name} in {frame.f_code.co_qualname}"


@scenario(9, not_command="it prints no objects")
async def test_in_no_repr(surface: PythonSurface, official: OfficialStub) -> None:
    """Everything public that has to do with a client, before and after it was used."""
    async with surface.face.AsyncEvalsClient() as client:
        for _ in range(2):
            api = client.api_client
            objects = [client, api, api.settings, api.config, await client.get_evaluation("e")]
            receipt = await client.push_samples(EVALUATION, [{"n": 1}])
            for thing in (*objects, receipt):
                assert "CANARY" not in f"{thing!r} {thing!s}"
        assert api.api_key == CANARY, "it is to be had by name, for those who need it"
    assert len(official.requests) == 4


@scenario(9)
async def test_on_no_disk_but_in_private_files(
    surface: Surface, official: OfficialStub, home: Path
) -> None:
    """Spool and journals hold samples and addresses; the key is in the file it was put into."""
    before = os.umask(0o022)
    try:
        await leave_on_disk(official)
        official.route("POST", ".*/samples", Answer(503))
        assert not (await surface.push_file(EVALUATION, _a_file(home))).ok
        assert _holding_the_key(home) == []
        await _save_the_key(surface)
    finally:
        os.umask(before)
    for path in _holding_the_key(home):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700, path
    assert [path.name for path in _holding_the_key(home)] == ["config.json", "work.json"]


def _a_file(folder: Path) -> Path:
    path = folder / "rows.jsonl"
    path.write_text('{"n": 1}\n', "utf-8")
    return path


def _holding_the_key(home: Path) -> list[Path]:
    files = (path for path in home.rglob("*") if path.is_file())
    return sorted(path for path in files if b"CANARY" in path.read_bytes())


async def _save_the_key(surface: Surface) -> None:
    """As a login does; the command does it by ``config``."""
    if isinstance(surface, CommandSurface):
        assert (await surface.read("config", "set-api-key", CANARY)).code == 0
        assert (await surface.read("config", "save", "work")).code == 0
        return
    from prime_async.config import ConfigStore

    store = ConfigStore()
    store.update({"api_key": CANARY})
    store.save_context("work", {"api_key": CANARY})


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="what ps shows is in /proc")
@scenario(9)
async def test_in_no_list_of_processes(surface: Surface, official: OfficialStub) -> None:
    """What ``ps`` shows while a call waits: title and arguments, of it and of its children."""
    official.route("GET", ".*", Answer(status=0, end="silent"))
    process = await asyncio.create_subprocess_exec(
        *WAITING[surface.name],
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await official.wait_for(1, timeout=20)
        shown = "".join(_titles(process.pid))
    finally:
        process.kill()
        await process.wait()
    assert "eval" in shown
    assert "CANARY" not in shown


WAITING = {
    "async": (
        sys.executable,
        "-c",
        "import asyncio, prime_async as p; asyncio.run(p.AsyncEvalsClient().get_evaluation('e'))",
    ),
    "sync": (sys.executable, "-c", "import prime_sync as p; p.EvalsClient().get_evaluation('e')"),
    "command": (COMMAND, "eval", "get", "e"),
}


def _titles(pid: int) -> Iterator[str]:
    for folder in Path(f"/proc/{pid}/task").iterdir():
        yield (folder / "comm").read_text()
        for child in (folder / "children").read_text().split():
            yield from _titles(int(child))
    yield Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
