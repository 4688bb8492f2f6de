"""The batch status of background jobs, over real sandboxes: what each job is told, and its cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.platform import RunningPlatform, running_platform
from tests.server.clocks import FakeClock
from tests.server.sandboxes.boxes import Boxes
from tests.server.sandboxes.test_life import advance
from tests.server.sandboxes.usable import needs_bubblewrap
from tests.server.wire import Wire

pytestmark = [needs_bubblewrap, pytest.mark.asyncio(loop_scope="module")]

OTHER_KEY = "pit_test_other_0123456789abcdef0123456789"


async def finished(boxes: Boxes, *jobs: tuple[str, str]) -> dict[str, int]:
    """Wait until all jobs have ended; their exit codes by name."""
    with anyio.fail_after(20):
        while True:
            reply = (await boxes.jobs(*jobs)).json
            assert reply["errors"] == []
            if all(one["completed"] for one in reply["statuses"]):
                return {one["job_id"]: one["exit_code"] for one in reply["statuses"]}
            await anyio.sleep(0.02)


async def test_one_request_tells_of_jobs_in_several_sandboxes(isolated: Boxes) -> None:
    """Running and ended ones, in the order asked for; an ended one keeps its code."""
    first, second = await isolated.running(), await isolated.running()
    await isolated.launch(first, "0000000a", "exit 3")
    await isolated.launch(second, "0000000b", "echo out; sleep 100")
    await isolated.launch(second, "0000000c", "true")
    ended = await finished(isolated, (second, "0000000c"), (first, "0000000a"))
    assert ended == {"0000000c": 0, "0000000a": 3}
    reply = await isolated.jobs((second, "0000000b"), (first, "0000000a"), (second, "0000000c"))
    assert reply.status == 200
    assert reply.json == {
        "statuses": [
            {"sandbox_id": second, "job_id": "0000000b", "completed": False, "exit_code": None},
            {"sandbox_id": first, "job_id": "0000000a", "completed": True, "exit_code": 3},
            {"sandbox_id": second, "job_id": "0000000c", "completed": True, "exit_code": 0},
        ],
        "errors": [],
    }


async def test_what_is_wrong_with_a_job_is_its_own_error(isolated: Boxes) -> None:
    """Unknown and foreign sandboxes, containers, ended ones; the good one is told all the same."""
    good, container, ended = [await isolated.running(vm=vm) for vm in (True, False, True)]
    await isolated.launch(good, "0000000a", "exit 4")
    await finished(isolated, (good, "0000000a"))
    await isolated.delete(f"/sandbox/{ended}")
    platform: RunningPlatform = isolated.platform
    await platform.parts.keys.add_account("other", "Other", OTHER_KEY)
    async with Wire(platform.url, OTHER_KEY) as other:
        body = {"name": "theirs", "docker_image": "ubuntu:1"}
        foreign = (await other.post("/sandbox", body)).json["id"]
    wanted = ["cnothing", foreign, container, ended, good]
    reply = (await isolated.jobs(*((one, "0000000a") for one in wanted))).json
    assert [(one["sandbox_id"], one["exit_code"]) for one in reply["statuses"]] == [(good, 4)]
    assert [(one["sandbox_id"], one["code"]) for one in reply["errors"]] == [
        ("cnothing", "NOT_FOUND"),
        (foreign, "NOT_FOUND"),
        (container, "NOT_VM"),
        (ended, "NOT_RUNNING"),
    ]
    assert all(one["job_id"] == "0000000a" and one["message"] for one in reply["errors"])


async def test_jobs_that_are_lost_or_spoilt_say_so(isolated: Boxes) -> None:
    """Killed, never started, a number that is used again, an exit file that is none or a trap."""
    box = await isolated.running()
    for name in ("0000000a", "0000000b"):
        await isolated.launch(box, name, "sleep 100")
    await isolated.sh(box, "kill -9 $(cat /tmp/job_0000000a.launch/pid)")
    await isolated.sh(box, "echo 1 > /tmp/job_0000000b.launch/pid")
    await isolated.sh(
        box,
        "cd /tmp; echo seven > job_0000000c.exit; mkfifo job_0000000d.exit; mkdir job_0000000e.exit"
        "; ln -s /proc/1/environ job_0000000f.exit; : > job_00000010.exit",
    )
    names = [*(f"0000000{digit}" for digit in "abcdef"), "00000010", "deadbeef"]
    with anyio.fail_after(20):
        # The process that was killed is there until its parent has noticed.
        while (reply := (await isolated.jobs(*((box, one) for one in names))).json)["statuses"]:
            await anyio.sleep(0.02)
    assert {one["code"] for one in reply["errors"]} == {"RUNTIME_ERROR"}
    said = {one["job_id"]: one["message"] for one in reply["errors"]}
    for name in ("0000000a", "0000000b", "00000010", "deadbeef"):
        assert f"job {name} is lost" in said[name]
    assert "does not hold an exit code" in said["0000000c"]
    for name in ("0000000d", "0000000e", "0000000f"):
        assert "cannot be read" in said[name]


async def test_an_exit_file_cannot_lead_out_of_the_sandbox(isolated: Boxes, tmp_path: Any) -> None:
    """A link to a file of the host names a file of the sandbox."""
    (tmp_path / "secret").write_text("42\n")
    box = await isolated.running()
    await isolated.sh(box, f"ln -s {tmp_path}/secret /tmp/job_0000000a.exit")
    reply = (await isolated.jobs((box, "0000000a"))).json
    assert (reply["statuses"], reply["errors"][0]["code"]) == ([], "RUNTIME_ERROR")


@pytest.mark.parametrize(
    "jobs",
    [
        [],
        [{"sandbox_id": "c1", "job_id": f"{number:08x}"} for number in range(101)],
        [{"sandbox_id": "c1", "job_id": "0000000a"}] * 2,
        [{"sandbox_id": "c1", "job_id": "../../etc"}],
        [{"sandbox_id": "c1", "job_id": "0000000A"}],
        [{"job_id": "0000000a"}],
    ],
)
async def test_bad_requests_are_refused(isolated: Boxes, jobs: list[Any]) -> None:
    """None, more than 100, one twice, names that are none."""
    reply = await isolated.post("/sandbox/background-jobs/status:batchGet", {"jobs": jobs})
    assert reply.status == 422


async def test_a_background_job_keeps_an_idle_sandbox(tmp_path: Path) -> None:
    """As long as it runs, nobody has to ask for anything; afterwards the time counts."""
    clock = FakeClock()
    async with running_platform(tmp_path, clock=clock) as running, Boxes(running) as boxes:
        working = await boxes.running(idle_timeout_minutes=1)
        idle = await boxes.running(idle_timeout_minutes=1)
        await boxes.launch(working, "0000000a", "sleep 100")
        for _ in range(12):
            await advance(clock, 15, 15)
        assert (await boxes.until(idle, "TIMEOUT"))["terminationReason"] == "IDLE_TIMEOUT"
        assert (await boxes.get(f"/sandbox/{working}")).json["status"] == "RUNNING"
        await boxes.sh(working, "pkill -x sleep")
        await finished(boxes, (working, "0000000a"))
        for _ in range(12):
            await advance(clock, 15, 15)
        assert (await boxes.until(working, "TIMEOUT"))["terminationReason"] == "IDLE_TIMEOUT"
        await boxes.end_all()
