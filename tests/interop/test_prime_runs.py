"""The official ``prime-runs``, unmodified, against the embedded platform: eval and train lives."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import prime_runs
import pyarrow.parquet
import pytest
from prime_runs import RunFinishedError, RunStatus, TrainingSpec
from prime_traces import ForbiddenError, NotFoundError, ValidationRejectedError

from tests.interop.native_episodes import episode_record, native_episode, trace_record
from tests.platform import KEY, ThreadedPlatform

Platform = ThreadedPlatform


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """One platform for all lives that need nothing else."""
    with ThreadedPlatform(tmp_path_factory.mktemp("runs")) as running:
        yield running


@pytest.fixture(scope="module")
def without_traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform that has the traces service switched off for its account."""
    folder = tmp_path_factory.mktemp("without")
    with ThreadedPlatform(folder, traces_off_for=("local",)) as running:
        yield running


class Desk:
    """Looks at the platform without any client of ours or theirs."""

    def __init__(self, platform: Platform) -> None:
        self._client = httpx.Client(base_url=platform.api, headers=platform.headers)
        self.account: str = self.get("/user/whoami")["data"]["id"]

    def get(self, path: str, **query: Any) -> Any:
        reply = self._client.get(path, params=query)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def send(self, method: str, path: str, body: Any) -> httpx.Response:
        return self._client.request(method, path, json=body)

    def content(self, path: str) -> bytes:
        return self._client.get(path).content

    def traces(self, run_id: str) -> list[Any]:
        found: list[Any] = self.get("/traces", run_id=run_id)["items"]
        return found

    def ended(self, kind: str, run_id: str) -> tuple[str, str | None]:
        """Status and message of a run of either kind."""
        if kind == "eval":
            run = self.get(f"/evaluations/{run_id}")
            return run["status"], run["error_message"]
        run = self.get(f"/rft/external-runs/{run_id}")["run"]
        return run["status"], run["errorMessage"]

    def close(self) -> None:
        self._client.close()


def at(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    for name in ("PRIME_API_BASE_URL", "PRIME_TRACES_URL"):
        monkeypatch.setenv(name, platform.url)
    monkeypatch.setenv("PRIME_API_KEY", KEY)
    desk = Desk(platform)
    # Official training runs need a team: the account counts as one.
    monkeypatch.setenv("PRIME_TEAM_ID", desk.account)
    yield desk
    desk.close()


@pytest.fixture
def desk(shared: Platform, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """The environment points at the shared platform."""
    yield from at(shared, monkeypatch)


@pytest.fixture
def bare_desk(without_traces: Platform, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """The environment points at the platform without traces."""
    yield from at(without_traces, monkeypatch)


def opened(kind: str, **more: Any) -> Any:
    options: dict[str, Any] = {"kind": kind, "model": "openai/gpt-4o", "on_error": "raise", **more}
    return prime_runs.init(**{"environments": ["gsm8k"], **options})


def test_an_eval_life(desk: Desk, tmp_path: Path) -> None:
    """Created, filled, summed up, closed: everything is where it belongs."""
    config = tmp_path / "eval.toml"
    config.write_text("n = 3\n# naïve\n")
    options = {"framework": "verifiers", "description": "d", "tags": ["a"], "config": config}
    with opened("eval", name="first", environments=["gsm8k", "local/gsm8k"], **options) as run:
        run.log_traces([trace_record() for _ in range(3)])
        run.log_episodes([episode_record(), episode_record()])
        run.log_metrics({"ignored": 1}, step=1)
        run.update_summary({"reward": 0.75})
        assert run.flush()
    assert (run.status, run.dropped_records, run.failed_records) == (RunStatus.COMPLETED, 0, {})
    read = desk.get(f"/evaluations/{run.id}")
    assert (read["status"], read["name"], read["tags"]) == ("COMPLETED", "first", ["a"])
    assert (read["model_name"], read["framework"]) == ("openai/gpt-4o", "verifiers")
    assert read["environment_names"] == ["local/gsm8k", "local/gsm8k"]
    source = {"format": "toml", "text": "n = 3\n# naïve\n", "filename": "eval.toml"}
    assert read["metadata"] == {"config_source": source}
    assert read["metrics"] == {"reward": 0.75, "prime_runs": {"traces_episodes_written": 2}}
    traces = desk.traces(run.id)
    assert len(traces) == 5
    assert {one["context"]["run_type"] for one in traces} == {"eval"}
    with pytest.raises(RunFinishedError):
        run.log_traces([trace_record()])


def test_a_train_life(desk: Desk) -> None:
    """Rows per step, traces, what it trains; completed by its exit code."""
    training = TrainingSpec(max_steps=20, batch_size=8, rollouts_per_example=4, seq_len=512)
    with opened("train", training=training, config={"lr": 1e-5}, name="t1") as run:
        for step in range(5):
            run.log_metrics({"loss": 1 / (step + 1), "bad": float("nan")}, step=step)
        run.log_metrics({"late": 1}, step=2)
        run.log_episodes([native_episode(step=10)])
    assert (run.status, run.dropped_records, run.failed_records) == (RunStatus.COMPLETED, 0, {})
    read = desk.get(f"/rft/external-runs/{run.id}")["run"]
    assert (read["status"], read["name"], read["baseModel"]) == ("COMPLETED", "t1", "openai/gpt-4o")
    assert (read["maxSteps"], read["batchSize"], read["latestStep"]) == (20, 8, 4)
    assert read["runConfig"] == {"lr": 1e-5}
    assert read["environments"] == [{"id": "gsm8k"}]
    rows = desk.get(f"/rft/external-runs/{run.id}/metrics")["rows"]
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    assert (rows[2]["loss"], rows[2]["late"]) == (1 / 3, 1)
    assert all("bad" not in row and row["_timestamp"] > 1.7e9 for row in rows)
    (trace,) = desk.traces(run.id)
    assert (trace["run_step"], trace["context"]["run_type"]) == (10, "train")


def _fails(run: Any) -> None:
    with run:
        run.log_traces([trace_record()])
        raise ValueError("boom")


@pytest.mark.parametrize("kind", ["eval", "train"])
def test_an_exception_and_an_interrupt(desk: Desk, kind: str) -> None:
    """Failed with the error; cancelled, which for training runs is a failure that says so."""
    failed = opened(kind)
    with pytest.raises(ValueError, match="boom"):
        _fails(failed)
    assert desk.ended(kind, failed.id) == ("FAILED", "ValueError: boom")
    assert len(desk.traces(failed.id)) == 1
    cancelled = opened(kind)
    with pytest.raises(KeyboardInterrupt), cancelled:
        raise KeyboardInterrupt
    assert cancelled.status is RunStatus.CANCELLED
    expected = {
        "eval": ("CANCELLED", "interrupted"),
        "train": ("FAILED", "cancelled: interrupted"),
    }
    assert desk.ended(kind, cancelled.id) == expected[kind]


_CRASH = """
    import prime_runs
    from tests.interop.native_episodes import trace_record

    for kind in ("eval", "train"):
        run = prime_runs.init(kind=kind, environments=["gsm8k"], model="m")
        run.log_traces([trace_record()])
        print(run.id, flush=True)
"""


def test_a_crash_is_reported_by_the_exit_hook(desk: Desk) -> None:
    """A program ends without a word about its runs: what it logged is there, they have failed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_CRASH)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    reason = "crashed: process exited without finishing the run"
    for kind, run_id in zip(("eval", "train"), done.stdout.split(), strict=True):
        assert desk.ended(kind, run_id) == ("FAILED", reason)
        assert len(desk.traces(run_id)) == 1


def test_a_run_that_is_closed_already(desk: Desk) -> None:
    """The platform's 409 is no error for them: the outcome is recorded either way."""
    run = opened("eval")
    desk.send("PUT", f"/evaluations/{run.id}", {"status": "FAILED", "error_message": "first"})
    run.fail("second")
    assert desk.ended("eval", run.id) == ("FAILED", "first")
    run = opened("train")
    desk.send("PUT", f"/rft/external-runs/{run.id}/status", {"status": "failed"})
    run.fail("second")
    assert desk.ended("train", run.id) == ("FAILED", None)


def test_attaching(desk: Desk, shared: Platform) -> None:
    """A launcher's run is completed by who attached to it, but its failure is the launcher's."""
    launched = desk.send("POST", "/evaluations/", {"name": "n", "run_id": "r"}).json()
    evaluation = launched["evaluation_id"]
    attached = opened("eval", id=evaluation)
    assert (attached.attached, attached.id) == (True, evaluation)
    with pytest.raises(ValueError, match="boom"):
        _fails(attached)
    assert desk.ended("eval", evaluation) == ("PENDING", None)
    with opened("eval", id=evaluation):
        pass
    assert desk.ended("eval", evaluation) == ("COMPLETED", None)
    made = desk.send("POST", "/rft/external-runs", {"base_model": "m"}).json()["run"]["id"]
    with opened("train", id=made, base_url=f"{shared.url}/api/internal/rft") as run:
        run.log_metrics({"loss": 1.0}, step=1)
    assert desk.ended("train", made) == ("COMPLETED", None)
    assert len(desk.get(f"/rft/external-runs/{made}/metrics")["rows"]) == 1


def test_an_eval_without_the_traces_service(bare_desk: Desk) -> None:
    """The first refusal sends them to the sample table, and no record counts as failed."""
    samples = [{"sample_id": f"s{index}", "reward": 0.5} for index in range(3)]
    with opened("eval") as run:
        run.log_traces(samples)
        run.log_episodes([native_episode(step=0)])
    assert (run.dropped_records, run.failed_records) == (0, {})
    read = bare_desk.get(f"/evaluations/{run.id}")
    assert (read["status"], read["total_samples"]) == ("COMPLETED", 4)
    page = bare_desk.get(f"/evaluations/{run.id}/samples")
    assert page["samples"][:3] == samples
    assert page["samples"][3]["reward"] == 0.75


def test_training_without_the_traces_service(bare_desk: Desk) -> None:
    """Every tenth step becomes a Parquet file, uploaded past the API."""
    _trains_into_files(bare_desk, opened("train"))


def test_training_that_opted_out(desk: Desk) -> None:
    """By choice the same, and nothing is in the traces service."""
    run = opened("train", traces_opt_out=True)
    _trains_into_files(desk, run)
    assert desk.traces(run.id) == []


def _trains_into_files(desk: Desk, run: Any) -> None:
    with run:
        run.log_episodes([native_episode(step=step) for step in (10, 10, 11, 20)])
    assert (run.dropped_records, run.failed_records) == (0, {})
    objects = desk.get(f"/rft/external-runs/{run.id}/samples")["objects"]
    assert [(one["step"], one["format"]) for one in objects] == [(10, "parquet"), (20, "parquet")]
    content = desk.content(f"/rft/external-runs/{run.id}/samples/{objects[0]['key']}")
    table = pyarrow.parquet.read_table(io.BytesIO(content)).to_pylist()
    assert [(row["run_id"], row["step"], row["reward"]) for row in table] == [
        (run.id, 10, 0.75)
    ] * 2


def test_counters_and_errors(desk: Desk) -> None:
    """What the platform refuses is counted by their sink, and typed as they have it."""
    run = prime_runs.init(environments=["gsm8k"], model="m")
    run.log_traces([{"id": "no-timing"}])
    assert run.flush()
    run.log_traces([trace_record()])
    run.finish()
    assert (run.dropped_records, run.failed_records) == (0, {"traces": 1})
    assert desk.ended("eval", run.id) == ("COMPLETED", None)
    assert len(desk.traces(run.id)) == 1
    strict = opened("eval")
    strict.log_traces([{"id": "no-timing"}])
    with pytest.raises(ValidationRejectedError) as refused:
        strict.finish()
    assert refused.value.code == "invalid_trace"
    with pytest.raises(prime_runs.EnvironmentResolutionError, match="nobody/nothing"):
        opened("eval", environments=["nobody/nothing"])
    with pytest.raises((ForbiddenError, NotFoundError)):
        opened("train", team_id="cnot0a0team")
