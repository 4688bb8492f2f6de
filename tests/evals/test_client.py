"""The other methods of the client: what they send, how they read, how they wait."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from prime_async.errors import APITimeoutError, ProtocolError, UsageError
from prime_async.evals import AsyncEvalsClient
from tests.evals.pushing import Target, numbered
from tests.official_stub import EVALUATION, OfficialStub
from tests.stub import Answer, Request, Stub


def _hub(stub: Stub, delay: float = 0.0) -> None:
    """A hub where every environment exists, with an id that names how it was asked for."""

    def named(request: Request) -> Answer:
        if request.method == "GET":
            slug = "/".join(request.path.split("/")[4:6])
            return Answer(json={"data": {"id": f"slug:{slug}"}}, delay=delay)
        asked = next(iter(request.json().values()))
        return Answer(json={"id": f"{request.path.rsplit('/', 1)[1]}:{asked}"})

    stub.route("*", "/api/v1/environmentshub/.*", named)
    stub.route("POST", "/api/v1/evaluations/", Answer(json={"evaluation_id": "e1"}))


async def test_every_form_of_an_environment(stub: Stub) -> None:
    """Slugs are looked up, names made, ids checked; further keys go along; the order stays."""
    _hub(stub)
    async with AsyncEvalsClient("k", base_url=stub.url) as client:
        await client.create_evaluation(
            "n",
            [
                "owner/env",
                "bare",
                {"slug": "o/e", "version_id": "v1"},
                {"name": "made", "version_id": "v2"},
                {"id": "given", "extra": 1},
                {"slug": "a/b", "name": "ignored", "id": "ignored"},
            ],
        )
    assert stub.requests[-1].json()["environments"] == [
        {"id": "slug:owner/env"},
        {"id": "resolve:bare"},
        {"id": "slug:o/e", "version_id": "v1"},
        {"id": "resolve:made", "version_id": "v2"},
        {"id": "lookup:given", "extra": 1},
        {"id": "slug:a/b"},
    ]


async def test_environments_are_resolved_together_within_bounds(stub: Stub) -> None:
    """Many look-ups overlap, but no more than eight at a time."""
    flying = most = 0

    async def slow(request: Request) -> Answer:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0.01)
        flying -= 1
        return Answer(json={"data": {"id": request.path}})

    _hub(stub)
    stub.route("GET", "/api/v1/environmentshub/.*", slow)
    async with AsyncEvalsClient("k", base_url=stub.url) as client:
        await client.create_evaluation("n", [f"o/e{number}" for number in range(40)])
    assert most == 8


async def test_what_create_sends(stub: Stub) -> None:
    """None is left out, tags always go, the team comes from the client, repeats are recognised."""
    _hub(stub)
    async with AsyncEvalsClient("k", base_url=stub.url, team_id="t1") as client:
        await client.create_evaluation("n", run_id="r", is_public=False, metadata={})
        await client.create_evaluation("n", dataset="d", tags=["a"])
    first, second = stub.seen("POST", "/api/v1/evaluations/")
    assert first.json() == {
        "name": "n",
        "run_id": "r",
        "is_public": False,
        "metadata": {},
        "team_id": "t1",
        "tags": [],
    }
    assert second.json()["environments"] == [{"id": "resolve:d"}]
    assert second.json()["tags"] == ["a"]
    assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]


@pytest.mark.parametrize("answer", [{}, {"evaluation_id": None}, {"evaluation_id": ""}, {"x": 1}])
async def test_an_answer_without_an_id_is_no_evaluation(stub: Stub, answer: dict[str, Any]) -> None:
    """A create that names no evaluation failed, whatever its status says."""
    stub.route("POST", "/api/v1/evaluations/", Answer(json=answer))
    async with AsyncEvalsClient("k", base_url=stub.url) as client:
        with pytest.raises(ProtocolError, match="no evaluation_id"):
            await client.create_evaluation("n", run_id="r")


async def test_the_hub_answers_without_an_id(stub: Stub) -> None:
    """An environment nobody can name is a fault of the answer, said with its address."""
    stub.route("POST", "/api/v1/environmentshub/resolve", Answer(json={"data": {}}))
    async with AsyncEvalsClient("k", base_url=stub.url) as client:
        with pytest.raises(ProtocolError, match="environmentshub/resolve names no environment id"):
            await client.create_evaluation("n", ["bare"])


async def test_tags_are_cleared_on_both_wires(target: Target, official: OfficialStub) -> None:
    """`tags=[]` empties them: null where the platform takes [] for "no change", [] elsewhere."""
    client = target.client
    await client.update_evaluation(target.evaluation_id, tags=["a", "b"])
    await client.update_evaluation(target.evaluation_id, name="renamed")
    assert (await client.get_evaluation(target.evaluation_id)).tags == ["a", "b"]
    await client.update_evaluation(target.evaluation_id, tags=[])
    assert not (await client.get_evaluation(target.evaluation_id)).tags
    async with AsyncEvalsClient("k", base_url=official.url) as other:
        await other.update_evaluation(EVALUATION, tags=[])
    assert official.seen("PUT", ".*")[0].json() == {"tags": []}


async def test_an_update_sends_what_is_given(official: OfficialStub) -> None:
    """Fields that are None stay as they are: they are not in the request."""
    async with AsyncEvalsClient("k", base_url=official.url) as client:
        await client.update_evaluation(EVALUATION, model_name="m", metrics={"a": 1})
    assert official.seen("PUT", ".*")[0].json() == {"model_name": "m", "metrics": {"a": 1}}


async def test_what_finalize_sends(official: OfficialStub) -> None:
    """Metrics, or an empty object without any."""
    async with AsyncEvalsClient("k", base_url=official.url) as client:
        await client.finalize_evaluation(EVALUATION, {"a": 1})
        await client.finalize_evaluation(EVALUATION)
    bodies = [request.json() for request in official.seen("POST", ".*/finalize")]
    assert bodies == [{"metrics": {"a": 1}}, {}]


async def test_what_list_asks(stub: Stub) -> None:
    """Filters that are blank are left out; the team of the call wins over that of the client."""
    stub.default = Answer(json={"evaluations": [], "total": 0})
    async with AsyncEvalsClient("k", base_url=stub.url, team_id="t1") as client:
        await client.list_evaluations()
        await client.list_evaluations("o/e", "s", 5, 7, team_id="t2")
        await client.list_evaluations("", "")
    queries = [request.query for request in stub.requests]
    assert queries == [
        {"skip": "0", "limit": "50", "team_id": "t1"},
        {"skip": "5", "limit": "7", "environment_name": "o/e", "suite_id": "s", "team_id": "t2"},
        {"skip": "0", "limit": "50", "team_id": "t1"},
    ]


async def test_iterating_stops_when_pages_run_dry(stub: Stub) -> None:
    """A total that is too large, or a page shorter than asked for, never loops for ever."""
    pages = [[{"id": "a"}, {"id": "b"}], [{"id": "c"}], []]

    def page(request: Request) -> Answer:
        return Answer(json={"evaluations": pages[len(stub.requests) - 1], "total": 99})

    stub.route("GET", "/api/v1/evaluations/", page)
    async with AsyncEvalsClient("k", base_url=stub.url) as client:
        found = [one.evaluation_id async for one in client.iter_evaluations(page_size=2)]
    assert found == ["a", "b", "c"]
    assert [request.query["skip"] for request in stub.requests] == ["0", "2", "3"]


async def test_samples_are_read_page_by_page(target: Target) -> None:
    """The next page is fetched when it is needed, not before; leaving early fetches no more."""
    await target.push(numbered(100))
    fetched = 0
    real = target.client.get_samples

    async def counting(*args: Any, **options: Any) -> Any:
        nonlocal fetched
        fetched += 1
        return await real(*args, **options)

    target.client.get_samples = counting  # type: ignore[method-assign]  # to count the pages
    samples = target.client.iter_samples(target.evaluation_id, page_size=10)
    assert [(await anext(samples))["example_id"] for _ in range(15)] == list(range(15))
    assert fetched == 2
    await samples.aclose()  # type: ignore[attr-defined]  # an async generator
    assert fetched == 2


async def test_pages_shorter_than_asked_for_lose_no_sample(stub: Stub) -> None:
    """A platform may have a limit of its own, and may not say whether more follow."""
    rows = [{"n": number} for number in range(5)]

    def page(request: Request) -> Answer:
        start = (int(request.query["page"]) - 1) * 2
        return Answer(json={"samples": rows[start : start + 2], "total": 5})

    stub.default = page
    async with AsyncEvalsClient("k", base_url=stub.url) as client:
        assert [sample async for sample in client.iter_samples("e1", page_size=1000)] == rows
    assert len(stub.requests) == 3


@pytest.mark.parametrize(
    "body",
    [
        b'{"samples": 5}',
        b'{"samples": [1]}',
        b'{"samples": ["a"], "total": 1}',
        b'{"samples": [{}], "total": "many"}',
        b'{"samples": [{}',
        b"[]",
        b'{"samples": [{"a": \xff}]}',
    ],
)
async def test_a_page_that_is_none(stub: Stub, body: bytes) -> None:
    """Anything that is no page of samples is named, with the address."""
    stub.default = Answer(body=body)
    async with AsyncEvalsClient("k", base_url=stub.url) as client:
        with pytest.raises(ProtocolError, match="/api/v1/evaluations/e1/samples"):
            await client.get_samples("e1")


async def test_a_page_of_the_official_service(stub: Stub) -> None:
    """camelCase, unknown keys, nothing missing."""
    page = {"samples": [{"a": 1}], "total": 7, "page": 2, "limit": 1, "hasMore": True, "new": [1]}
    stub.default = Answer(json=page)
    async with AsyncEvalsClient("k", base_url=stub.url) as client:
        found = await client.get_samples("e1", 2, 1)
    assert found == page
    assert (found.has_more, found["hasMore"], found["new"]) == (True, True, [1])


async def test_waiting_ends_with_the_status(stub: Stub) -> None:
    """Any final status ends it, in any case of letters; others are waited through."""
    statuses = ["PENDING", "RUNNING", "whatever", None, "completed"]

    def look(_: Request) -> Answer:
        return Answer(json={"evaluation_id": "e1", "status": statuses[len(stub.requests) - 1]})

    stub.route("GET", ".*", look)
    async with AsyncEvalsClient("k", base_url=stub.url) as client:
        done = await client.wait_for_evaluation("e1", poll_interval=0.001)
    assert done.status == "completed"
    assert len(stub.requests) == 5


async def test_FR09_a_given_interval_is_kept(stub: Stub) -> None:
    """No look comes sooner than the caller asked for."""
    stub.script(*[Answer(json={"status": "RUNNING"})] * 2, Answer(json={"status": "FAILED"}))
    async with AsyncEvalsClient("k", base_url=stub.url) as client:
        await client.wait_for_evaluation("e1", poll_interval=0.2)
    times = [request.time for request in stub.requests]
    assert all(later - earlier >= 0.2 for earlier, later in pairwise(times))


async def test_waiting_has_an_end(stub: Stub) -> None:
    """A status that never becomes final is a timeout that says what was waited for."""
    stub.default = Answer(json={"status": "RUNNING"})
    async with AsyncEvalsClient("k", base_url=stub.url) as client:
        with pytest.raises(APITimeoutError, match="waiting for evaluation e1"):
            await client.wait_for_evaluation("e1", timeout=0.2, poll_interval=0.01)
        for wrong in (0, -1, "5", float("nan")):
            with pytest.raises(UsageError):
                await client.wait_for_evaluation("e1", poll_interval=wrong)  # type: ignore[arg-type]


async def test_constructors_as_users_of_the_official_clients_write_them(stub: Stub) -> None:
    """A text in first place is the key; a shared client stays open when this one is closed."""
    from prime_async import AsyncAPIClient

    async with AsyncAPIClient("shared", base_url=stub.url) as api:
        for client in (
            AsyncEvalsClient("text", base_url=stub.url),
            AsyncEvalsClient(api_key="named", base_url=stub.url),
            AsyncEvalsClient(api),
            AsyncEvalsClient(api_client=api),
        ):
            async with client:
                await client.list_evaluations()
        assert api.config.team_id is None
    keys = [request.headers["Authorization"] for request in stub.requests]
    assert keys == ["Bearer text", "Bearer named", "Bearer shared", "Bearer shared"]
    assert stub.requests[2].connection == stub.requests[3].connection
