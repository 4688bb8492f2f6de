"""The control plane of sandboxes: create, list, statuses, delete, ends, limits."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from prime_async.server.runtimes.errors import SandboxStartError
from prime_async.server.runtimes.protocol import Ending
from tests.platform import RunningPlatform
from tests.server.sandboxes.boxes import Boxes
from tests.server.sandboxes.double import DoubleRuntime
from tests.server.wire import Wire

OTHER_KEY = "pit_test_other_0123456789abcdef0123456789"


async def test_a_sandbox_runs_and_its_record_says_what_was_asked_and_what_holds(
    boxes: Boxes,
) -> None:
    """The official fields echo the request; limits in force and notes stand beside them."""
    made = await boxes.running(
        cpu_cores=4,
        memory_gb=16,
        timeout_minutes=1440,
        labels=["a", "b"],
        vm=True,
        environment_vars={"A": "1"},
        secrets={"KEY": "hush"},
    )
    found = (await boxes.get(f"/sandbox/{made}")).json
    assert (found["cpuCores"], found["memoryGB"], found["timeoutMinutes"]) == (4.0, 16.0, 1440)
    assert found["limits"]["cpuCores"] == 2.0
    assert "clipped to 2 cores" in found["notes"]
    assert any("ubuntu:24.04" in note for note in found["notes"])
    assert (found["environmentVars"], found["secrets"]) == ({"A": "1"}, {"KEY": "***"})
    assert found["labels"] == ["a", "b"]
    assert found["startedAt"] is not None
    assert found["terminatedAt"] is None
    assert boxes.box(made).environment == {"A": "1", "KEY": "hush"}


async def test_secrets_are_nowhere_in_the_database(boxes: Boxes) -> None:
    """Only their names are stored."""
    await boxes.running(secrets={"KEY": "hush-hush-hush"})
    data = boxes.platform.config.data_dir
    for file in data.rglob("*"):
        if file.is_file():
            assert b"hush-hush-hush" not in file.read_bytes(), file


async def test_a_key_makes_one_sandbox_however_often_it_is_sent(boxes: Boxes) -> None:
    """The same request is answered by the same sandbox, another one under its key refused."""
    first = await boxes.create(idempotency_key="k1")
    body = {"name": "box", "docker_image": "ubuntu:24.04", "idempotency_key": "k1"}
    again = await boxes.post("/sandbox", body)
    assert again.json["id"] == first
    assert again.headers["Idempotency-Replayed"] == "true"
    other = await boxes.post("/sandbox", {**body, "name": "other"})
    assert (other.status, other.code) == (409, "idempotency_conflict")


@pytest.mark.parametrize("image", ["nginx:latest", "ghcr.io/acme/ubuntu:1", "ubuntu2:1", "a b"])
async def test_an_unknown_image_ends_the_sandbox_with_the_reason(boxes: Boxes, image: str) -> None:
    """It goes to ERROR, and the catalogue is named."""
    made = await boxes.create(docker_image=image)
    found = await boxes.until(made, "ERROR")
    assert found["errorType"] == "IMAGE_PULL_FAILED"
    assert "catalogue" in found["errorMessage"]
    context = (await boxes.get(f"/sandbox/{made}/error-context")).json
    assert (context["status"], context["errorType"]) == ("ERROR", "IMAGE_PULL_FAILED")


@pytest.mark.parametrize(
    "image",
    [
        "ubuntu:22.04",
        "debian:bookworm-slim",
        "python:3.11-slim",
        "python",
        "docker.io/library/ubuntu:1",
    ],
)
async def test_images_that_the_host_stands_in_for(boxes: Boxes, image: str) -> None:
    """They start, with a note."""
    found = (await boxes.get(f"/sandbox/{await boxes.running(docker_image=image)}")).json
    assert image in found["notes"][0]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": " "}, "name"),
        ({"docker_image": None}, "docker_image"),
        ({"cpu_cores": -1}, "cpu_cores"),
        ({"memory_gb": 0}, "memory_gb"),
        ({"idle_timeout_minutes": 90}, "idle_timeout_minutes"),
        ({"gpu_count": 1, "gpu_type": "H100"}, "gpu_count"),
        ({"network_allowlist": ["::1"]}, "network_allowlist"),
        ({"network_allowlist": [], "network_denylist": []}, "network_denylist"),
        ({"environment_vars": {"A=B": "1"}}, "environment_vars"),
        ({"start_command": {"executable": ""}}, "start_command"),
    ],
)
async def test_a_wrong_field_is_named(boxes: Boxes, fields: dict[str, object], field: str) -> None:
    """422 before anything is made."""
    reply = await boxes.post("/sandbox", {"name": "x", "docker_image": "ubuntu:1", **fields})
    assert reply.status == 422, reply
    assert reply.json["detail"][0]["loc"][:2] == ["body", field]
    assert (await boxes.get("/sandbox")).json["total"] == 0


async def test_lists_filter_by_status_labels_and_activity(boxes: Boxes) -> None:
    """A sandbox must have all the labels; pages count from 1, newest first."""
    first = await boxes.running(labels=["x", "y"])
    second = await boxes.running(labels=["x"])
    third = await boxes.running()
    await boxes.delete(f"/sandbox/{third}")

    async def ids(query: str) -> list[str]:
        return [one["id"] for one in (await boxes.get(f"/sandbox?{query}")).json["sandboxes"]]

    assert await ids("labels=x") == [second, first]
    assert await ids("labels=x&labels=y") == [first]
    assert await ids("status=TERMINATED") == [third]
    assert await ids("is_active=true") == [second, first]
    assert await ids("is_active=false") == [third]
    page = (await boxes.get("/sandbox?page=2&per_page=2")).json
    assert ([one["id"] for one in page["sandboxes"]], page["total"]) == ([first], 3)
    assert page["hasNext"] is False


async def test_statuses_of_many(boxes: Boxes) -> None:
    """Known ones are told, unknown ones are errors of their own, too many are refused."""
    made = await boxes.running()
    reply = await boxes.post("/sandbox/status:batchGet", {"sandbox_ids": [made, "nope"]})
    assert reply.json["statuses"][0]["status"] == "RUNNING"
    assert reply.json["errors"] == [
        {"sandbox_id": "nope", "code": "NOT_FOUND", "message": "no sandbox nope"}
    ]
    for ids in ([], [made, made], [f"s{number}" for number in range(101)]):
        refused = await boxes.post("/sandbox/status:batchGet", {"sandbox_ids": ids})
        assert refused.status == 422


async def test_a_deleted_sandbox_is_gone_and_says_so(boxes: Boxes) -> None:
    """Its folder is removed before the answer; deleting again is no error."""
    made = await boxes.running()
    folder = boxes.box(made).folder
    assert (await boxes.delete(f"/sandbox/{made}")).status == 200
    assert not folder.exists()
    assert (await boxes.delete(f"/sandbox/{made}")).json["status"] == "TERMINATED"
    found = (await boxes.get(f"/sandbox/{made}")).json
    assert (found["status"], found["terminationReason"]) == ("TERMINATED", "DELETED")
    assert (await boxes.delete("/sandbox/unknown")).code == "sandbox_not_found"


async def test_many_are_deleted_by_ids_or_labels(boxes: Boxes) -> None:
    """What cannot be deleted is listed with its reason."""
    one, two, three = [await boxes.running(labels=[label]) for label in ("p", "p", "q")]
    reply = await boxes.send("DELETE", "/sandbox", json={"sandbox_ids": [three, "nope"]})
    assert reply.json["succeeded"] == [three]
    assert reply.json["failed"] == [{"sandbox_id": "nope", "error": "no sandbox nope"}]
    reply = await boxes.send("DELETE", "/sandbox", json={"labels": ["p"], "all_users": False})
    assert reply.json["succeeded"] == [one, two]
    assert (await boxes.send("DELETE", "/sandbox", json={})).status == 422


@pytest.mark.parametrize(
    ("kind", "status", "error_type"),
    [
        (Ending.OOM_KILLED, "ERROR", "OOM_KILLED"),
        (Ending.DISK_FULL, "ERROR", "DISK_FULL"),
        (Ending.KILLED, "ERROR", "KILLED"),
        (Ending.TIMEOUT, "TIMEOUT", "TIMEOUT"),
    ],
)
async def test_a_sandbox_that_ends_by_itself_tells_why(
    boxes: Boxes, kind: Ending, status: str, error_type: str
) -> None:
    """Status, error type and message reach the record and the error context."""
    made = await boxes.running()
    await boxes.box(made).finish(kind, "used 2 GiB of 1")
    found = await boxes.until(made, status)
    assert (found["errorType"], found["errorMessage"]) == (error_type, "used 2 GiB of 1")


async def test_a_sandbox_deleted_while_it_starts_does_not_stay(
    boxes: Boxes, runtime: DoubleRuntime
) -> None:
    """The delete waits for the start and ends what came of it."""
    runtime.gate.clear()
    made = await boxes.create()
    await boxes.until(made, "PROVISIONING")
    assert (await boxes.post(f"/sandbox/{made}/auth")).status == 200

    async with anyio.create_task_group() as group:
        group.start_soon(boxes.delete, f"/sandbox/{made}")
        await boxes.until(made, "TERMINATED")
        runtime.gate.set()
    assert runtime.sandboxes[made].end is not None


async def test_a_machine_that_cannot_run_sandboxes_says_why_and_what_would_help(
    boxes: Boxes, runtime: DoubleRuntime
) -> None:
    """The sandbox ends with the reason; the next one tries again."""
    runtime.usable = False
    found = await boxes.until(await boxes.create(), "ERROR")
    assert found["errorType"] == "RUNTIME_UNAVAILABLE"
    assert "user namespaces are refused" in found["errorMessage"]
    assert "allow them" in found["errorMessage"]
    runtime.usable = True
    await boxes.running()


async def test_a_sandbox_that_does_not_come_up(boxes: Boxes, runtime: DoubleRuntime) -> None:
    """ERROR with the runtime's words."""
    runtime.failure = SandboxStartError("no room for it")
    found = await boxes.until(await boxes.create(), "ERROR")
    assert (found["errorType"], found["errorMessage"]) == ("START_FAILED", "no room for it")


async def test_teams_and_accounts_do_not_see_each_other(
    boxes: Boxes, platform: RunningPlatform
) -> None:
    """Another account finds nothing: not by id, list, token, bulk delete or status."""
    made = await boxes.running()
    await platform.parts.keys.add_account("other", "Other", OTHER_KEY)
    async with Wire(platform.url, OTHER_KEY) as other:
        assert (await other.get(f"/sandbox/{made}")).status == 404
        assert (await other.delete(f"/sandbox/{made}")).status == 404
        assert (await other.post(f"/sandbox/{made}/auth")).status == 404
        assert (await other.get("/sandbox")).json["total"] == 0
        batch = await other.post("/sandbox/status:batchGet", {"sandbox_ids": [made]})
        assert batch.json["errors"][0]["code"] == "NOT_FOUND"
        bulk = await other.send("DELETE", "/sandbox", json={"sandbox_ids": [made]})
        assert bulk.json["succeeded"] == []
        assert (await other.post("/local/end-all")).code == "not_the_owner"
    assert (await boxes.get(f"/sandbox/{made}")).json["status"] == "RUNNING"


async def test_ending_all_ends_what_is_being_started_too(
    boxes: Boxes, runtime: DoubleRuntime
) -> None:
    """Nothing comes up behind its back."""
    runtime.gate.clear()
    made = await boxes.create()
    await boxes.until(made, "PROVISIONING")
    replies: list[Any] = []

    async def end_all() -> None:
        replies.append((await boxes.post("/local/end-all")).json)

    async with anyio.create_task_group() as group:
        group.start_soon(end_all)
        await boxes.until(made, "TERMINATED")
        runtime.gate.set()
    assert replies == [{"ended": 1, "sandboxes": [made]}]
    assert boxes.box(made).end is not None
    assert (await boxes.get(f"/sandbox/{made}")).json["status"] == "TERMINATED"


async def test_the_egress_policy_is_replaced_and_counted(boxes: Boxes) -> None:
    """It is in force at once; entries are checked."""
    made = await boxes.running(network_allowlist=["pypi.org"])
    path = f"/sandbox/{made}/egress-policy"
    first = (await boxes.get(path)).json
    assert first["policy"] == {"allowlist": ["pypi.org"], "denylist": None}
    assert (first["generation"], first["applied"]) == (0, True)
    changed = (await boxes.put(path, {"allowlist": None, "denylist": ["10.0.0.0/8"]})).json
    assert (changed["generation"], changed["applied_generation"]) == (1, 1)
    policy = boxes.box(made).policy
    assert policy is not None
    assert policy.deny == ("10.0.0.0/8",)
    refused = await boxes.put(path, {"allowlist": ["http://x"], "denylist": None})
    assert refused.json["detail"][0]["loc"] == ["body", "allowlist"]
    await boxes.delete(f"/sandbox/{made}")
    assert (await boxes.put(path, {"allowlist": [], "denylist": None})).status == 409


@pytest.mark.parametrize(
    ("method", "path", "remedy"),
    [
        ("GET", "/sandbox/networks", "volume"),
        ("PUT", "/sandbox/networks/n1/members/s1", "expose"),
        ("GET", "/images", "sandboxes.toml"),
        ("POST", "/images/build", "sandboxes.toml"),
        ("POST", "/sandbox/s1/ssh-session", "terminal"),
    ],
)
async def test_what_this_platform_does_not_have_is_said(
    boxes: Boxes, method: str, path: str, remedy: str
) -> None:
    """501 with a code and what to do instead, and never taken for a sandbox of that name."""
    reply = await boxes.send(method, path)
    assert (reply.status, reply.code) == (501, "not_implemented")
    assert remedy in reply.json["detail"]
    assert "hosted" in reply.json["detail"]


async def test_the_start_command_runs_and_its_output_is_the_log(boxes: Boxes) -> None:
    """Logs hold what it wrote; its exit code reaches the record."""
    made = await boxes.running(
        start_command={"executable": "/bin/sh", "args": ["-c", "echo started; exit 3"]}
    )

    with anyio.fail_after(10):
        while (await boxes.get(f"/sandbox/{made}")).json["exitCode"] is None:
            await anyio.sleep(0.01)
    assert (await boxes.get(f"/sandbox/{made}/logs")).json == {"logs": "started\n"}
    assert (await boxes.get(f"/sandbox/{made}")).json["exitCode"] == 3


async def test_live_sandboxes_are_counted_and_ended_together(boxes: Boxes) -> None:
    """Health counts them; the owner ends all at once."""
    made = sorted([await boxes.running() for _ in range(3)])
    assert (await boxes.get("//healthz")).json["live"] == 3
    assert (await boxes.post("/local/end-all")).json == {"ended": 3, "sandboxes": made}
    assert (await boxes.get("//healthz")).json["live"] == 0
    metrics = (await boxes.get("//metrics")).body.decode()
    assert "prime_async_sandboxes_live 0.0" in metrics
    assert 'prime_async_sandboxes_ended_total{reason="PLATFORM_STOPPED"} 3.0' in metrics
