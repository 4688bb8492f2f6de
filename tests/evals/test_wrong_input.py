"""The bad-input table: a clear error of the right type that names the field, and no request at all.

Each row runs through both faces. Where the fault is in the input nothing may reach the network;
where only the platform can know (a wrong key, an unknown evaluation) nothing may be half done.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from prime_async.errors import (
    ConfigError,
    EnvironmentNotFoundError,
    EvaluationNotFoundError,
    InvalidEvaluationError,
    InvalidSampleError,
    PrimeError,
    UnauthorizedError,
    UsageError,
    ValueEncodingError,
)
from prime_async.evals import ResumeToken, interrupted_pushes
from tests.evals.pushing import write_jsonl
from tests.faces import Face, both_faces
from tests.platform import KEY, RunningPlatform, running_platform
from tests.stub import Stub

GOOD = [{"example_id": 0}]


@dataclass(frozen=True)
class Row:
    """A wrong call: the client method, its arguments, and what must come of it."""

    name: str
    call: Callable[[Any], Any]
    kind: type[PrimeError]
    field: str | None
    says: str = ""

    def __str__(self) -> str:
        return self.name


def _push(**options: Any) -> Callable[[Any], Any]:
    return lambda client: client.push_samples("e1", GOOD, **options)


def _create(*args: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda client: client.create_evaluation(*args, **options)


def _about(wrong_id: Any) -> list[Row]:
    """Every method that takes the id of an evaluation, with one that is none."""
    calls: dict[str, Callable[[Any], Any]] = {
        "push": lambda client: client.push_samples(wrong_id, GOOD),
        "get": lambda client: client.get_evaluation(wrong_id),
        "finalize": lambda client: client.finalize_evaluation(wrong_id),
        "update": lambda client: client.update_evaluation(wrong_id, name="n"),
        "delete": lambda client: client.delete_evaluation(wrong_id),
        "samples": lambda client: client.get_samples(wrong_id),
        "wait": lambda client: client.wait_for_evaluation(wrong_id, timeout=5),
        "cancel": lambda client: client.cancel_hosted_evaluation(wrong_id),
        "logs": lambda client: client.get_hosted_logs(wrong_id),
    }
    return [
        Row(f"{name} {wrong_id!r}", call, UsageError, "evaluation_id")
        for name, call in calls.items()
    ]


def _limits() -> list[Row]:
    rows = []
    for name in ("max_concurrent", "max_workers", "max_payload_bytes"):
        for wrong in (0, -1, True, 1.5, "4", math.nan):
            rows.append(Row(f"{name}={wrong!r}", _push(**{name: wrong}), UsageError, name))
    for name, low in (("page", 0), ("limit", 0), ("page", -1), ("limit", -5), ("limit", 1001)):
        rows.append(_bad_page(name, low))
    for name, wrong in (
        ("skip", -1),
        ("limit", 0),
        ("limit", 1001),
        ("skip", "1"),
        ("limit", True),
    ):
        rows.append(_bad_list(name, wrong))
    for wrong in (0, -1, math.nan, True, "5"):
        rows.append(Row(f"timeout={wrong!r}", _push(timeout=wrong), UsageError, "timeout"))
        rows.append(
            Row(
                f"create timeout={wrong!r}",
                _create("n", run_id="r", timeout=wrong),
                UsageError,
                "timeout",
            )
        )
    return rows


def _bad_page(name: str, wrong: Any) -> Row:
    return Row(
        f"samples {name}={wrong!r}",
        lambda client: client.get_samples("e1", **{name: wrong}),
        UsageError,
        name,
    )


def _bad_list(name: str, wrong: Any) -> Row:
    return Row(
        f"list {name}={wrong!r}",
        lambda client: client.list_evaluations(**{name: wrong}),
        UsageError,
        name,
    )


ANOTHER_EVALUATION = str(ResumeToken("other", "p"))
OF_P = str(ResumeToken("e1", "p"))

ROWS = [
    *_about(""),
    *_about("a/b"),
    *_about("../whoami"),
    *_about(None),
    *_about(5),
    *_limits(),
    Row("one sample", lambda c: c.push_samples("e1", {"a": 1}), UsageError, "samples", "list"),
    Row("no samples", lambda c: c.push_samples("e1", None), UsageError, "samples"),
    Row("two limits", _push(max_concurrent=2, max_workers=3), UsageError, "max_workers"),
    Row("trim is text", _push(trim="info"), UsageError, "trim", "trim=['info']"),
    Row("trim of numbers", _push(trim=[1]), UsageError, "trim"),
    Row("trim is None", _push(trim=None), UsageError, "trim"),
    Row("callback is no function", _push(progress_callback=5), UsageError, "progress_callback"),
    Row("push id with a space", _push(push_id="a b"), UsageError, "push_id"),
    Row("push id with a dash first", _push(push_id="-a"), UsageError, "push_id"),
    Row("push id is a number", _push(push_id=5), UsageError, "push_id"),
    Row("push id too long", _push(push_id="a" * 65), UsageError, "push_id"),
    Row("no token", _push(resume="nonsense"), UsageError, "resume", "receipt.resume_token"),
    Row("another evaluation's token", _push(resume=ANOTHER_EVALUATION), UsageError, "resume"),
    Row("another push's token", _push(resume=OF_P, push_id="q"), UsageError, "push_id"),
    Row(
        "no such file",
        lambda c: c.push_samples("e1", "/nowhere/x.jsonl"),
        InvalidSampleError,
        "samples",
    ),
    Row("no name", _create(""), InvalidEvaluationError, "name"),
    Row("name of blanks", _create("  "), InvalidEvaluationError, "name"),
    Row("name is None", _create(None), InvalidEvaluationError, "name"),
    Row("no environment", _create("n"), InvalidEvaluationError, "environments", "dataset="),
    Row("empty environments", _create("n", []), InvalidEvaluationError, "environments"),
    Row("environments is text", _create("n", "o/e"), InvalidEvaluationError, "environments"),
    Row("environments is one", _create("n", {"id": "x"}), InvalidEvaluationError, "environments"),
    Row("environments is a number", _create("n", 5), InvalidEvaluationError, "environments"),
    Row("an empty environment", _create("n", ["a", ""]), InvalidEvaluationError, "environments[1]"),
    Row(
        "an environment of three parts",
        _create("n", ["a/b/c"]),
        InvalidEvaluationError,
        "environments[0]",
    ),
    Row("an owner without a name", _create("n", ["a/"]), InvalidEvaluationError, "environments[0]"),
    Row(
        "a slug without an owner",
        _create("n", [{"slug": "e"}]),
        InvalidEvaluationError,
        "environments[0]",
    ),
    Row(
        "a mapping of nothing",
        _create("n", [{"version_id": "v"}]),
        InvalidEvaluationError,
        "environments[0]",
    ),
    Row(
        "an environment by number",
        _create("n", [{"id": 5}]),
        InvalidEvaluationError,
        "environments[0]",
    ),
    Row("tags is text", _create("n", run_id="r", tags="a"), UsageError, "tags"),
    Row(
        "metadata that cannot be written",
        _create("n", run_id="r", metadata={"a": {"b": object()}}),
        ValueEncodingError,
        "body.metadata.a.b",
    ),
    Row("nothing to update", lambda c: c.update_evaluation("e1"), UsageError, "name"),
    Row("tags of an update", lambda c: c.update_evaluation("e1", tags="a"), UsageError, "tags"),
    Row(
        "metrics that cannot be written",
        lambda c: c.finalize_evaluation("e1", metrics={"a": object()}),
        ValueEncodingError,
        "body.metrics.a",
    ),
    Row(
        "a poll interval of nothing",
        lambda c: c.wait_for_evaluation("e1", poll_interval=0),
        UsageError,
        "poll_interval",
    ),
    Row(
        "hosted without environments",
        lambda c: c.create_hosted_evaluation([], "m", {}),
        InvalidEvaluationError,
        "environment_ids",
    ),
    Row(
        "hosted with a text for a list",
        lambda c: c.create_hosted_evaluation("env", "m", {}),
        InvalidEvaluationError,
        "environment_ids",
    ),
    Row(
        "hosted without a model",
        lambda c: c.create_hosted_evaluation(["env"], "", {}),
        InvalidEvaluationError,
        "inference_model",
    ),
]


@both_faces
@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_a_wrong_call(face: Face, row: Row, stub: Stub) -> None:
    """The right error, the field in it, something to do next in words, no request."""
    async with face.AsyncEvalsClient("key", base_url=stub.url) as client:
        with pytest.raises(row.kind) as caught:
            await row.call(client)
    assert isinstance(caught.value, UsageError)
    assert caught.value.field == row.field
    assert row.says in str(caught.value)
    assert stub.requests == []


@both_faces
async def test_a_broken_line_in_a_file(face: Face, stub: Stub, tmp_path: Path) -> None:
    """Bad JSON, a line that is no object: file, line and column, before anything is sent."""
    for line, said in (("{", "rows.jsonl:2:2"), ("[1]", "rows.jsonl:2:1: a JSON array")):
        path = write_jsonl(tmp_path / "rows.jsonl", [{"a": 1}, line])
        async with face.AsyncEvalsClient("key", base_url=stub.url) as client:
            with pytest.raises(InvalidSampleError, match=said):
                await client.push_samples("e1", path)
    assert stub.requests == []


@both_faces
async def test_a_folder_that_holds_no_results(face: Face, stub: Stub, tmp_path: Path) -> None:
    """A folder is a result folder or an error that says what is missing."""
    async with face.AsyncEvalsClient("key", base_url=stub.url) as client:
        with pytest.raises(
            InvalidEvaluationError, match=r"metadata\.json and results\.jsonl missing"
        ):
            await client.push_samples("e1", tmp_path)
    assert stub.requests == []


@both_faces
async def test_no_key(face: Face, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key nothing is sent; the message names both ways out."""
    monkeypatch.setenv("PRIME_API_BASE_URL", stub.url)
    async with face.AsyncEvalsClient() as client:
        for call in (
            lambda: client.create_evaluation("n", run_id="r"),
            lambda: client.push_samples("e1", GOOD),
            lambda: client.list_evaluations(),
        ):
            with pytest.raises(UnauthorizedError, match=r"PRIME_API_KEY.*PRIME_CONTEXT=local"):
                await call()
    assert stub.requests == []


@both_faces
def test_an_unknown_context(face: Face) -> None:
    """A context that does not exist is an error when the client is made, with the nearest name."""
    with pytest.raises(ConfigError, match="local") as caught:
        face.AsyncEvalsClient(context="locla")
    assert "locla" in str(caught.value)


@both_faces
def test_a_broken_configuration_file(face: Face, home: Path) -> None:
    """The file is named with line and column, and left as it is."""
    path = home / ".prime" / "config.json"
    path.parent.mkdir()
    path.write_text('{\n  "api_key": nope\n}')
    with pytest.raises(ConfigError) as caught:
        face.AsyncEvalsClient()
    assert (caught.value.path, caught.value.line) == (path, 2)
    assert path.read_text() == '{\n  "api_key": nope\n}'


@both_faces
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"api_client": 5}, "api_client"),
        ({"api_client": "key", "api_key": "key"}, "api_key"),
        ({"api_client": "key", "timeout": -1}, "timeout"),
        ({"api_client": "key", "timeout": True}, "timeout"),
        ({"api_key": 5}, "api_key"),
        ({"base_url": 5}, "base_url"),
        ({"team_id": b"t"}, "team_id"),
        ({"context": True}, "context"),
    ],
)
def test_a_wrong_constructor(face: Face, arguments: dict[str, Any], field: str) -> None:
    """Arguments that make no sense are named when the client is made."""
    with pytest.raises(UsageError) as caught:
        face.AsyncEvalsClient(**arguments)
    assert caught.value.field == field


@both_faces
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"user_agent": "mine\r\nX-Evil: 1"}, "user_agent"),
        ({"user_agent": 5}, "user_agent"),
        ({"retry": 5}, "retry"),
    ],
)
def test_a_wrong_connection(face: Face, arguments: dict[str, Any], field: str) -> None:
    """What only the connection takes is checked as early."""
    with pytest.raises(UsageError) as caught:
        face.AsyncAPIClient("key", **arguments)
    assert caught.value.field == field


@both_faces
def test_settings_beside_a_shared_client(face: Face, stub: Stub) -> None:
    """What belongs to the shared connection cannot be given again."""
    api = face.AsyncAPIClient("key", base_url=stub.url)
    for extra in ({"api_key": "k"}, {"base_url": "http://x"}, {"team_id": ""}, {"timeout": 5}):
        with pytest.raises(UsageError, match="belongs to the api_client") as caught:
            face.AsyncEvalsClient(api, **extra)
        assert caught.value.field == next(iter(extra))


# What only the platform can know.


@both_faces
async def test_a_wrong_key(face: Face, tmp_path: Path) -> None:
    """Refused by the platform: the typed error, nothing stored or left on disk, no key shown."""
    async with running_platform(tmp_path) as platform:
        evaluation_id = await _create_on(platform)
        path = write_jsonl(tmp_path / "rows.jsonl", [{"a": 1}] * 50)
        async with face.AsyncEvalsClient("sk-CANARY", base_url=platform.url) as client:
            for call in (
                lambda: client.create_evaluation("n", run_id="r"),
                lambda: client.push_samples(evaluation_id, GOOD),
                lambda: client.push_samples(evaluation_id, path),
                lambda: client.get_evaluation(evaluation_id),
            ):
                with pytest.raises(UnauthorizedError) as caught:
                    await call()
                assert caught.value.status == 401
                assert "CANARY" not in f"{caught.value} {caught.value!r} {vars(caught.value)}"
        async with face.AsyncEvalsClient(KEY, base_url=platform.url) as client:
            assert (await client.get_samples(evaluation_id)).total == 0
    assert interrupted_pushes() == []


@both_faces
async def test_an_unknown_evaluation(face: Face, tmp_path: Path) -> None:
    """Named in the error of every method; a push to it leaves nothing behind."""
    async with running_platform(tmp_path) as platform:
        path = write_jsonl(tmp_path / "rows.jsonl", [{"a": 1}] * 50)
        async with face.AsyncEvalsClient(KEY, base_url=platform.url) as client:
            for call in (
                lambda: client.get_evaluation("missing-1"),
                lambda: client.push_samples("missing-1", GOOD),
                lambda: client.push_samples("missing-1", path),
                lambda: client.push_samples("missing-1", GOOD, push_id="p"),
                lambda: client.finalize_evaluation("missing-1"),
                lambda: client.update_evaluation("missing-1", name="n"),
                lambda: client.update_evaluation("missing-1", tags=[]),
                lambda: client.delete_evaluation("missing-1"),
                lambda: client.get_samples("missing-1"),
                lambda: client.wait_for_evaluation("missing-1", timeout=5),
            ):
                with pytest.raises(EvaluationNotFoundError, match="missing-1") as caught:
                    await call()
                assert caught.value.status == 404
            with pytest.raises(EvaluationNotFoundError, match="missing-1"):
                [sample async for sample in client.iter_samples("missing-1")]
    assert interrupted_pushes() == []


@both_faces
async def test_an_unknown_environment(face: Face, tmp_path: Path) -> None:
    """The first that does not exist is named, and no evaluation is made."""
    async with (
        running_platform(tmp_path) as platform,
        face.AsyncEvalsClient(KEY, base_url=platform.url) as client,
    ):
        for wrong in ("nobody/nothing", {"slug": "nobody/nothing"}, {"id": "missing-2"}):
            with pytest.raises(EnvironmentNotFoundError, match=r"nobody/nothing|missing-2"):
                await client.create_evaluation("n", ["fine", wrong])
        assert (await client.list_evaluations()).total == 0


@both_faces
async def test_samples_the_platform_cannot_store(face: Face, tmp_path: Path) -> None:
    """A number no float holds or of too many digits costs that sample, by index, not the batch."""
    rows = [{"example_id": 0}, '{"a": 1e999}', {"example_id": 2}, f'{{"a": {"9" * 5000}}}']
    path = write_jsonl(tmp_path / "rows.jsonl", [*rows, {"example_id": 4}])
    async with running_platform(tmp_path) as platform:
        evaluation_id = await _create_on(platform)
        async with face.AsyncEvalsClient(KEY, base_url=platform.url) as client:
            receipt = await client.push_samples(evaluation_id, path)
            assert [(one.index, one.status) for one in receipt.refused] == [(1, 422), (3, 422)]
            assert receipt.samples_pushed == 3
            stored = (await client.get_samples(evaluation_id)).samples
    assert [sample["example_id"] for sample in stored] == [0, 2, 4]
    assert json.loads(json.dumps(receipt.to_dict()))["samples_skipped"] == 2


async def _create_on(platform: RunningPlatform) -> str:
    from prime_async.evals import AsyncEvalsClient

    async with AsyncEvalsClient(KEY, base_url=platform.url) as client:
        made = await client.create_evaluation("e", run_id="r")
        assert made.evaluation_id is not None
        return made.evaluation_id
