"""The life of an evaluation over the wire."""

from __future__ import annotations

import json

import pytest

from prime_async.server.store import evaluations
from tests.platform import RunningPlatform
from tests.server.clocks import FakeClock
from tests.server.wire import Wire


async def test_an_evaluation_goes_from_pending_to_completed(wire: Wire, clock: FakeClock) -> None:
    """PENDING at first, RUNNING with samples, COMPLETED when finalized; times are kept."""
    evaluation = await wire.evaluation(environments=[{"id": await wire.environment()}])
    created = (await wire.get(f"/evaluations/{evaluation}")).json
    assert created["status"] == "PENDING"
    assert created["finalized_at"] is None
    await wire.push(evaluation, [{"reward": 1.0}])
    assert (await wire.get(f"/evaluations/{evaluation}")).json["status"] == "RUNNING"
    clock.advance(5)
    closed = await wire.post(f"/evaluations/{evaluation}/finalize", {"metrics": {"reward": 1.0}})
    assert closed.status == 200
    read = (await wire.get(f"/evaluations/{evaluation}")).json
    assert read == closed.json
    assert read["status"] == "COMPLETED"
    assert read["metrics"] == {"reward": 1.0}
    assert read["total_samples"] == 1
    assert read["finalized_at"] == read["updated_at"] == "2027-01-15T08:00:05.000Z"
    assert read["created_at"] == "2027-01-15T08:00:00.000Z"


async def test_everything_given_at_creation_reads_back(wire: Wire) -> None:
    """All fields of the create body are stored as they were sent."""
    environment = await wire.environment("gsm8k")
    fields = {
        "name": "gsm8k-4o — naïve 日本",
        "model_name": "openai/gpt-4o",
        "dataset": "gsm8k",
        "framework": "verifiers",
        "task_type": "math",
        "description": "d",
        "suite_id": "s1",
        "run_id": "r1",
        "tags": ["a", "b"],
        "metadata": {"z": 1, "a": {"y": [1, 2.50, None, True]}, "big": 2**80},
        "metrics": {"avg": 0.1},
        "is_public": True,
    }
    body = {**fields, "environments": [{"id": environment, "version_id": "v1", "extra": 1}]}
    reply = await wire.post("/evaluations/", body)
    assert reply.status == 200
    read = (await wire.get(f"/evaluations/{reply.json['evaluation_id']}")).json
    assert {name: read[name] for name in fields} == fields
    assert list(read["metadata"]) == ["z", "a", "big"]
    assert read["environment_ids"] == [environment]
    assert read["environment_names"] == ["local/gsm8k"]
    assert read["id"] == read["evaluation_id"]
    assert read["is_hosted"] is False


async def test_metadata_is_kept_to_the_letter(wire: Wire) -> None:
    """Free-form objects come back as the very text that was sent: digits, escapes and key order."""
    text = '{"z": 1.10, "a": 123456789012345678901234567890, "e": "\\u00e9", "k": 1E5}'
    raw = f'{{"name": "n", "run_id": "r", "metadata": {text}, "unknown": [1]}}'.encode()
    reply = await wire.post("/evaluations/", raw=raw)
    assert f'"metadata":{text}'.encode() in reply.body


async def test_an_evaluation_needs_an_environment_or_a_run(wire: Wire) -> None:
    """Neither is a 422 that names the field; nothing is stored."""
    for body in ({"name": "n"}, {"name": "n", "environments": []}):
        reply = await wire.post("/evaluations/", body)
        assert reply.status == 422
        assert reply.json["detail"][0]["loc"] == ["body", "environments"]
    assert (await wire.get("/evaluations/")).json["total"] == 0


async def test_an_unknown_environment_is_refused(wire: Wire) -> None:
    """The id that does not exist is named and nothing is stored."""
    known = await wire.environment()
    body = {"name": "n", "environments": [{"id": known}, {"id": "cnothere"}]}
    reply = await wire.post("/evaluations/", body)
    assert reply.status == 422
    assert "cnothere" in reply.json["detail"][0]["msg"]
    assert (await wire.get("/evaluations/")).json["total"] == 0


@pytest.mark.parametrize(
    ("body", "loc", "kind"),
    [
        ({"run_id": "r"}, ["body", "name"], "missing"),
        ({"name": 5, "run_id": "r"}, ["body", "name"], "type_error"),
        ({"name": "", "run_id": "r"}, ["body", "name"], "value_error"),
        ({"name": "n", "environments": [{}]}, ["body", "environments", 0, "id"], "missing"),
        ({"name": "n", "run_id": "r", "metadata": []}, ["body", "metadata"], "type_error"),
        ({"name": "n", "run_id": "r", "tags": [1]}, ["body", "tags", 0], "type_error"),
        ([], ["body"], "type_error"),
    ],
)
async def test_a_wrong_field_is_named(
    wire: Wire, body: object, loc: list[object], kind: str
) -> None:
    """422 answers have FastAPI's shape: where, what, and the kind of fault."""
    reply = await wire.post("/evaluations/", raw=json.dumps(body).encode())
    assert reply.status == 422
    entry = reply.json["detail"][0]
    assert (entry["loc"], entry["type"]) == (loc, kind)
    assert entry["msg"]
    assert reply.code == "validation_error"


async def test_lists_are_newest_first_and_paged(wire: Wire) -> None:
    """``skip`` and ``limit`` cut the list; ``total`` counts all of it."""
    made = [await wire.evaluation(name=f"e{number}") for number in range(7)]
    first = (await wire.get("/evaluations/", params={"limit": 3})).json
    rest = (await wire.get("/evaluations/", params={"skip": 3, "limit": 50})).json
    ids = [one["evaluation_id"] for one in first["evaluations"] + rest["evaluations"]]
    assert ids == made[::-1]
    assert (first["total"], first["skip"], first["limit"]) == (7, 0, 3)
    beyond = (await wire.get("/evaluations/", params={"skip": 100})).json
    assert (beyond["evaluations"], beyond["total"]) == ([], 7)


async def test_lists_are_filtered(wire: Wire) -> None:
    """By environment (bare and with its owner), by suite, and by both."""
    gsm8k, math = await wire.environment("gsm8k"), await wire.environment("math")
    one = await wire.evaluation(environments=[{"id": gsm8k}], suite_id="s1")
    two = await wire.evaluation(environments=[{"id": math}, {"id": gsm8k}], suite_id="s2")
    three = await wire.evaluation(environments=[{"id": math}], suite_id="s1")

    async def found(**params: str) -> list[str]:
        page = (await wire.get("/evaluations/", params=params)).json
        assert page["total"] == len(page["evaluations"])
        return [entry["evaluation_id"] for entry in page["evaluations"]]

    assert await found(environment_name="gsm8k") == [two, one]
    assert await found(environment_name="local/math") == [three, two]
    assert await found(environment_name="else/math") == []
    assert await found(suite_id="s1") == [three, one]
    assert await found(suite_id="s1", environment_name="gsm8k") == [one]
    assert await found(suite_id="") == [three, two, one]


@pytest.mark.parametrize(
    "params",
    [{"limit": "0"}, {"limit": "1001"}, {"skip": "-1"}, {"limit": "x"}, {"skip": "9" * 30}],
)
async def test_paging_out_of_range_is_refused(wire: Wire, params: dict[str, str]) -> None:
    """A page that cannot be meant is a 422 that names the parameter."""
    reply = await wire.get("/evaluations/", params=params)
    assert reply.status == 422
    assert reply.json["detail"][0]["loc"] == ["query", next(iter(params))]


async def test_an_update_changes_what_it_names(wire: Wire) -> None:
    """What is left out stays; null empties a field."""
    evaluation = await wire.evaluation(dataset="d", description="old", metadata={"a": 1})
    reply = await wire.put(
        f"/evaluations/{evaluation}",
        {"name": "new", "description": None, "metadata": {"b": 2}, "metrics": {"m": 1}},
    )
    assert reply.status == 200
    read = (await wire.get(f"/evaluations/{evaluation}")).json
    assert (read["name"], read["dataset"], read["description"]) == ("new", "d", None)
    assert (read["metadata"], read["metrics"]) == ({"b": 2}, {"m": 1})


async def test_empty_tags_in_an_update_leave_the_stored_ones(wire: Wire) -> None:
    """Official clients send ``tags: []`` when their user gave none: that must not wipe anything."""
    evaluation = await wire.evaluation(tags=["keep"])

    async def tags_after(body: dict[str, object]) -> list[str]:
        tags: list[str] = (await wire.put(f"/evaluations/{evaluation}", body)).json["tags"]
        return tags

    assert await tags_after({"name": "x", "tags": []}) == ["keep"]
    assert await tags_after({"name": "x"}) == ["keep"]
    assert await tags_after({"tags": ["new", "two"]}) == ["new", "two"]
    assert await tags_after({"tags": None}) == []


async def test_finalizing_is_repeatable(wire: Wire, clock: FakeClock) -> None:
    """Again without metrics keeps them, with metrics replaces them; the body may be missing."""
    evaluation = await wire.evaluation(metrics={"from": "create"})
    path = f"/evaluations/{evaluation}/finalize"
    assert (await wire.post(path, {})).json["metrics"] == {"from": "create"}
    first = (await wire.post(path, {"metrics": {"a": 1}})).json
    clock.advance(1)
    again = (await wire.send("POST", path)).json
    assert again["metrics"] == {"a": 1}
    assert again["finalized_at"] > first["finalized_at"]
    assert (await wire.post(path, {"metrics": {"b": 2}})).json["metrics"] == {"b": 2}


async def test_samples_may_follow_a_finalize(wire: Wire) -> None:
    """A late batch is stored; the evaluation stays completed."""
    evaluation = await wire.evaluation()
    await wire.post(f"/evaluations/{evaluation}/finalize", {})
    assert (await wire.push(evaluation, [{"a": 1}])).status == 200
    read = (await wire.get(f"/evaluations/{evaluation}")).json
    assert (read["status"], read["total_samples"]) == ("COMPLETED", 1)


async def test_deleting_removes_everything(platform: RunningPlatform, wire: Wire) -> None:
    """204 once, 404 from then on for the evaluation, its samples and its pushes."""
    evaluation, other = await wire.evaluation(), await wire.evaluation()
    for push in range(3):
        await wire.push(evaluation, [{"a": index} for index in range(50)], f"p{push}")
    await wire.push(other, [{"b": 1}], "p0")
    reply = await wire.delete(f"/evaluations/{evaluation}")
    assert (reply.status, reply.body) == (204, b"")
    for path in ("", "/samples", "/pushes/p0"):
        gone = await wire.get(f"/evaluations/{evaluation}{path}")
        assert (gone.status, gone.code) == (404, "evaluation_not_found")
    assert (await wire.delete(f"/evaluations/{evaluation}")).status == 404
    assert await wire.samples(other) == [{"b": 1}]
    left = await platform.parts.database.scan(
        lambda reader: reader.exec_driver_sql(
            "SELECT (SELECT count(*) FROM sample_chunks), (SELECT count(*) FROM pushes)"
        ).one()
    )
    assert tuple(left) == (1, 1)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PUT", "", {"name": "x"}),
        ("DELETE", "", None),
        ("POST", "/samples", {"samples": [{}]}),
        ("GET", "/samples", None),
        ("POST", "/finalize", {}),
        ("GET", "/pushes/p1", None),
    ],
)
async def test_an_unknown_evaluation_is_a_404_everywhere(
    wire: Wire, method: str, path: str, body: object
) -> None:
    """Every call says that the evaluation does not exist, with its code."""
    reply = await wire.send(method, f"/evaluations/cnothere{path}", json=body)
    assert (reply.status, reply.code) == (404, "evaluation_not_found")
    assert reply.json["detail"] == reply.json["error"]["message"]


async def test_paths_answer_with_and_without_their_trailing_slash(wire: Wire) -> None:
    """No redirects: uploads of the official clients do not follow them."""
    evaluation = await wire.evaluation()
    for path in ("/evaluations", "/evaluations/", f"/evaluations/{evaluation}/"):
        reply = await wire.get(path, allow_redirects=False)
        assert reply.status == 200
    body = {"name": "n", "run_id": "r"}
    assert (await wire.post("/evaluations", body, allow_redirects=False)).status == 200


async def test_hosted_evaluations_are_refused_honestly(wire: Wire) -> None:
    """501 says that it is not there yet; cancel and logs say that nothing is hosted."""
    body = {"environment_ids": ["e"], "inference_model": "m", "eval_config": {}}
    reply = await wire.post("/hosted-evaluations", body)
    assert (reply.status, reply.code) == (501, "not_implemented")
    assert "later version" in reply.json["detail"]
    evaluation = await wire.evaluation()
    for method, path in (("PATCH", "cancel"), ("GET", "logs")):
        mine = await wire.send(method, f"/hosted-evaluations/{evaluation}/{path}")
        assert (mine.status, mine.code) == (409, "not_hosted")
        unknown = await wire.send(method, f"/hosted-evaluations/cnothere/{path}")
        assert (unknown.status, unknown.code) == (404, "evaluation_not_found")


async def test_a_list_page_is_bounded_in_bytes(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free-form objects can be large: a page that would not fit says so, a smaller one works."""
    monkeypatch.setattr(evaluations, "PAGE_BYTES", 100_000)
    for _ in range(3):
        await wire.evaluation(metadata={"a": "x" * 40_000})
    reply = await wire.get("/evaluations/")
    assert (reply.status, reply.code) == (413, "page_too_large")
    page = (await wire.get("/evaluations/", params={"limit": 2})).json
    assert (len(page["evaluations"]), page["total"]) == (2, 3)
