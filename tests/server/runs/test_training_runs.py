"""The life of a training run that reports from elsewhere."""

from __future__ import annotations

import json

import pytest

from prime_async.runs.wire import TrainingRun, TrainingRunPage
from tests.platform import KEY, RunningPlatform
from tests.server.clocks import FakeClock
from tests.server.runs.people import People, training_run
from tests.server.wire import Wire


async def test_everything_given_at_creation_reads_back(wire: Wire) -> None:
    """In the spelling of the wire; free-form objects keep their digits."""
    fields = {
        "base_model": "openai/gpt-4o",
        "max_steps": 100,
        "environments": [{"id": "local/gsm8k"}, {"id": "cabc", "version_id": "v1"}],
        "name": "first — naïve",
        "batch_size": 128,
        "rollouts_per_example": 8,
        "seq_len": 4096,
        "run_config": {"lr": 1.50e-5, "z": {"a": None}, "big": 2**80},
        "wandb_entity": "e",
        "wandb_project": "p",
        "wandb_run_name": "w",
        "something_newer": 1,
    }
    made = await wire.post("/rft/external-runs", fields)
    assert made.status == 201
    run_id = made.json["run"]["id"]
    read = (await wire.get(f"/rft/external-runs/{run_id}")).json["run"]
    assert read == made.json["run"]
    run = TrainingRun.from_wire(read)
    assert (run.name, run.base_model, run.kind) == ("first — naïve", "openai/gpt-4o", "EXTERNAL")
    assert (run.max_steps, run.batch_size, run.seq_len) == (100, 128, 4096)
    assert run.environments == fields["environments"]
    assert run.run_config == fields["run_config"]
    assert (run.wandb_entity, run.wandb_project, run.wandb_run_name) == ("e", "p", "w")
    assert (read["status"], read["rolloutsPerExample"]) == ("RUNNING", 8)
    assert (run.error_message, run.summary, run.completed_at, run.latest_step) == (None,) * 4
    assert read["createdAt"] == read["startedAt"] == "2027-01-15T08:00:00.000Z"


async def test_a_model_is_all_that_a_run_needs(wire: Wire) -> None:
    """The rest has defaults, a readable name among them; without a model it is refused."""
    made = (await wire.post("/rft/external-runs", {"base_model": "openai/gpt-4o"})).json["run"]
    assert made["name"] == f"gpt-4o-{made['id'][-8:]}"
    assert (made["maxSteps"], made["environments"], made["teamId"]) == (0, [], None)
    refused = await wire.post("/rft/external-runs", {"max_steps": 1})
    assert refused.status == 422
    assert refused.json["detail"][0]["loc"] == ["body", "base_model"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"status": "completed"}, "COMPLETED"),
        ({"status": "failed", "error_message": "cancelled: interrupted"}, "FAILED"),
        ({"status": "FAILED", "summary": {"reward": 0.50}}, "FAILED"),
    ],
)
async def test_a_run_is_closed_once(
    wire: Wire, clock: FakeClock, sent: dict[str, object], status: str
) -> None:
    """Completed or failed; the second close is a 409 and changes nothing."""
    run_id = await training_run(wire)
    clock.advance(5)
    closed = await wire.put(f"/rft/external-runs/{run_id}/status", sent)
    assert closed.status == 200
    run = closed.json["run"]
    assert (run["status"], run["errorMessage"]) == (status, sent.get("error_message"))
    assert run["summary"] == sent.get("summary")
    assert run["completedAt"] == "2027-01-15T08:00:05.000Z"
    again = await wire.put(f"/rft/external-runs/{run_id}/status", {"status": "failed"})
    assert (again.status, again.code) == (409, "run_closed")
    assert (await wire.get(f"/rft/external-runs/{run_id}")).json["run"] == run


async def test_other_words_for_a_status_are_refused(wire: Wire) -> None:
    """The platform knows completed and failed only; a reason has at most 4096 characters."""
    run_id = await training_run(wire)
    for word in ("cancelled", "crashed", "RUNNING", ""):
        refused = await wire.put(f"/rft/external-runs/{run_id}/status", {"status": word})
        assert refused.status == 422, word
        assert refused.json["detail"][0]["loc"] == ["body", "status"]
    long = {"status": "failed", "error_message": "x" * 4097}
    assert (await wire.put(f"/rft/external-runs/{run_id}/status", long)).status == 422
    read = (await wire.get(f"/rft/external-runs/{run_id}")).json["run"]
    assert read["status"] == "RUNNING"


async def test_finalizing_by_exit_code(wire: Wire) -> None:
    """0 completes, twice too; a later failure is refused, another code fails with its number."""
    run_id = await training_run(wire)
    for _ in range(2):
        done = await wire.post("/rft/finalize", {"run_id": run_id, "exit_code": 0})
        assert (done.status, done.json["run"]["status"]) == (200, "COMPLETED")
    failed = await wire.post("/rft/finalize", {"run_id": run_id, "exit_code": 1})
    assert (failed.status, failed.code) == (409, "run_closed")
    other = await training_run(wire)
    failed = await wire.post("/rft/finalize", {"run_id": other, "exit_code": 3})
    assert failed.json["run"]["status"] == "FAILED"
    assert failed.json["run"]["errorMessage"] == "exit code 3"
    late = await wire.post("/rft/finalize", {"run_id": other})
    assert (late.status, late.code) == (409, "run_closed")


async def test_older_trainers_finalize_with_a_summary(wire: Wire) -> None:
    """Without an exit code the run is complete; the summary is kept as it was sent."""
    run_id = await training_run(wire)
    body = b'{"run_id": "%s", "summary": {"reward": 0.50, "n": %d}}' % (run_id.encode(), 2**70)
    done = await wire.send("POST", "/rft/finalize", raw=body)
    assert done.json["run"]["status"] == "COMPLETED"
    assert b'"summary":{"reward": 0.50, "n": %d}' % 2**70 in done.body


async def test_lists_are_paged_and_filtered(wire: Wire) -> None:
    """Newest first, by status; a cursor leads to the next page and through all of them once."""
    made = [await training_run(wire, name=f"run {index}") for index in range(5)]
    await wire.post("/rft/finalize", {"run_id": made[2]})
    found: list[str] = []
    cursor: str | None = None
    sizes = []
    while True:
        query = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        reply = await wire.get("/rft/external-runs", params=query)
        page = TrainingRunPage.from_wire(reply.json)
        found += [run.id for run in page.runs]
        sizes.append(len(page.runs))
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == made[::-1]
    assert sizes == [2, 2, 1]
    done = (await wire.get("/rft/external-runs", params={"status": "COMPLETED"})).json
    assert [run["id"] for run in done["runs"]] == [made[2]]
    assert done["next_cursor"] is None


async def test_cursors_of_somewhere_else_are_refused(wire: Wire) -> None:
    """A 400 with a code, whatever the text is."""
    for cursor in ("", "x", "é", "W10", "WyJhIl0", "eyJhIjoxfQ"):
        reply = await wire.get("/rft/external-runs", params={"cursor": cursor})
        assert (reply.status, reply.code) == (400, "invalid_cursor"), cursor


async def test_strangers_see_nothing_and_team_mates_all(people: People) -> None:
    """A run of a team belongs to its members; one of an account to nobody else."""
    own = await training_run(people.wire)
    shared = await training_run(people.wire, team_id=people.team)
    for method, path, body in (
        ("GET", "/rft/external-runs/{}", None),
        ("PUT", "/rft/external-runs/{}/status", {"status": "failed"}),
        ("DELETE", "/rft/external-runs/{}", None),
        ("GET", "/rft/external-runs/{}/metrics", None),
        ("GET", "/rft/external-runs/{}/distributions", None),
        ("GET", "/rft/external-runs/{}/samples", None),
        ("GET", "/rft/external-runs/{}/samples/cabc", None),
        ("POST", "/runs/train/{}/lease", {"seconds": 30}),
        ("POST", "/rft/finalize", {"run_id": "{}"}),
        ("POST", "/rft/metrics", {"run_id": "{}", "metrics": {"step": 1}}),
        ("POST", "/rft/distributions", {"run_id": "{}", "distributions": {"a": [1]}}),
        ("POST", "/rft/samples", {"run_id": "{}", "step": 0, "samples": [{"a": 1}]}),
        ("POST", "/rft/samples/presign", {"run_id": "{}", "step": 0}),
        ("POST", "/rft/samples/confirm", {"run_id": "{}", "step": 0, "s3_key": "c"}),
    ):
        for run_id in (own, shared):
            named = None if body is None else json.loads(json.dumps(body).replace("{}", run_id))
            reply = await people.other.send(method, path.replace("{}", run_id), json=named)
            assert (reply.status, reply.code) == (404, "run_not_found"), path
    assert (await people.other.get("/rft/external-runs")).json["runs"] == []
    mates = (await people.mate.get("/rft/external-runs")).json["runs"]
    assert [run["id"] for run in mates] == [shared]
    closed = await people.mate.post("/rft/finalize", {"run_id": shared})
    assert closed.status == 200
    of_team = await people.wire.get("/rft/external-runs", params={"team_id": people.team})
    assert [run["id"] for run in of_team.json["runs"]] == [shared]
    foreign = await people.other.post(
        "/rft/external-runs", {"base_model": "m", "team_id": people.team}
    )
    assert (foreign.status, foreign.code) == (404, "team_not_found")


async def test_an_account_is_a_team_of_one(people: People) -> None:
    """Clients that insist on a team may name the account itself."""
    run_id = await training_run(people.wire, team_id=people.account)
    read = (await people.wire.get(f"/rft/external-runs/{run_id}")).json["run"]
    assert (read["teamId"], read["userId"]) == (None, people.account)


async def test_launchers_use_another_base_and_another_header(platform: RunningPlatform) -> None:
    """``/api/internal/rft`` is ``/api/v1/rft``; the key may come in ``x-api-key``."""
    async with Wire(platform.url, key=None) as wire:
        key = {"x-api-key": KEY}
        run = {"base_model": "m"}
        made = await wire.post("//api/internal/rft/external-runs", run, headers=key)
        assert made.status == 201
        run_id = made.json["run"]["id"]
        row = {"run_id": run_id, "metrics": {"step": 1, "reward": 0.5}}
        sent = await wire.post("//api/internal/rft/metrics", row, headers=key)
        assert sent.json == {"stored": 1, "updated": 0}
        read = await wire.get(f"/rft/external-runs/{run_id}", headers=key)
        assert read.json["run"]["latestStep"] == 1
        for headers in ({}, {"x-api-key": "pit_wrong_0123456789abcdef"}):
            assert (await wire.get(f"/rft/external-runs/{run_id}", headers=headers)).status == 401
        # A bearer key that is sent decides, whatever is beside it.
        wrong = {**key, "Authorization": "Bearer pit_wrong_0123456789abcdef"}
        assert (await wire.get(f"/rft/external-runs/{run_id}", headers=wrong)).status == 401


async def test_a_deleted_run_is_gone_with_what_it_reported(
    wire: Wire, platform: RunningPlatform
) -> None:
    """Rows, distributions and files; other runs keep theirs, the same file included."""
    gone, kept = await training_run(wire), await training_run(wire)
    for run_id in (gone, kept):
        named = {"run_id": run_id, "step": 1}
        await wire.post("/rft/metrics", {"run_id": run_id, "rows": [{"step": 1}, {"a": 1}]})
        await wire.post("/rft/distributions", {**named, "distributions": {"a": [1]}})
        await wire.post("/rft/samples", {**named, "samples": [{"shared": True}]})
    await wire.post("/rft/samples", {"run_id": gone, "step": 2, "samples": [{"own": True}]})
    assert (await wire.delete(f"/rft/external-runs/{gone}")).status == 204
    for path in ("", "/metrics", "/distributions", "/samples"):
        assert (await wire.get(f"/rft/external-runs/{gone}{path}")).status == 404
        assert (await wire.get(f"/rft/external-runs/{kept}{path}")).status == 200
    count = "SELECT (SELECT count(*) FROM metric_rows), (SELECT count(*) FROM distributions)"
    left = platform.parts.database.point(lambda reader: reader.exec_driver_sql(count).one())
    assert tuple(left) == (2, 1)
    (found,) = (await wire.get(f"/rft/external-runs/{kept}/samples")).json["objects"]
    files = [one.name for one in platform.config.run_samples_dir.rglob("*") if one.is_file()]
    assert files == [found["sha256"]]
    read = await wire.get(f"/rft/external-runs/{kept}/samples/{found['key']}")
    assert read.json == [{"shared": True}]
