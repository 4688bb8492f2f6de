"""The Trainer of transformers itself, on a model of two parameters: what it logs is in the run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prime_async.bridges import RunCallback
from tests.bridges.reading import Place

pytest.importorskip("transformers", reason="transformers is not here: make test-bridges")
pytest.importorskip("torch", reason="torch is not here: make test-bridges")

from tests.bridges.real.training import Line, trainer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def told(place: Place, callback: RunCallback) -> Any:
    """What the platform says of the run, once it is delivered."""
    run: Any = callback.run
    run._core.begin_finish("completed", None, {}, 30.0).result(30)
    assert run.receipt.complete, run.errors
    return place.get(f"/rft/external-runs/{run.id}")["run"]


def steps(place: Place, callback: RunCallback, name: str) -> list[int]:
    """The steps that a metric was logged at."""
    assert callback.run is not None
    return [row["step"] for row in place.rows(callback.run) if name in row]  # type: ignore[arg-type]


def test_a_training(place: Place, tmp_path: Path) -> None:
    """Rows at their steps, the configuration without secrets, the last values as the summary."""
    with RunCallback(environments=["line"], **place.account) as callback:
        made = trainer(tmp_path, callback)
        made.train()
    run = told(place, callback)
    assert (run["status"], run["name"], run["baseModel"]) == ("COMPLETED", "tiny", "Line")
    assert (run["maxSteps"], run["latestStep"]) == (10, 10)
    assert run["runConfig"]["logging_steps"] == 2
    assert "SECRET" not in str(run)
    assert steps(place, callback, "loss") == [2, 4, 6, 8, 10]
    assert steps(place, callback, "eval_loss") == [5, 10]
    assert steps(place, callback, "train_runtime") == [10]
    logged: dict[int, dict[str, Any]] = {}
    for row in made.state.log_history:
        logged.setdefault(row["step"], {}).update(row)
    assert place.rows(callback.run) == list(logged.values())  # type: ignore[arg-type]
    last: dict[str, Any] = {}
    for row in made.state.log_history:
        last.update(row)
    assert run["summary"] == last


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ValueError("nan loss"), "ValueError: nan loss"), (KeyboardInterrupt(), "cancelled: inter")],
    ids=["failed", "interrupted"],
)
def test_it_breaks_in_the_middle(
    place: Place, tmp_path: Path, error: BaseException, reason: str
) -> None:
    """What was logged before is there, and why it ended."""
    with pytest.raises(type(error)), RunCallback(**place.account) as callback:
        trainer(tmp_path, callback, Line(error, after=6)).train()
    run = told(place, callback)
    assert run["status"] == "FAILED"
    assert run["errorMessage"].startswith(reason)
    assert steps(place, callback, "loss") == [2, 4, 6]


def test_it_goes_on_from_a_checkpoint(place: Place, tmp_path: Path) -> None:
    """In a run of its own, or in the one that broke: the steps go on."""
    with pytest.raises(OSError, match="disk"), RunCallback(**place.account) as first:
        trainer(tmp_path, first, Line(OSError("disk"), after=7)).train()
    broken = told(place, first)
    checkpoint = str(tmp_path / "checkpoint-5")
    with RunCallback(**place.account) as second:
        trainer(tmp_path, second).train(resume_from_checkpoint=checkpoint)
    assert told(place, second)["status"] == "COMPLETED"
    assert steps(place, second, "loss") == [6, 8, 10]
    with RunCallback(id=broken["id"], **place.account) as third:
        trainer(tmp_path, third).train(resume_from_checkpoint=checkpoint)
    assert third.run is not None
    assert third.run.id == broken["id"]
    told(place, third)
    assert steps(place, third, "loss") == [2, 4, 6, 8, 10]


def test_two_processes_are_one_run(place: Place, tmp_path: Path) -> None:
    """As torchrun starts them: only the first reports."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    command = [sys.executable, "-m", "tests.bridges.real.training", place.url, str(tmp_path)]
    running = [
        subprocess.Popen(
            command,
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        for rank in range(2)
    ]
    said = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    first, second = ([line for line in out.splitlines() if "reported" in line] for out, _ in said)
    assert second == ["reported None"]
    run_id = first[0].removeprefix("reported ")
    run = place.get(f"/rft/external-runs/{run_id}")["run"]
    assert run["status"] == "COMPLETED"
    rows = place.get(f"/rft/external-runs/{run_id}/metrics")["rows"]
    assert [row["step"] for row in rows if "loss" in row] == [2, 4, 6, 8, 10]
