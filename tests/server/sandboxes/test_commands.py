"""Commands over the Connect wire and over REST: events, ends, sessions, signals, leftovers."""

from __future__ import annotations

import signal
import uuid
from typing import Any

import anyio
import pytest

from prime_async.connect import Code
from prime_async.sandboxes.wire import (
    CloseStdinRequest,
    ConnectRequest,
    Ended,
    KeepAlive,
    ListResponse,
    SendInputRequest,
    SendSignalRequest,
    Session,
    Started,
    TerminalSize,
    UpdateRequest,
)
from prime_async.server.runtimes.protocol import Ending
from tests.platform import running_platform
from tests.server.clocks import FakeClock
from tests.server.sandboxes.boxes import Boxes, first, start, written
from tests.server.sandboxes.double import DoubleCommand, DoubleRuntime


async def until_ended(command: DoubleCommand) -> None:
    """Wait until a command is gone."""
    with anyio.fail_after(10):
        await command.wait()


async def test_a_command_starts_writes_and_ends(boxes: Boxes) -> None:
    """Start first, outputs apart, the end last, then the end of the stream."""
    made = await boxes.running()
    events, failure = await boxes.run(made, "echo out; echo err >&2; exit 7", envs={"A": "b c"})
    assert failure is None
    assert isinstance(events[0], Started)
    assert (written(events), written(events, "stderr")) == (b"out\n", b"err\n")
    assert events[-1] == Ended(7, status="exit status 7")


async def test_large_output_arrives_whole_and_in_order(boxes: Boxes) -> None:
    """20 MB of numbered lines, more than any buffer on the way."""
    made = await boxes.running()
    events, _ = await boxes.run(made, "seq 1 2500000")
    expected = "".join(f"{number}\n" for number in range(1, 2_500_001)).encode()
    assert written(events) == expected


async def test_a_client_that_does_not_read_makes_the_command_wait(boxes: Boxes) -> None:
    """Nothing piles up in the server: the command itself stands still."""
    made = await boxes.running()
    message = start(
        "for i in $(seq 1 4000); do head -c 10000 /dev/zero; echo $i > /proc/self/comm; "
        "echo $i > progress; done"
    )
    async with boxes.stream(made, "Start", message) as followed:
        await first(followed.events())
        progress = boxes.box(made).folder / "app" / "progress"
        before = ""
        for _ in range(100):
            await anyio.sleep(0.1)
            now = progress.read_text() if progress.exists() else ""
            if now and now == before:
                break
            before = now
        assert int(before) < 3900


async def test_a_client_that_goes_away_takes_its_command_along(boxes: Boxes) -> None:
    """Without a session id nobody could ever come back for it."""
    made = await boxes.running()
    async with boxes.stream(made, "Start", start("sleep 60 & sleep 60")) as followed:
        await first(followed.events())
        assert len(boxes.box(made).commands) == 1
    await until_ended(boxes.box(made).commands[0])


async def test_a_session_goes_on_without_its_client_and_can_be_followed_again(
    boxes: Boxes,
) -> None:
    """Connect announces the start again and gives what was kept, then the rest."""
    made = await boxes.running()
    name = str(uuid.uuid4())
    command = "read line; echo got $line; read line; echo then $line"
    async with boxes.stream(made, "Start", start(command, uuid=name, stdin=True)) as followed:
        pid = (await first(followed.events())).pid
    session = Session(session_uuid=name)
    live = boxes.platform.parts.sandboxes.fleet.live[made]
    with anyio.fail_after(10):
        while live.sessions.find(session).followed:
            await anyio.sleep(0.01)
    await boxes.call(made, "SendInput", SendInputRequest(session, b"one\n"))
    async with boxes.stream(made, "Connect", ConnectRequest(session)) as followed:
        events = followed.events()
        assert (await first(events)).pid == pid
        assert (await anext(events)).data == b"got one\n"  # type: ignore[union-attr]  # an Output
        await boxes.call(made, "SendInput", SendInputRequest(session, b"two\n"))
        rest = [event async for event in events]
    assert written(rest) == b"then two\n"
    assert rest[-1] == Ended(0, status="exit status 0")


async def test_the_end_of_a_session_is_told_to_who_asks_later(boxes: Boxes) -> None:
    """A client that missed the end gets it, by Connect and by the same Start."""
    made = await boxes.running()
    name = str(uuid.uuid4())
    message = start("echo hi; exit 5", uuid=name)
    async with boxes.stream(made, "Start", message) as followed:
        await first(followed.events())
    await until_ended(boxes.box(made).commands[0])
    for rpc, again in (("Connect", ConnectRequest(Session(session_uuid=name))), ("Start", message)):
        async with boxes.stream(made, rpc, again) as followed:
            events = await followed.all()
        assert isinstance(events[0], Started)
        assert events[-1] == Ended(5, status="exit status 5")
    assert len(boxes.box(made).commands) == 1


async def test_one_id_is_one_command(boxes: Boxes) -> None:
    """Two starts at once make one; another command under the id is refused."""
    made = await boxes.running()
    name = str(uuid.uuid4())
    message = start("sleep 30", uuid=name)
    async with (
        boxes.stream(made, "Start", message) as one,
        boxes.stream(made, "Start", message) as two,
    ):
        await first(two.events())
        assert len(boxes.box(made).commands) == 1
        await one.all()
        assert one.failure is not None
        assert one.failure.code is Code.FAILED_PRECONDITION  # the newer client follows it now
        other = start("sleep 31", uuid=name)
        async with boxes.stream(made, "Start", other) as refused:
            assert refused.response.status == 400
            assert (await refused.response.json())["code"] == "failed_precondition"


async def test_input_and_signals_with_an_id_count_once(boxes: Boxes) -> None:
    """A repeated SendInput does not write twice."""
    made = await boxes.running()
    name = str(uuid.uuid4())
    session = Session(session_uuid=name)
    async with boxes.stream(made, "Start", start("cat", uuid=name, stdin=True)) as followed:
        events = followed.events()
        await first(events)
        for key in ("i1", "i1", "i2"):
            sent = await boxes.call(made, "SendInput", SendInputRequest(session, b"x", False, key))
            assert (sent.status, sent.body) == (200, b"")
        assert (await boxes.call(made, "CloseStdin", CloseStdinRequest(session))).status == 200
        rest = [event async for event in events]
    assert written(rest) == b"xx"
    late = await boxes.call(made, "SendInput", SendInputRequest(session, b"y"))
    assert late.json["code"] == "failed_precondition"
    assert (await boxes.call(made, "SendSignal", SendSignalRequest(session, 15))).status == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_signals_end_a_command(boxes: Boxes, number: signal.Signals) -> None:
    """The end tells the signal, in the way of shells."""
    made = await boxes.running()
    name = str(uuid.uuid4())
    async with boxes.stream(made, "Start", start("sleep 60", uuid=name)) as followed:
        events = followed.events()
        await first(events)
        request = SendSignalRequest(Session(session_uuid=name), number, "s1")
        await boxes.call(made, "SendSignal", request)
        rest = [event async for event in events]
    assert rest == [Ended(128 + number, exited=False, status=f"signal: {number.name}")]


async def test_the_deadline_of_a_start_ends_the_command(boxes: Boxes) -> None:
    """What it had written arrives before the failure; nothing of it goes on."""
    made = await boxes.running()
    events, failure = await boxes.run(made, "echo step 1; sleep 60 & sleep 60", timeout_ms=500)
    assert written(events) == b"step 1\n"
    assert failure is not None
    assert failure.code is Code.DEADLINE_EXCEEDED
    await until_ended(boxes.box(made).commands[0])


async def test_a_child_that_goes_on_does_not_hold_the_end_back(boxes: Boxes) -> None:
    """Background jobs rely on it: the end comes with the direct child, and the job lives."""
    made = await boxes.running()
    with anyio.fail_after(10):
        events, failure = await boxes.run(made, "(sleep 2; touch done) & echo started")
    assert failure is None
    assert events[-1] == Ended(0, status="exit status 0")
    mark = boxes.box(made).folder / "app" / "done"
    with anyio.fail_after(10):
        while not mark.exists():
            await anyio.sleep(0.05)


async def test_a_terminal_can_be_resized_and_a_list_shows_what_runs(boxes: Boxes) -> None:
    """Output of a terminal is its own kind; the list has command, pid and id."""
    made = await boxes.running()
    name = str(uuid.uuid4())
    session = Session(session_uuid=name)
    message = start("tty; sleep 60", uuid=name, stdin=True, pty=TerminalSize(100, 40))
    async with boxes.stream(made, "Start", message) as followed:
        events = followed.events()
        pid = (await first(events)).pid
        shown = await anext(events)
        assert getattr(shown, "stream", None) == "pty"
        await boxes.call(made, "Update", UpdateRequest(session, TerminalSize(120, 50)))
        assert (boxes.box(made).commands[0].sizes[0].cols) == 120
        listed = ListResponse.decode((await boxes.call(made, "List", None)).body)
        assert [(one.pid, one.session_uuid) for one in listed.sessions] == [(pid, name)]
        assert listed.sessions[0].command == message.command
        await boxes.call(made, "SendSignal", SendSignalRequest(Session(pid=pid), 9))


async def test_silence_is_broken_by_signs_of_life(tmp_path: Any, clock: FakeClock) -> None:
    """A quiet command still sends something, so that a dead connection is noticed."""
    runtime = DoubleRuntime(tmp_path / "double")
    limits = {"keep_alive_seconds": 0.1}
    async with (
        running_platform(tmp_path, clock=clock, runtime=lambda: runtime, limits=limits) as platform,
        Boxes(platform, runtime) as boxes,
    ):
        made = await boxes.running()
        events, _ = await boxes.run(made, "sleep 1")
        assert KeepAlive() in events


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"cwd": "/nowhere"}, "working_dir"), ({"user": "nobody-here"}, "user")],
)
async def test_a_command_that_cannot_start_names_the_field(
    boxes: Boxes, fields: dict[str, str], named: str
) -> None:
    """invalid_argument over Connect, 422 over REST; nothing was started."""
    made = await boxes.running()
    async with boxes.stream(made, "Start", start("true", **fields)) as followed:
        assert followed.response.status == 400
        body = await followed.response.json()
    assert body["code"] == "invalid_argument"
    assert named in body["message"]
    rest = {"command": "true", "working_dir": fields.get("cwd"), "user": fields.get("user")}
    reply = await boxes.at("POST", made, "/exec", json=rest)
    assert (reply.status, reply.json["field"]) == (422, named)


async def test_the_end_of_the_sandbox_is_told_by_its_commands(boxes: Boxes) -> None:
    """A running stream ends with not_found and the reason, later calls with the same."""
    made = await boxes.running()
    async with boxes.stream(made, "Start", start("sleep 60")) as followed:
        await first(followed.events())
        await boxes.box(made).finish(Ending.OOM_KILLED, "used 2 GiB of 1")
        await followed.all()
    assert followed.failure is not None
    assert (followed.failure.code, "2 GiB" in followed.failure.message) == (Code.NOT_FOUND, True)
    async with boxes.stream(made, "Start", start("true")) as refused:
        assert refused.response.status == 404
        body = await refused.response.json()
        assert body["code"] == "not_found"
    assert "2 GiB" in body["message"]
    reply = await boxes.at("POST", made, "/exec", json={"command": "true"})
    assert (reply.status, reply.json["error"]) == (410, "sandbox_terminated")


@pytest.mark.parametrize("token", ["", "Bearer x", "Bearer sbx1.a.b.c.d", "Basic abc"])
async def test_a_gateway_takes_only_its_own_tokens(boxes: Boxes, token: str) -> None:
    """Forged ones, none, and those of another sandbox: 401 with a text code."""
    made, other = await boxes.running(), await boxes.running()
    for sent in (token, boxes.token(other)["Authorization"]):
        reply = await boxes.at(
            "GET", made, "/read-file", params={"path": "x"}, headers={"Authorization": sent}
        )
        assert (reply.status, reply.json["code"]) == (401, "unauthenticated")


async def test_a_token_ends(boxes: Boxes, clock: FakeClock) -> None:
    """After half an hour it is refused, and a new one is good."""
    made = await boxes.running(timeout_minutes=0)
    clock.advance(1801)
    assert (await boxes.call(made, "List", None)).status == 401
    await boxes.reach(made)
    assert (await boxes.call(made, "List", None)).status == 200


async def test_rest_exec_answers_outputs_and_code(boxes: Boxes) -> None:
    """The way of containers; a container does not speak Connect."""
    made = await boxes.running(vm=False)
    body = {"command": "echo out; echo err >&2; exit 4", "env": {"A": "1"}, "working_dir": "/tmp"}
    reply = await boxes.at("POST", made, "/exec", json=body)
    answer = reply.json
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("out\n", "err\n", 4)
    async with boxes.stream(made, "Start", start("true")) as refused:
        assert (await refused.response.json())["code"] == "unimplemented"


async def test_rest_exec_out_of_time_keeps_what_was_written(boxes: Boxes) -> None:
    """408, the partial output, and nothing left behind."""
    made = await boxes.running(vm=False)
    body = {"command": "echo step 1; sleep 60 & sleep 60", "timeout": 0.5}
    reply = await boxes.at("POST", made, "/exec", json=body)
    assert (reply.status, reply.json["stdout"]) == (408, "step 1\n")
    await until_ended(boxes.box(made).commands[0])


async def test_rest_exec_tells_what_it_left_out(tmp_path: Any, clock: FakeClock) -> None:
    """Beyond the limit the newest bytes are kept, and the answer says so."""
    runtime = DoubleRuntime(tmp_path / "double")
    limits = {"exec_output_bytes": 10_000}
    async with (
        running_platform(tmp_path, clock=clock, runtime=lambda: runtime, limits=limits) as platform,
        Boxes(platform, runtime) as boxes,
    ):
        made = await boxes.running(vm=False)
        for size in (9_999, 10_000, 10_001, 100_000):
            body = {"command": f"head -c {size - 1} /dev/zero | tr '\\0' a; printf z"}
            answer = (await boxes.at("POST", made, "/exec", json=body)).json
            assert answer["stdout_size"] == size
            assert answer["stdout_truncated"] is (size > 10_000)
            assert answer["stdout"] == "a" * (min(size, 10_000) - 1) + "z"


async def test_what_is_no_message_is_refused(boxes: Boxes) -> None:
    """Broken bodies and unknown calls are answered in the protocol's words."""
    made = await boxes.running()
    service = "/command_session.CommandSession"
    stream = {"Content-Type": "application/connect+proto"}
    broken = await boxes.at("POST", made, f"{service}/Start", data=b"\0\0\0", headers=stream)
    assert broken.json["code"] == "invalid_argument"
    unary = {"Content-Type": "application/proto"}
    junk = await boxes.at("POST", made, f"{service}/SendInput", data=b"\xff\xff", headers=unary)
    assert junk.json["code"] == "invalid_argument"
    kind = await boxes.at("POST", made, f"{service}/Start", data=b"", headers=unary)
    assert kind.status == 415
    unknown = await boxes.at("POST", made, f"{service}/StreamInput", data=b"", headers=stream)
    assert (unknown.status, unknown.json["code"]) == (501, "unimplemented")
    nobody = SendSignalRequest(Session(session_uuid="nobody"), 9)
    assert (await boxes.call(made, "SendSignal", nobody)).json["code"] == "not_found"


async def test_a_sandbox_that_does_not_run_yet_is_unavailable(
    boxes: Boxes, runtime: DoubleRuntime
) -> None:
    """Clients that wait for it take these for "not yet"."""
    runtime.gate.clear()
    made = await boxes.create()
    async with boxes.stream(made, "Start", start("true")) as refused:
        assert (await refused.response.json())["code"] == "unavailable"
    reply = await boxes.at("GET", made, "/read-file", params={"path": "x"})
    assert reply.status == 409
    runtime.gate.set()
    await boxes.until(made, "RUNNING")
