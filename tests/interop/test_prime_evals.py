"""The official ``prime-evals``, unmodified, against the embedded platform: sync and async."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prime_evals import (
    APIClient,
    APIError,
    AsyncEvalsClient,
    EvalsAPIError,
    EvalsClient,
    InvalidEvaluationError,
)
from prime_evals.core import UnauthorizedError
from prime_evals.models import Evaluation, EvaluationListResponse, SamplesResponse

from tests.platform import KEY, ThreadedPlatform

SAMPLES: list[dict[str, Any]] = [
    {
        "example_id": index,
        "task": "gsm8k",
        "prompt": [{"role": "user", "content": f"What is {index} + 1? — naïve 日本"}],
        "completion": [{"role": "assistant", "content": str(index + 1)}],
        "answer": str(index + 1),
        "reward": 0.1 * index,
        "correct": index % 2 == 0,
        "info": {"nested": {"deep": [1, 2.5, None, 2**70]}},
        "any_field": ["kept", {"as": "sent"}],
    }
    for index in range(250)
]


class Official:
    """Both official clients behind one calling convention."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._loop = asyncio.new_event_loop()
        self._client: Any = (
            EvalsClient(APIClient()) if kind == "sync" else self._run(self._make_async)
        )

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._run(lambda: method(*args, **kwargs))

        return call

    def close(self) -> None:
        if self.kind == "async":
            self._run(self._client.aclose)
        else:
            # The official sync client has no close of its own.
            self._client.client.client.close()
        self._loop.close()

    async def _make_async(self) -> AsyncEvalsClient:
        return AsyncEvalsClient()

    def _run(self, call: Any) -> Any:
        if self.kind == "sync":
            return call()

        async def main() -> Any:
            result = call()
            return await result if inspect.isawaitable(result) else result

        return self._loop.run_until_complete(main())


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedPlatform]:
    """A platform in its own thread, and the environment variables that point at it."""
    with ThreadedPlatform(tmp_path) as running:
        monkeypatch.setenv("PRIME_API_KEY", KEY)
        monkeypatch.setenv("PRIME_API_BASE_URL", running.url)
        yield running


@pytest.fixture(params=["sync", "async"])
def official(request: pytest.FixtureRequest, platform: ThreadedPlatform) -> Iterator[Official]:
    """The official client, once sync and once async."""
    client = Official(request.param)
    yield client
    client.close()


def create(official: Official, **fields: Any) -> str:
    made = official.create_evaluation(**{"name": "interop", "environments": ["gsm8k"], **fields})
    evaluation_id: str = made["evaluation_id"]
    return evaluation_id


def test_the_four_steps_of_an_evaluation(official: Official) -> None:
    """Create, push, finalize, read back: what comes back is deeply equal."""
    evaluation = create(
        official,
        model_name="openai/gpt-4o-mini",
        dataset="gsm8k",
        framework="verifiers",
        task_type="math",
        description="d",
        tags=["a"],
        metadata={"version": "1", "nested": {"b": [1, 2]}},
        is_public=False,
    )
    pushed = official.push_samples(evaluation, SAMPLES)
    assert pushed == {"samples_pushed": 250, "samples_skipped": 0}
    official.finalize_evaluation(evaluation, metrics={"avg_reward": 12.45})
    read = official.get_evaluation(evaluation)
    assert (read["status"], read["total_samples"]) == ("COMPLETED", 250)
    assert read["metrics"] == {"avg_reward": 12.45}
    assert read["metadata"] == {"version": "1", "nested": {"b": [1, 2]}}
    assert read["tags"] == ["a"]
    pages = [official.get_samples(evaluation, page=page, limit=100) for page in (1, 2, 3)]
    assert [sample for page in pages for sample in page["samples"]] == SAMPLES
    assert [page["hasMore"] for page in pages] == [True, True, False]


def test_every_form_of_environment(official: Official) -> None:
    """owner/name, bare name, and mappings with slug, name or id lead to the same environment."""
    environment = official.get_evaluation(create(official))["environment_ids"][0]
    for form in (
        "local/gsm8k",
        "gsm8k",
        {"slug": "local/gsm8k"},
        {"name": "gsm8k"},
        {"id": environment},
        {"id": environment, "version_id": "v1"},
    ):
        read = official.get_evaluation(create(official, environments=[form]))
        assert read["environment_ids"] == [environment]
        assert read["environment_names"] == ["local/gsm8k"]
    both = create(official, environments=["new-one", "local/gsm8k", "nobody/nothing"])
    assert len(official.get_evaluation(both)["environment_ids"]) == 2


def test_unknown_environments_are_refused_by_the_client(official: Official) -> None:
    """A slug or id that the hub does not know is looked up, not made; a run needs none."""
    for form in ("nobody/nothing", {"id": "cnothere"}):
        with pytest.raises(InvalidEvaluationError):
            official.create_evaluation(name="n", environments=[form])
    read = official.get_evaluation(
        create(official, environments=["nobody/nothing"], run_id="run-1")
    )
    assert (read["environment_ids"], read["run_id"]) == ([], "run-1")


def test_pushing_in_many_batches(official: Official) -> None:
    """Several posts in parallel: all samples arrive, each batch in order."""
    evaluation = create(official)
    official.push_samples(evaluation, SAMPLES, max_payload_bytes=20_000)
    page = official.get_samples(evaluation, limit=1000)
    assert page["total"] == 250
    assert sorted(page["samples"], key=lambda sample: sample["example_id"]) == SAMPLES


def test_a_large_batch_of_the_official_size(official: Official) -> None:
    """The official default packs up to 25 MiB into one request."""
    evaluation = create(official)
    large = [{"example_id": index, "text": "x" * 1_000_000} for index in range(30)]
    pushed = official.push_samples(evaluation, large)
    assert pushed == {"samples_pushed": 30, "samples_skipped": 0}
    assert official.get_evaluation(evaluation)["total_samples"] == 30


def test_lists_and_filters(official: Official) -> None:
    """By environment and suite, paged."""
    one = create(official, environments=["env-a"], suite_id="s1")
    two = create(official, environments=["env-b"], suite_id="s1")

    def found(**filters: Any) -> list[str]:
        listed = official.list_evaluations(**filters)
        return [entry["evaluation_id"] for entry in listed["evaluations"]]

    assert found() == [two, one]
    assert found(env_name="env-a") == [one]
    assert found(suite_id="s1", skip=1, limit=1) == [one]
    assert found(suite_id="other") == []


def test_updates_keep_tags_that_were_not_given(official: Official) -> None:
    """The official client always sends ``tags``; an update without them must not wipe them."""
    evaluation = create(official, tags=["keep"])
    official.update_evaluation(evaluation, name="renamed", metrics={"m": 1})
    read = official.get_evaluation(evaluation)
    assert (read["name"], read["metrics"], read["tags"]) == ("renamed", {"m": 1}, ["keep"])
    official.update_evaluation(evaluation, tags=["new"])
    assert official.get_evaluation(evaluation)["tags"] == ["new"]


def test_the_official_models_read_our_answers(official: Official) -> None:
    """The Pydantic models of the package accept what the platform sends."""
    evaluation = create(official, metadata={"a": 1})
    official.push_samples(evaluation, [{"example_id": 1, "reward": 1.0, "task": "t"}])
    read = Evaluation.model_validate(official.get_evaluation(evaluation))
    assert (read.id, read.name) == (evaluation, "interop")
    listed = EvaluationListResponse.model_validate(official.list_evaluations())
    assert listed.total == 1
    page = SamplesResponse.model_validate(official.get_samples(evaluation))
    assert (page.total, page.has_more, page.samples[0].example_id) == (1, False, 1)


def test_errors_arrive_as_the_official_ones(
    official: Official, platform: ThreadedPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """401, 404 and 422 become the classes and texts that the package has for them."""
    with pytest.raises(APIError, match="HTTP 404: no evaluation cnothere"):
        official.get_evaluation("cnothere")
    with pytest.raises(APIError, match=r"HTTP 422: .*limit"):
        official.list_evaluations(limit=5000)
    with pytest.raises(APIError, match=r"HTTP 422: .*name"):
        official.create_evaluation(name="", run_id="r")
    with pytest.raises(EvalsAPIError, match="404"):
        official.push_samples("cnothere", SAMPLES[:1])
    with pytest.raises(EvalsAPIError, match="422"):
        official.push_samples(create(official), [["not an object"]])
    monkeypatch.setenv("PRIME_API_KEY", "pit_wrong_0123456789abcdef")
    stranger = Official(official.kind)
    with pytest.raises(UnauthorizedError):
        stranger.get_evaluation("cnothere")
    stranger.close()


def test_hosted_evaluations_fail_with_our_reason(official: Official) -> None:
    """The honest 501 and 409 reach the user as text."""
    with pytest.raises(APIError, match=r"HTTP 501: .*later version"):
        official.create_hosted_evaluation(["e"], "openai/gpt-4o", {"num_examples": 1})
    with pytest.raises(APIError, match=r"HTTP 409: .*not hosted"):
        official.cancel_hosted_evaluation(create(official))


def test_a_saved_configuration_points_the_package_here(
    platform: ThreadedPlatform, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Key and address from ``~/.prime/config.json`` work as well as from the environment."""
    monkeypatch.delenv("PRIME_API_KEY")
    monkeypatch.delenv("PRIME_API_BASE_URL")
    (home / ".prime").mkdir()
    config = {"api_key": KEY, "base_url": platform.url}
    (home / ".prime" / "config.json").write_text(json.dumps(config))
    official = Official("sync")
    assert official.list_evaluations()["total"] == 0
    official.close()
