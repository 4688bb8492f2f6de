"""Result folders as the verifiers library writes them: the legacy pair of files, and v1
``traces.jsonl``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from prime_async.errors import InvalidEvaluationError
from prime_async.evals.averages import Averages
from prime_async.evals.lines import LineError, decoded, json_name, numbered_lines
from prime_async.evals.traces_read import reward_of
from prime_async.localfiles import nearest_path

__all__ = ["CUT_SHORT", "ResultRun", "TraceSamples", "find_runs", "load_run", "samples_file"]

METADATA, RESULTS, TRACES = "metadata.json", "results.jsonl", "traces.jsonl"
_RESOLVED = Path("configs", "resolved", "eval.json")
"""What a v1 evaluation was asked to do; written from verifiers 0.4 on."""


CUT_SHORT = frozenset(
    {
        "compaction_failed",
        "context_length",
        "max_input_tokens",
        "max_output_tokens",
        "max_total_tokens",
        "max_turns",
    }
)
"""Stop conditions that mean that a limit ended a rollout."""

_MOST_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True)
class ResultRun:
    """A finished evaluation on disk, ready to be created and pushed.

    Attributes:
        folder: where it lies.
        samples: the JSONL file with its samples.
        env: environment as written by the run (``owner/name`` or a bare name), or None (v1 without
            it, an environment without a name).
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
    """Find the result folders below a place: itself, or each ``outputs/evals/<env--model>/<run>``
    and ``outputs/<run>`` (verifiers from 0.4 on), sorted.
    """
    if is_run(start):
        return [start]
    below = (folder for place in ("evals/*/*", "*") for folder in start.glob(f"outputs/{place}"))
    return sorted(folder for folder in below if is_run(folder))


def _legacy_run(folder: Path) -> ResultRun:
    raw = _read_object(folder / METADATA)
    env = raw.get("env_id") or raw.get("env", raw.get("env_id"))
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
        env=env or None,  # "" is what verifiers writes of an environment that was never loaded
        model=model or None,
        metrics=metrics,
        metadata={key: value for key, value in raw.items() if not key.startswith("avg_")},
        framework=_text(raw, "framework") or "verifiers",
        task_type=_text(raw, "task_type"),
    )


def _traces_run(folder: Path) -> ResultRun:
    """Describe a v1 run by its first record, and by what it was asked to do where that is there."""
    first = _first_record(folder / TRACES)
    asked = _read_object(folder / _RESOLVED) if (folder / _RESOLVED).is_file() else {}
    trace = next(iter(_traces_of(first)), {})
    config = _dig(trace, "agent", "config")
    env = _text(_dig(first, "env"), "name") or _text(_dig(first, "env"), "id")
    return ResultRun(
        folder=folder,
        samples=folder / TRACES,
        env=env
        or _text(_dig(asked, "env", "taskset"), "id")
        or _text(_dig(first, "task"), "type")
        or _text(_dig(trace, "task"), "type"),
        # That of the run: agents of an episode may have others.
        model=_text(asked, "model") or _text(config, "model"),
        metrics={},
        metadata=dict(_told_of(first, asked)),
    )


def _told_of(first: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what is known of a v1 run. Of its configuration only what holds no credentials."""
    yield "format", "verifiers-v1"
    if "run" in first:
        yield "run", first["run"]
    if asked:
        yield "rollouts_per_example", asked.get("num_rollouts")
        yield "num_examples", _dig(asked, "select").get("limit")
        sampling = _dig(asked, "sampling")
        yield (
            "sampling_args",
            {name: value for name, value in sampling.items() if value is not None},
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


class TraceSamples:
    """Turns v1 records, episodes or single traces, into samples, one per trace.

    The branch that ends at the last node becomes ``completion``; every branch is an entry of
    ``trajectory``; the record itself stays whole, trace by trace, under ``info.native_wrapper``.
    The records of a task are numbered as they come: one of these belongs to one pass of a file.
    """

    def __init__(self) -> None:
        self._rollouts: Counter[str] = Counter()
        self._averages = Averages()

    @property
    def metrics(self) -> dict[str, Any]:
        """The averages of the records so far, as metadata of older runs has them; {} before any."""
        averages = self._averages.summary() if self._averages else {}
        return {name.removeprefix("avg_"): value for name, value in averages.items()}

    def __call__(self, record: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the samples of the next record."""
        traces = _traces_of(record)
        if record:
            self._averages.add(record)
        episode = record if "traces" in record else {}
        task = _dig(record, "task") or _dig(traces[0], "task") if traces else {}
        key = json.dumps([task.get("key"), _dig(task, "data").get("idx")])
        self._rollouts[key] += 1
        number = self._rollouts[key]
        return [
            _trace_sample(trace, episode, position, number) for position, trace in enumerate(traces)
        ]


def _traces_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "traces" not in record:
        return [dict(record)] if record else []
    return [trace for trace in record["traces"] or () if isinstance(trace, dict)]


def _trace_sample(
    trace: dict[str, Any], episode: Mapping[str, Any], position: int, rollout: int
) -> dict[str, Any]:
    task = trace.get("task") or episode.get("task") or {}
    data = _dig(task, "data")
    calls = [call for call in trace.get("calls") or () if isinstance(call, dict)]
    branches = _branches(trace.get("nodes") or [], calls)
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
        "rollout_number": rollout,
        "agent": _text(_dig(trace, "agent"), "name") or "agent",
        "trainable": _dig(trace, "agent").get("trainable", True),
        "prompt": [],
        "completion": branches[-1]["messages"] if branches else [],
        "trajectory": branches,
        "task": data or task,
        "answer": data.get("answer"),
        "reward": reward_of(trace),
        "metrics": {**scores, **(trace.get("metrics") or {})},
        "is_completed": trace.get("is_completed"),
        "is_truncated": _is_truncated(trace),
        "stop_condition": trace.get("stop_condition"),
        "error": next(reversed(trace.get("errors") or ()), None),
        "timing": trace.get("timing"),
        "tool_defs": trace.get("tools") or [],
        "token_usage": _total_usage(calls),
        "info": {
            **(trace.get("info") or {}),
            "native_wrapper": {**episode, "traces": [trace]},
            "native_trace_index": position,
        },
    }


def _is_truncated(trace: Mapping[str, Any]) -> bool:
    """Say whether a limit ended it: of the run, or of the model's last answer."""
    if trace.get("stop_condition") in CUT_SHORT:
        return True
    calls = [call for call in trace.get("calls") or () if not call.get("error")]
    return bool(calls) and calls[-1].get("finish_reason") == "length"


def _branches(nodes: list[Any], calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry per leaf of the node graph: the messages from the root down, and the token
    counts.
    """
    parents = {node.get("parent") for node in nodes if isinstance(node, dict)}
    usages = {call.get("node"): _dig(call, "usage") for call in calls}
    return [_branch(nodes, leaf, usages) for leaf in range(len(nodes)) if leaf not in parents]


def _branch(nodes: list[Any], leaf: int, usages: Mapping[Any, Any]) -> dict[str, Any]:
    chain: list[int] = []
    place: Any = leaf
    while isinstance(place, int) and 0 <= place < len(nodes) and len(chain) <= len(nodes):
        chain.append(place)
        place = nodes[place].get("parent")
    chain.reverse()
    received, sent = _counted([nodes[one] for one in chain])
    if not received and not sent:  # a model behind an API tells of no tokens, but counts them
        received, sent = _metered([usages[one] for one in chain if usages.get(one)])
    return {
        "messages": [nodes[one].get("message") for one in chain],
        "num_input_tokens": received,
        "num_output_tokens": sent,
    }


def _counted(chain: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Count the tokens that the nodes hold: those the model was given, those it gave."""
    tokens = [(node.get("sampled"), len(node.get("token_ids") or ())) for node in chain]
    given = sum(count for sampled, count in tokens if sampled)
    return sum(count for _, count in tokens) - given, given


def _metered(usages: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Count the same by what each call was charged; what was sent again counts once."""
    received = sent = before = 0
    for usage in usages:
        whole = _number(usage, "prompt_tokens") + _number(usage, "cached_input_tokens")
        given = _number(usage, "completion_tokens")
        received += max(0, whole - before)
        sent += given
        before = whole + given
    return received, sent


def _total_usage(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Add up what the calls of a trace were charged; None when none tells."""
    usages = [usage for call in calls if (usage := _dig(call, "usage"))]
    names = (
        "prompt_tokens",
        "completion_tokens",
        "cached_input_tokens",
        "reasoning_tokens",
        "cost",
    )
    told = {name: [one[name] for one in usages if one.get(name) is not None] for name in names}
    return {name: sum(found) for name, found in told.items() if found} or None


def _number(usage: Mapping[str, Any], name: str) -> int:
    found = usage.get(name)
    return found if isinstance(found, int) else 0


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
