"""From traces and episodes to flat rows: samples of an evaluation, Parquet of a training run."""

from __future__ import annotations

import datetime
import importlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prime_async import values
from prime_async.evals.traces_read import (
    branch_of,
    entry,
    members_of,
    metrics_of,
    reward_of,
    scores_of,
)
from prime_async.evals.verifiers import CUT_SHORT
from prime_async.runs.errors import ConfigurationError

__all__ = [
    "batch_samples",
    "build_samples",
    "episodes_to_parquet_bytes",
    "is_trace",
    "trace_to_sample",
    "train_sample_schema",
]

SAMPLE_BATCH_BYTES = 25 * 2**20
_NATIVE = "native_trace_index"


def trace_to_sample(
    trace: Any,
    *,
    episode: Any = None,
    sample_id: int | str | None = None,
    example_id: int | str | None = None,
    rollout_number: int | None = None,
    trace_index: int = 0,
) -> dict[str, Any]:
    """Return the flat row of one trace.

    Args:
        trace: mapping or object.
        episode: the episode it belongs to.
        sample_id, example_id, rollout_number: as given, or what the trace says of its task.
        trace_index: its place in the episode.
    """
    data = entry(entry(trace, "task"), "data") or {}
    branch = branch_of(trace)
    prompt = [_message(node) for node in _before_first_sampled(branch)]
    completion = [_message(node) for node in branch[len(prompt) :]]
    info = dict(entry(trace, "info") or {})
    info |= {"native_wrapper": "trace" if episode is None else "episode", _NATIVE: trace_index}
    row = {
        "sample_id": sample_id if sample_id is not None else entry(trace, "id"),
        "example_id": example_id if example_id is not None else entry(data, "idx"),
        "rollout_number": rollout_number,
        "episode_id": None if episode is None else entry(episode, "id"),
        "agent": entry(entry(trace, "agent"), "name"),
        "trainable": entry(entry(trace, "agent"), "trainable"),
        "task": entry(data, "name"),
        "prompt": prompt,
        "completion": completion,
        "answer": entry(data, "answer"),
        "tool_defs": entry(trace, "tools"),
        "reward": reward_of(trace),
        "timing": entry(trace, "timing"),
        "is_completed": entry(trace, "is_completed"),
        "is_truncated": _truncated(trace),
        "metrics": metrics_of(trace),
        "error": next(iter(reversed(entry(trace, "errors") or [])), None),
        "stop_condition": entry(trace, "stop_condition"),
        "trajectory": _trajectory(trace, branch),
        "token_usage": _usage(trace),
        "info": info,
    }
    return {**scores_of(trace), **row}


def build_samples(episodes: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield a row per trace of the episodes; a mapping that has ``sample_id`` is a row already."""
    for episode in episodes:
        if isinstance(episode, Mapping) and "sample_id" in episode:
            yield dict(episode)
            continue
        whole = None if entry(episode, "traces") is None else episode
        for place, trace in enumerate(members_of(episode)):
            yield trace_to_sample(trace, episode=whole, trace_index=place)


def is_trace(record: Any) -> bool:
    """Say whether a record is a trace or an episode, and no flat row."""
    if isinstance(record, Mapping) and "sample_id" in record:
        return False
    return entry(record, "traces") is not None or entry(record, "nodes") is not None


def batch_samples(
    samples: Iterable[Mapping[str, Any]], max_bytes: int = SAMPLE_BATCH_BYTES
) -> Iterator[list[Mapping[str, Any]]]:
    """Yield rows in batches whose JSON is within a size; a larger row is a batch of its own."""
    batch: list[Mapping[str, Any]] = []
    size = 0
    for sample in samples:
        length = len(values.encode_record(sample, root="sample")) + 1
        if batch and size + length > max_bytes:
            yield batch
            batch, size = [], 0
        batch.append(sample)
        size += length
    if batch:
        yield batch


def train_sample_schema() -> Any:
    """Return the Arrow schema of a training run's samples.

    Raises:
        ConfigurationError: the extra ``parquet`` is not installed.
    """
    pyarrow = _pyarrow()
    text, whole, number = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
    kinds = {
        "run_id": text,
        "step": whole,
        "tag": text,
        "problem_id": whole,
        "sample_id": whole,
        "prompt": text,
        "completion": text,
        "trajectory": text,
        "answer": text,
        "env_name": text,
        "task": text,
        "info": text,
        "reward": number,
        "advantage": number,
        "metrics": text,
        "timing": text,
        "num_input_tokens": whole,
        "num_output_tokens": whole,
        "created_at": pyarrow.timestamp("us", tz="UTC"),
    }
    return pyarrow.schema(list(kinds.items()))


def episodes_to_parquet_bytes(
    episodes: Iterable[Any], *, run_id: str, step: int, first_sample_id: int = 0
) -> bytes:
    """Return the samples of one step as a Parquet file, snappy compressed.

    Args:
        episodes: mappings or objects with ``traces``.
        run_id, step: written into each row.
        first_sample_id: number of the first row; the others follow.

    Raises:
        ConfigurationError: the extra ``parquet`` is not installed.
    """
    schema = train_sample_schema()
    rows = [
        _parquet_row(episode, trace, run_id, step)
        for episode in episodes
        for trace in members_of(episode)
    ]
    for number, row in enumerate(rows, first_sample_id):
        row["sample_id"] = number
        if row["problem_id"] is None:
            row["problem_id"] = number
    table = _pyarrow().Table.from_pylist(rows, schema=schema)
    out = io.BytesIO()
    _pyarrow("pyarrow.parquet").write_table(table, out, compression="snappy")
    return out.getvalue()


def _parquet_row(episode: Any, trace: Any, run_id: str, step: int) -> dict[str, Any]:
    sample = trace_to_sample(trace, episode=episode)
    usage = sample["token_usage"]
    problem = sample["example_id"]
    texts = ("prompt", "completion", "trajectory", "info", "metrics", "timing")
    return {
        "run_id": run_id,
        "step": step,
        "tag": "train",
        "problem_id": problem if isinstance(problem, int) else None,
        "answer": _text(sample["answer"]),
        "env_name": entry(entry(episode, "env"), "id"),
        "task": sample["task"],
        "reward": sample["reward"],
        "advantage": _advantage(trace),
        "num_input_tokens": usage["input_tokens"],
        "num_output_tokens": usage["output_tokens"],
        "created_at": datetime.datetime.now(datetime.UTC),
        **{name: _text(sample[name]) for name in texts},
    }


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return values.encode(value, root="sample").decode()


def _advantage(trace: Any) -> float | None:
    said = entry(entry(trace, "info"), "advantage")
    if isinstance(said, int | float) and not isinstance(said, bool):
        return float(said)
    for node in entry(trace, "nodes") or ():
        advantages = entry(node, "advantages")
        if advantages:
            return float(advantages[0])
    return None


def _before_first_sampled(branch: Sequence[Any]) -> Iterator[Any]:
    for node in branch:
        if entry(node, "sampled"):
            return
        yield node


def _message(node: Any) -> Any:
    return entry(node, "message")


def _truncated(trace: Any) -> bool:
    if entry(trace, "stop_condition") in CUT_SHORT:
        return True
    calls = [call for call in entry(trace, "calls") or () if not entry(call, "error")]
    return bool(calls) and entry(calls[-1], "finish_reason") == "length"


def _trajectory(trace: Any, branch: Sequence[Any]) -> list[dict[str, Any]]:
    """Return one entry per call of the model: the messages up to its answer, and its tokens."""
    nodes = list(entry(trace, "nodes") or ())
    calls = {entry(call, "node"): call for call in entry(trace, "calls") or ()}
    steps = []
    for place, node in enumerate(branch):
        if not entry(node, "sampled"):
            continue
        usage = entry(calls.get(nodes.index(node)), "usage")
        steps.append(
            {
                "messages": [_message(one) for one in branch[: place + 1]],
                "num_input_tokens": _tokens(usage, "prompt_tokens", "cached_input_tokens"),
                "num_output_tokens": _tokens(usage, "completion_tokens"),
            }
        )
    return steps


def _usage(trace: Any) -> dict[str, int]:
    usages = [entry(call, "usage") for call in entry(trace, "calls") or ()]
    return {
        "input_tokens": sum(
            _tokens(usage, "prompt_tokens", "cached_input_tokens") for usage in usages
        ),
        "output_tokens": sum(_tokens(usage, "completion_tokens") for usage in usages),
    }


def _tokens(usage: Any, *names: str) -> int:
    return sum(int(entry(usage, name) or 0) for name in names)


def _pyarrow(name: str = "pyarrow") -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            "Parquet needs pyarrow", hint="pip install 'prime-async[parquet]'"
        ) from error
