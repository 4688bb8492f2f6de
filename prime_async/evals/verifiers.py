"""Result folders as the verifiers library writes them: the legacy pair of files, and v1
``traces.jsonl``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from prime_async.errors import InvalidEvaluationError
from prime_async.evals.lines import LineError, decoded, json_name, numbered_lines
from prime_async.localfiles import nearest_path

__all__ = ["ResultRun", "find_runs", "load_run", "samples_file", "trace_samples"]

METADATA, RESULTS, TRACES = "metadata.json", "results.jsonl", "traces.jsonl"

_MOST_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True)
class ResultRun:
    """A finished evaluation on disk, ready to be created and pushed.

    Attributes:
        folder: where it lies.
        samples: the JSONL file with its samples.
        env: environment as written by the run (``owner/name`` or a bare name), or None (v1 without
            it).
        model: model that was evaluated, or None (v1 without it).
        metrics: final scores: the ``avg_`` keys without their prefix.
        metadata: every other key.
        framework, task_type: as written; the framework defaults to ``verifiers``.
    """

    folder: Path
    samples: Path
    env: str | None
    model: str | None
    metrics: dict[str, Any]
    metadata: dict[str, Any]
    framework: str = "verifiers"
    task_type: str | None = None

    @property
    def name(self) -> str:
        """``<env>-<model>``, the name an evaluation gets unless another is given."""
        bare = self.samples.name not in (RESULTS, TRACES)
        where = self.samples.stem if bare else self.folder.name
        return f"{self.env or 'evaluation'}-{self.model or where}"


def is_run(folder: Path) -> bool:
    """Say whether a folder holds results of either generation."""
    return ((folder / METADATA).is_file() and (folder / RESULTS).is_file()) or (
        folder / TRACES
    ).is_file()


def load_run(path: Path | str) -> ResultRun:
    """Read the description of a run; the samples are not touched.

    Args:
        path: the folder, or one of its files.

    Raises:
        InvalidEvaluationError: not a result folder, or its metadata is broken or lacks ``env`` or
            ``model``.
    """
    path = Path(path)
    folder = path.parent if path.is_file() else path
    if not folder.is_dir():
        raise _no_folder(path)
    if (folder / METADATA).is_file() and (folder / RESULTS).is_file():
        return _legacy_run(folder)
    if (folder / TRACES).is_file():
        return _traces_run(folder)
    missing = [name for name in (METADATA, RESULTS) if not (folder / name).is_file()]
    raise InvalidEvaluationError(
        f"{folder} is not a result folder: {' and '.join(missing)} missing",
        field="path",
        hint=_where_runs_are(folder) or f"it holds {METADATA} and {RESULTS}, or {TRACES}",
    )


def _no_folder(path: Path) -> InvalidEvaluationError:
    """Say why a path is neither a folder nor a file whose folder could be taken."""
    if path.exists():  # a pipe, such as that of `<(zcat FILE)`
        return InvalidEvaluationError(
            f"{path} is not a plain file",
            field="path",
            hint="it is read twice, to check it before anything is sent: write it to a file first",
        )
    if path.is_symlink():
        return InvalidEvaluationError(f"{path} is a link to what does not exist", field="path")
    near = nearest_path(path)
    hint = f"did you mean {near}?" if near else None
    return InvalidEvaluationError(f"{path} does not exist", field="path", hint=hint)


def _where_runs_are(folder: Path) -> str | None:
    """Name a result folder below one that is none; a large tree is not searched."""
    for pattern in ("*", "*/*", "outputs/evals/*/*", "evals/*/*"):
        entries = sorted(islice(folder.glob(pattern), _MOST_LOOKED_AT))
        found = next((entry for entry in entries if is_run(entry)), None)
        if found is not None:
            return f"one that is: {found}"
    return None


def samples_file(path: Path | str) -> Path:
    """Return the file whose lines a path stands for: itself, or that of the result folder it is.

    Raises:
        InvalidEvaluationError: a folder that is no result folder.
    """
    path = Path(path)
    return load_run(path).samples if path.is_dir() or path.name == METADATA else path


def find_runs(start: Path) -> list[Path]:
    """Find the result folders below a place: itself, or each ``outputs/evals/<env--model>/<run>``,
    sorted.
    """
    if is_run(start):
        return [start]
    return sorted(folder for folder in start.glob("outputs/evals/*/*") if is_run(folder))


def _legacy_run(folder: Path) -> ResultRun:
    raw = _read_object(folder / METADATA)
    env = raw.get("env_id") or raw.get("env")
    model = raw.get("model")
    wanted = (("env_id (or env)", env), ("model", model))
    for name, value in wanted:
        if value and not isinstance(value, str):
            field = next(key for key in (name.split()[0], "env") if raw.get(key) is value)
            what = f"{folder / METADATA}: {field} is a JSON {json_name(value)}, not a text"
            raise InvalidEvaluationError(what, field=field)
    missing = [name for name, value in wanted if not isinstance(value, str)]
    if missing:
        raise InvalidEvaluationError(
            f"{folder / METADATA} lacks {' and '.join(missing)}", field=missing[0].split()[0]
        )
    metrics = {
        key.removeprefix("avg_"): value for key, value in raw.items() if key.startswith("avg_")
    }
    return ResultRun(
        folder=folder,
        samples=folder / RESULTS,
        env=env,
        model=model,
        metrics=metrics,
        metadata={key: value for key, value in raw.items() if not key.startswith("avg_")},
        framework=_text(raw, "framework") or "verifiers",
        task_type=_text(raw, "task_type"),
    )


def _traces_run(folder: Path) -> ResultRun:
    """Describe a v1 run by its first record: v1 writes no metadata file."""
    first = _first_record(folder / TRACES)
    trace = next(iter(_traces_of(first)), {})
    config = _dig(trace, "agent", "config")
    env = _text(_dig(first, "env"), "name") or _text(_dig(first, "env"), "id")
    return ResultRun(
        folder=folder,
        samples=folder / TRACES,
        env=env or _text(_dig(first, "task"), "type") or _text(_dig(trace, "task"), "type"),
        model=_text(config, "model"),
        metrics={},
        metadata={"format": "verifiers-v1", "run": first["run"]}
        if "run" in first
        else {"format": "verifiers-v1"},
    )


def _first_record(path: Path) -> dict[str, Any]:
    """Read the first line that is not blank; {} when there is none."""
    try:
        line = next(numbered_lines(path), None)
        return {} if line is None else decoded(line.data)
    except OSError as error:
        raise _unreadable(path, error) from error
    except LineError as error:
        raise InvalidEvaluationError(f"{path}: first record: {error.what}", field="path") from error


def trace_samples(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Turn one v1 record, an episode or a single trace, into samples, one per trace.

    The branch that ends at the last node becomes ``completion``; every branch is an entry of
    ``trajectory``; the record itself stays whole, trace by trace, under ``info.native_wrapper``.
    """
    traces = _traces_of(record)
    episode = record if "traces" in record else {}
    return [_trace_sample(trace, episode, position) for position, trace in enumerate(traces)]


def _traces_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "traces" not in record:
        return [dict(record)] if record else []
    return [trace for trace in record["traces"] or () if isinstance(trace, dict)]


def _trace_sample(
    trace: dict[str, Any], episode: Mapping[str, Any], position: int
) -> dict[str, Any]:
    task = trace.get("task") or episode.get("task") or {}
    data = _dig(task, "data")
    branches = _branches(trace.get("nodes") or [])
    rewards = {
        name: entry
        for name, entry in (trace.get("rewards") or {}).items()
        if isinstance(entry, dict)
    }
    scores = {name: entry.get("score") for name, entry in rewards.items()}
    return {
        **scores,  # first, so that a reward called "task" does not take the task's place
        "example_id": data.get("idx", position),
        "sample_id": trace.get("id"),
        "episode_id": episode.get("id", trace.get("id")),
        "rollout_number": position,
        "agent": _text(_dig(trace, "agent"), "name") or "agent",
        "trainable": _dig(trace, "agent").get("trainable", True),
        "prompt": [],
        "completion": branches[-1]["messages"] if branches else [],
        "trajectory": branches,
        "task": task,
        "answer": data.get("answer"),
        "reward": _reward(rewards),
        "metrics": {**scores, **(trace.get("metrics") or {})},
        "is_completed": trace.get("is_completed"),
        "is_truncated": _is_truncated(trace),
        "stop_condition": trace.get("stop_condition"),
        "error": next(iter(trace.get("errors") or ()), None),
        "timing": trace.get("timing"),
        "tool_defs": trace.get("tools") or [],
        "info": {
            **(trace.get("info") or {}),
            "native_wrapper": {**episode, "traces": [trace]},
            "native_trace_index": position,
        },
    }


_CUT_SHORT = frozenset(
    {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "context_length"}
)


def _is_truncated(trace: Mapping[str, Any]) -> bool:
    """Say whether a limit ended it: of the run, or of the model's last answer."""
    if trace.get("stop_condition") in _CUT_SHORT:
        return True
    calls = [call for call in trace.get("calls") or () if not call.get("error")]
    return bool(calls) and calls[-1].get("finish_reason") == "length"


def _branches(nodes: list[Any]) -> list[dict[str, Any]]:
    """Return one entry per leaf of the node graph: the messages from the root down, and the token
    counts.
    """
    parents = {node.get("parent") for node in nodes if isinstance(node, dict)}
    return [_branch(nodes, leaf) for leaf in range(len(nodes)) if leaf not in parents]


def _branch(nodes: list[Any], leaf: int) -> dict[str, Any]:
    chain: list[dict[str, Any]] = []
    place: Any = leaf
    while isinstance(place, int) and 0 <= place < len(nodes) and len(chain) <= len(nodes):
        chain.append(nodes[place])
        place = nodes[place].get("parent")
    chain.reverse()
    tokens = [(node.get("sampled"), len(node.get("token_ids") or ())) for node in chain]
    return {
        "messages": [node.get("message") for node in chain],
        "num_input_tokens": sum(count for sampled, count in tokens if not sampled),
        "num_output_tokens": sum(count for sampled, count in tokens if sampled),
    }


def _reward(rewards: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Weigh the named rewards into the total, as the trace itself does; None when nothing was
    scored.
    """
    scored = [
        entry["score"] * (1.0 if entry.get("weight") is None else entry["weight"])
        for entry in rewards.values()
        if isinstance(entry.get("score"), int | float)
    ]
    return sum(scored) if scored else None


def _read_object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise _unreadable(path, error) from error
    except UnicodeDecodeError as error:
        what = f"not UTF-8: {error.reason} at byte {error.start}"
        raise InvalidEvaluationError(f"{path}: {what}", field="path") from error
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}:{error.colno}"
        raise InvalidEvaluationError(f"{where}: not JSON: {error.msg}", field="path") from error
    except (ValueError, RecursionError) as error:  # a number of too many digits, nested too deeply
        raise InvalidEvaluationError(f"{path}: {error}", field="path") from error
    if not isinstance(found, dict):
        what = f"holds a JSON {json_name(found)}, not an object"
        raise InvalidEvaluationError(f"{path} {what}", field="path")
    return found


def _unreadable(path: Path, error: OSError) -> InvalidEvaluationError:
    return InvalidEvaluationError(f"cannot read {path}: {error.strerror or error}", field="path")


def _dig(value: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _text(value: Mapping[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) and found else None
