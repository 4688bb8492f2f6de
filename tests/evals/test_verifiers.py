"""Result folders of verifiers, both generations: what they say, what is pushed, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from prime_async.errors import InvalidEvaluationError, InvalidSampleError
from prime_async.evals import find_runs, load_run
from prime_async.evals.verifiers import TraceSamples
from tests.evals.pushing import Target
from tests.official_stub import OfficialStub

DATA = Path(__file__).parents[1] / "data"
LEGACY = DATA / "verifiers_run" / "gsm8k--gpt-4o-mini" / "example"
V1 = DATA / "verifiers_v1" / "wordle--qwen3-8b" / "3f2a9c1d"


def _records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (V1 / "traces.jsonl").read_text("utf-8").splitlines()]


def _samples() -> list[dict[str, Any]]:
    samples_of = TraceSamples()
    return [sample for record in _records() for sample in samples_of(record)]


async def test_the_real_result_directory(target: Target) -> None:
    """The pair of files as verifiers wrote it: read, pushed, read back equal, ids in place."""
    run = load_run(LEGACY)
    assert (run.env, run.model, run.framework) == ("gsm8k", "gpt-4o-mini", "verifiers")
    assert run.name == "gsm8k-gpt-4o-mini"
    assert run.metrics == {"reward": 1.0, "format_reward": 1.0, "correctness": 1.0}
    assert run.metadata["num_examples"] == 2
    assert not any(key.startswith("avg_") for key in run.metadata)
    receipt = await target.push(LEGACY)
    rows = [json.loads(line) for line in run.samples.read_text("utf-8").splitlines() if line]
    assert await target.stored() == [{"example_id": row["id"], **row} for row in rows]
    assert receipt.samples_pushed == len(rows) == 2


async def test_v1_traces(target: Target) -> None:
    """One sample per trace, episodes and lone traces alike, in order, nothing of them lost."""
    receipt = await target.push(V1)
    stored = await target.stored()
    records = _records()
    traces = [trace for record in records for trace in record.get("traces", [record])]
    assert receipt.samples_pushed == len(stored) == len(traces) == 6
    assert [sample["sample_id"] for sample in stored] == [trace["id"] for trace in traces]
    for sample, trace in zip(stored, traces, strict=True):
        native = sample["info"]["native_wrapper"]["traces"]
        assert native == [trace]
    assert [sample["example_id"] for sample in stored] == [0, 0, 1, 2, 2, 3]


async def test_v1_folder_and_file_are_the_same(
    official: OfficialStub, official_target: Target
) -> None:
    """The folder, the file in it, as text or as path."""
    for path in (V1, V1 / "traces.jsonl", str(V1)):
        await official_target.push(path)
    assert official.stored[:6] == official.stored[6:12] == official.stored[12:]


async def test_v1_scores_of_the_run(target: Target) -> None:
    """Its averages are the metrics of the evaluation, as metadata of older runs tells them."""
    pushed = await target.client.push_run(V1, env="wordle")
    assert pushed.run.metrics == {
        "reward": pytest.approx(0.64),
        "metrics": {"solved": 0.75, "speed": 0.4, "turns": 2.0},
        "error": 0.25,
    }
    found = await target.client.get_evaluation(pushed.evaluation_id)
    assert found.metrics == pushed.run.metrics
    assert load_run(V1).metrics == {}


def test_v1_description() -> None:
    """Environment and model come from the first record: v1 writes no metadata file."""
    run = load_run(V1)
    assert (run.env, run.model) == ("prime/wordle", "Qwen/Qwen3-8B")
    assert run.samples == V1 / "traces.jsonl"
    assert run.metadata == {
        "format": "verifiers-v1",
        "run": {"type": "eval", "id": "run_42", "name": "nightly"},
    }


def test_v1_messages_branches_and_tokens() -> None:
    """The last branch is the completion, each branch is in the trajectory with its tokens."""
    first, retried = TraceSamples()(_records()[0])
    assert [message["role"] for message in first["completion"]] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert len(first["trajectory"]) == 1
    assert first["trajectory"][0]["num_input_tokens"] == 8 + 12 + 6
    assert first["trajectory"][0]["num_output_tokens"] == 5 + 5
    assert [branch["messages"][2]["content"] for branch in retried["trajectory"]] == [
        "<guess>audio</guess>",
        "<guess>slate</guess>",
    ]
    assert retried["completion"] == retried["trajectory"][1]["messages"]
    assert retried["completion"][-1]["content"] == "<guess>brace</guess>"


def test_v1_scores() -> None:
    """The total is weighed, named rewards are metrics and keys of their own, null ones are none."""
    first, retried = TraceSamples()(_records()[0])
    assert first["reward"] == pytest.approx(1.0 + 0.8 * 0.25)
    assert first["metrics"] == {"solved": 1.0, "speed": 0.8, "turns": 2.0, "format_ok": None}
    assert (first["solved"], first["speed"]) == (1.0, 0.8)
    assert "turns" not in first
    assert retried["reward"] == 0.0
    (failed,) = TraceSamples()(_records()[1])
    assert failed["reward"] is None


def test_v1_endings() -> None:
    """Cut short by a limit of the run or of the last answer; the latest error is the error."""
    samples = _samples()
    assert [sample["is_truncated"] for sample in samples] == [
        False,
        True,
        False,
        False,
        True,
        False,
    ]
    assert [sample["is_completed"] for sample in samples] == [True, True, False, True, True, True]
    assert samples[2]["error"]["type"] == "CancelledError"
    assert samples[2]["info"]["host"] == "node-3"
    assert samples[0]["error"] is None


def test_v1_identity() -> None:
    """Episode and agent tell the samples of a rollout apart, its number the rollouts of a task."""
    samples = _samples()
    assert [
        (s["episode_id"], s["rollout_number"], s["agent"], s["trainable"]) for s in samples[3:]
    ] == [
        ("ep_01JD9Z6Q5W", 1, "player", True),
        ("ep_01JD9Z6Q5W", 1, "judge", False),
        (samples[5]["sample_id"], 1, "agent", True),
    ]
    assert samples[3]["tool_defs"][0]["name"] == "lookup"
    assert samples[4]["completion"][0]["content"][0] == {
        "type": "text",
        "text": "Is this the word?",
    }


def test_v1_tokens_of_an_api() -> None:
    """Without tokens in the nodes, what the calls were charged counts, the repeated part once."""
    record = _records()[0]["traces"][1]
    for node in record["nodes"]:
        node["token_ids"] = []
    for number, call in enumerate(record["calls"]):
        call["usage"] = {"prompt_tokens": 10 + 20 * number, "completion_tokens": 5}
    record["calls"][0]["usage"]["cached_input_tokens"] = 4
    (sample,) = TraceSamples()(record)
    tokens = [(b["num_input_tokens"], b["num_output_tokens"]) for b in sample["trajectory"]]
    assert tokens == [(14, 5), (30 + 50 - 35, 10)]
    assert sample["token_usage"] == {
        "prompt_tokens": 90,
        "completion_tokens": 15,
        "cached_input_tokens": 4,
    }


def test_v1_rollouts_of_a_task_are_numbered() -> None:
    """By the order of the file; every trace of a rollout has its number."""
    samples_of = TraceSamples()
    numbers = [
        [sample["rollout_number"] for sample in samples_of(record)]
        for record in (_records()[0], _records()[1], _records()[0], {"traces": []})
    ]
    assert numbers == [[1, 1], [1], [2, 2], []]


def test_an_environment_without_a_name(tmp_path: Path) -> None:
    """verifiers writes "" of one that was made, not loaded: a push has to be told."""
    (tmp_path / "metadata.json").write_text('{"env_id": "", "model": "m", "avg_reward": 0.5}')
    (tmp_path / "results.jsonl").write_text("{}\n")
    run = load_run(tmp_path)
    assert (run.env, run.model, run.metrics) == (None, "m", {"reward": 0.5})


def test_v1_tells_what_it_was_asked(tmp_path: Path) -> None:
    """From verifiers 0.4 on, beside a first record that tells little; no credentials."""
    asked = {
        "env": {"taskset": {"id": "sums"}},
        "model": "tiny",
        "client": {"headers": {"Authorization": "secret"}},
        "num_rollouts": 2,
        "select": {"limit": 3},
        "sampling": {"temperature": 0.5, "top_p": None},
    }
    folder = tmp_path / "outputs" / "sums--tiny--1"
    (folder / "configs" / "resolved").mkdir(parents=True)
    (folder / "configs" / "resolved" / "eval.json").write_text(json.dumps(asked))
    (folder / "traces.jsonl").write_text('{"id": "e", "ok": false, "traces": []}\n')
    assert find_runs(tmp_path) == [folder]
    run = load_run(folder)
    assert (run.env, run.model, run.name) == ("sums", "tiny", "sums-tiny")
    assert run.metadata == {
        "format": "verifiers-v1",
        "rollouts_per_example": 2,
        "num_examples": 3,
        "sampling_args": {"temperature": 0.5},
    }


def test_a_reward_named_as_a_field_does_not_take_its_place() -> None:
    """A rubric may call a reward `task` or `agent`; the fields of a sample stay what they are."""
    rewards = {name: {"score": 0.5} for name in ("task", "agent", "sample_id", "info", "other")}
    (sample,) = TraceSamples()({"id": "t", "task": {"type": "x"}, "rewards": rewards})
    assert sample["task"] == {"type": "x"}
    assert (sample["agent"], sample["sample_id"], sample["other"]) == ("agent", "t", 0.5)
    assert sample["metrics"] == dict.fromkeys(rewards, 0.5)


@pytest.mark.parametrize(
    "record",
    [
        {"nodes": 5},
        {"nodes": [1, 2]},
        {"rewards": [1]},
        {"calls": ["x"]},
        {"rewards": {"a": {"score": 1, "weight": "heavy"}}},
        {"traces": 7},
    ],
)
async def test_a_record_of_another_shape_is_named(
    official: OfficialStub, official_target: Target, tmp_path: Path, record: dict[str, Any]
) -> None:
    """A line that is no trace is a broken line: file and number, nothing sent."""
    path = tmp_path / "traces.jsonl"
    path.write_text(f'{{"id": "fine"}}\n{json.dumps(record)}\n')
    with pytest.raises(InvalidSampleError, match=r"traces\.jsonl:2:1: not of the expected shape"):
        await official_target.push(path)
    assert official.requests == []


def test_nodes_that_go_in_a_circle_end() -> None:
    """A parent that is its own descendant does not make an endless branch."""
    nodes = [
        {"parent": 1, "message": {}},
        {"parent": 0, "message": {}},
        {"parent": 1, "message": {"role": "user"}},
        {"parent": 99, "message": {}},
    ]
    (sample,) = TraceSamples()({"nodes": nodes})
    assert len(sample["trajectory"]) == 2
    assert len(sample["trajectory"][0]["messages"]) <= 5


def _legacy(folder: Path, metadata: Any = None) -> Path:
    shutil.copytree(LEGACY, folder)
    if metadata is not None:
        (folder / "metadata.json").write_text(metadata)
    return folder


def test_either_file_names_the_folder(tmp_path: Path) -> None:
    """A path to one of the files means the run."""
    folder = _legacy(tmp_path / "run")
    for path in (folder / "results.jsonl", folder / "metadata.json", str(folder)):
        assert load_run(path).folder == folder


def test_metadata_of_every_key(tmp_path: Path) -> None:
    """`env` or `env_id`; framework and task type when written; `avg_` keys become metrics."""
    folder = _legacy(
        tmp_path / "run",
        '{"env_id": "o/e", "env": "old", "model": "m", "framework": "mine", "task_type": "qa",'
        ' "avg_reward": NaN, "avg_metrics": {"a": 1}, "pass_at_k": {"1": 0.5}, "average": 3}',
    )
    run = load_run(folder)
    assert (run.env, run.framework, run.task_type) == ("o/e", "mine", "qa")
    assert list(run.metrics) == ["reward", "metrics"]
    assert run.metadata["pass_at_k"] == {"1": 0.5}
    assert run.metadata["average"] == 3


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ("{", r"metadata\.json:1:2: not JSON"),
        ('{"env": "e",\n "model" "m"}', r"metadata\.json:2:10: not JSON"),
        ("[]", r"metadata\.json holds a JSON array"),
        ('{"env": "e"}', r"metadata\.json lacks model"),
        ('{"model": "m"}', r"metadata\.json lacks env_id \(or env\)"),
        ('{"env": 5, "model": null}', r"metadata\.json: env is a JSON number, not a text"),
        ('{"a": ' + "[" * 100_000, r"metadata\.json: "),
        ('{"a": ' + "1" * 5000 + "}", r"metadata\.json: "),
    ],
)
def test_broken_metadata(tmp_path: Path, metadata: str, said: str) -> None:
    """Named with its place, before anything is created."""
    with pytest.raises(InvalidEvaluationError, match=said):
        load_run(_legacy(tmp_path / "run", metadata))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([], "metadata.json and results.jsonl missing"),
        (["metadata.json"], "results.jsonl missing"),
        (["results.jsonl"], "metadata.json missing"),
        (None, "does not exist"),
    ],
)
def test_what_is_no_result_folder(tmp_path: Path, files: list[str] | None, said: str) -> None:
    """The message says what is missing and what a result folder holds."""
    folder = tmp_path / "run"
    if files is not None:
        folder.mkdir()
        for name in files:
            shutil.copy(LEGACY / name, folder)
    with pytest.raises(InvalidEvaluationError, match=said) as caught:
        load_run(folder)
    assert caught.value.field == "path"


@pytest.mark.parametrize("content", ["{broken", "[1]", ""])
def test_a_v1_run_with_a_broken_first_record(tmp_path: Path, content: str) -> None:
    """Broken is named; an empty file is a run without a single trace."""
    (tmp_path / "traces.jsonl").write_text(f"\n{content}\n")
    if not content:
        assert load_run(tmp_path).env is None
        return
    with pytest.raises(InvalidEvaluationError, match=r"traces\.jsonl: first record: "):
        load_run(tmp_path)


def test_runs_are_found_below_a_workspace(tmp_path: Path) -> None:
    """The folder itself when it is a run, else every run under outputs/evals, sorted."""
    runs = [
        _legacy(tmp_path / "outputs" / "evals" / name / "aaaa1111") for name in ("b--m", "a--m")
    ]
    (tmp_path / "outputs" / "evals" / "a--m" / "empty").mkdir()
    shutil.copytree(V1, tmp_path / "outputs" / "evals" / "a--m" / "0000v1")
    found = find_runs(tmp_path)
    assert found == [tmp_path / "outputs" / "evals" / "a--m" / "0000v1", runs[1], runs[0]]
    assert find_runs(runs[0]) == [runs[0]]
    assert find_runs(tmp_path / "nowhere") == []
