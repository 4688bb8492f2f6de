"""Averages over episodes, flat rows, Parquet."""

from __future__ import annotations

import io
import json
import math
from typing import Any

from prime_async.runs import metrics, projection


def make(name: str, score: float | None, *, trainable: bool = True, **more: Any) -> dict[str, Any]:
    """A trace with one reward and one metric."""
    return {
        "id": name,
        "agent": {"name": "solver", "trainable": trainable},
        "task": {"data": {"idx": 4, "name": "sum", "answer": "4"}},
        "rewards": {"right": None if score is None else {"score": score, "weight": 2.0}},
        "metrics": {"turns": 3, "odd": math.nan},
        "nodes": [
            {"parent": None, "message": {"role": "user", "content": "?"}, "sampled": False},
            {"parent": 0, "message": {"role": "assistant", "content": "no"}, "sampled": True},
            {"parent": 0, "message": {"role": "assistant", "content": "4"}, "sampled": True},
        ],
        "calls": [
            {
                "node": 2,
                "finish_reason": "length",
                "usage": {"prompt_tokens": 5, "cached_input_tokens": 2, "completion_tokens": 1},
            }
        ],
        **more,
    }


def test_averages_count_trainable_traces() -> None:
    """Per key over the traces that have it; episodes that are not ok; zeros without any."""
    episodes = [
        {"traces": [make("a", 1.0), make("judge", 9.0, trainable=False)], "errors": []},
        {"traces": [make("b", 0.0), make("c", None)], "errors": [{"type": "E"}]},
    ]
    assert metrics.from_episodes(episodes) == {
        "avg_reward": 2 / 3,
        "avg_metrics": {"right": 0.5, "turns": 3.0},
        "avg_error": 0.5,
    }
    retried = {"ok": True, "errors": [{"type": "E"}], "traces": [make("a", 1.0, ok=True)]}
    assert metrics.from_episodes([retried])["avg_error"] == 0.0
    only_judges = [{"traces": [make("judge", 3.0, trainable=False)]}]
    assert metrics.from_episodes(only_judges)["avg_reward"] == 6.0
    assert metrics.from_episodes([]) == {"avg_reward": 0.0, "avg_metrics": {}, "avg_error": 0.0}


def test_a_row_is_the_last_branch() -> None:
    """Prompt, completion and tokens of it; rewards by name never override a field."""
    record = make("a", 0.5)
    record["rewards"]["task"] = {"score": 1.0}
    row = projection.trace_to_sample(record, episode={"id": "e"})
    assert row["prompt"] == [{"role": "user", "content": "?"}]
    assert row["completion"] == [{"role": "assistant", "content": "4"}]
    assert (row["reward"], row["right"], row["task"]) == (2.0, 0.5, "sum")
    assert row["is_truncated"] is True
    assert row["token_usage"] == {"input_tokens": 7, "output_tokens": 1}
    assert row["trajectory"][0]["num_input_tokens"] == 7
    assert row["info"]["native_wrapper"] == "episode"


def test_rows_in_batches() -> None:
    """Of at most so many bytes; a row of results passes as it is."""
    rows = list(projection.build_samples([{"sample_id": 1, "x": 2}, make("a", 1.0)]))
    assert rows[0] == {"sample_id": 1, "x": 2}
    batches = list(projection.batch_samples([{"text": "x" * 100}] * 10, max_bytes=350))
    assert [len(batch) for batch in batches] == [3, 3, 3, 1]


def test_parquet_has_the_columns_of_the_wire() -> None:
    """Nineteen, readable by pyarrow."""
    import pyarrow.parquet

    episode = {"id": "e", "env": {"id": "math"}, "traces": [make("a", 1.0), make("b", None)]}
    data = projection.episodes_to_parquet_bytes([episode], run_id="r", step=3, first_sample_id=7)
    table = pyarrow.parquet.read_table(io.BytesIO(data))
    assert table.schema.equals(projection.train_sample_schema())
    rows = table.to_pylist()
    assert [row["sample_id"] for row in rows] == [7, 8]
    assert (rows[0]["reward"], rows[1]["reward"]) == (2.0, None)
    assert json.loads(rows[0]["completion"]) == [{"role": "assistant", "content": "4"}]
    assert len(table.column_names) == 19
