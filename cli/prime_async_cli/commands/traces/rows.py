"""How traces, episodes and runs look in tables and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prime_async_cli.tables import Column, cell

__all__ = [
    "EPISODES",
    "EPISODE_TRACES",
    "RUNS",
    "STEPS",
    "TEAM_TRACES",
    "TRACES",
    "duration",
    "episode_fields",
    "moment",
    "run_fields",
    "run_type",
    "trace_fields",
]

Row = Mapping[str, Any]


def _inside(outer: str, inner: str) -> Callable[[Row], Any]:
    """Read a field of a field; an answer may lack either."""

    def read(row: Row) -> Any:
        found = row.get(outer)
        return found.get(inner) if isinstance(found, Mapping) else None

    return read


def moment(name: str) -> Callable[[Row], Any]:
    """Read a time without its fractions of a second."""

    def read(row: Row) -> Any:
        text = row.get(name)
        return f"{text[:19]}Z" if isinstance(text, str) and len(text) > 19 else text

    return read


def duration(milliseconds: Any) -> str | None:
    """Write a duration: ``850 ms``, ``12.5 s``, ``3 min 20 s``."""
    if not isinstance(milliseconds, int | float):
        return None
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60):,} min {int(seconds % 60)} s"


def run_type(row: Row) -> str:
    """Return what a run is, as far as its traces tell."""
    told = _inside("context", "run_type")(row)
    return told if told in ("eval", "train") else "unknown"


def _error(read: Callable[[Row], Any]) -> Callable[[Row], Any]:
    return lambda row: "error" if read(row) else None


_has_error = _inside("execution", "has_error")
_reward = _inside("score", "reward")

_TRACE_ID = Column("TRACE ID", "trace_id", whole=True)
_RUN = Column("RUN", "run_id", drop=4, uncut=True, fold=True)
_AGENT = Column("AGENT", "agent_name", drop=3, fold=True)
_TASK = Column("TASK", "task_id", drop=2, fold=True)
_USER = Column("USER", "user_id", drop=6, uncut=True, fold=True)
_RESULT = (
    Column("REWARD", _reward, right=True),
    Column("ERROR", _error(_has_error), drop=1),
    Column("TOKENS", "total_tokens", drop=7, right=True),
    Column("DURATION", lambda row: duration(row.get("duration_ms")), drop=8, right=True),
    Column("CREATED", moment("created_at"), drop=5, uncut=True),
    Column("INGESTED", moment("ingested_at"), drop=9, uncut=True),
)

TRACES = (_TRACE_ID, _RUN, _TASK, *_RESULT)
TEAM_TRACES = (_TRACE_ID, _RUN, _TASK, _USER, *_RESULT)
EPISODE_TRACES = (_TRACE_ID, _AGENT, _TASK, *_RESULT)

EPISODES = (
    Column("EPISODE ID", "episode_id", whole=True),
    Column("RUN", "run_id", drop=3, uncut=True, fold=True),
    Column("ENVIRONMENT", "environment_id", drop=4, fold=True),
    Column("OUTCOME", "outcome", drop=2),
    Column("ERROR", _error(lambda row: row.get("has_error")), drop=1),
    Column("CREATED", moment("created_at"), drop=5, uncut=True),
)

RUNS = (
    Column("RUN ID", "run_id", whole=True),
    Column("TYPE", run_type, drop=3, fold=True),
    Column("ENVIRONMENT", "environment_ids", drop=4, fold=True),
    Column("MODEL", "model_ids", drop=7, fold=True),
    Column("USER", "first_user_id", drop=8, uncut=True, fold=True),
    Column("TRACES", "trace_count", right=True),
    Column("AVG REWARD", "avg_reward", right=True),
    Column("STEPS", "step_count", drop=2, right=True),
    Column("ERROR", _error(lambda row: row.get("has_error")), drop=1),
    Column("UPDATED", moment("last_trace_ingested_at"), drop=9, uncut=True),
)

STEPS = (
    Column("STEP", "step", whole=True, right=True),
    Column("TRACES", "trace_count", right=True),
    Column("EPISODES", "episode_count", right=True),
    Column("AVG REWARD", "avg_reward", right=True),
)

Fields = list[tuple[str, Any]]


def trace_fields(trace: Row) -> Fields:
    """What one trace is, what came of it, what it took; then its own numbers."""
    activity = trace.get("activity") or {}
    fields = [
        ("trace", trace.get("trace_id")),
        ("run", _joined(trace.get("run_id"), _named("step", trace.get("run_step")))),
        ("episode", trace.get("episode_id")),
        ("environment", trace.get("environment_id")),
        ("task", trace.get("task_id")),
        ("model", _joined(_inside("model", "id")(trace), _inside("model", "provider")(trace))),
        ("agent", trace.get("agent_name")),
        ("outcome", _inside("score", "outcome")(trace)),
        ("reward", _reward(trace)),
        ("error", _has_error(trace)),
        ("truncated", _inside("execution", "is_truncated")(trace)),
        ("duration", duration(trace.get("duration_ms"))),
        ("created", trace.get("created_at")),
        ("ingested", trace.get("ingested_at")),
        ("tokens", f"{trace.get('total_tokens', 0):,}"),
        ("size", f"{trace.get('size_bytes', 0):,} bytes"),
        ("activity", _counts(activity)),
        ("tools", [tool.get("name") for tool in trace.get("tool_definitions") or ()]),
        ("context", _pairs(trace.get("context"))),
    ]
    metrics = [(f"metrics.{name}", value) for name, value in (trace.get("metrics") or {}).items()]
    return _present(fields) + metrics


def episode_fields(episode: Row) -> Fields:
    """What one episode is, and its traces added up."""
    traces = episode.get("traces") or {}
    return _present(
        [
            ("episode", episode.get("episode_id")),
            ("run", episode.get("run_id")),
            ("environment", episode.get("environment_id")),
            ("outcome", episode.get("outcome")),
            ("error", episode.get("has_error")),
            ("why", _joined(*(_inside("error", part)(episode) for part in ("type", "message")))),
            ("created", episode.get("created_at")),
            ("ingested", episode.get("ingested_at")),
            ("traces", traces.get("trace_count")),
            ("tokens", f"{traces.get('total_tokens', 0):,}"),
            ("duration", duration(traces.get("total_duration_ms"))),
            ("agents", traces.get("agent_names")),
        ]
    )


def run_fields(run: Row) -> Fields:
    """What one run is, as far as its traces tell."""
    return _present(
        [
            ("run", run.get("run_id")),
            ("type", run_type(run)),
            ("environment", run.get("environment_ids")),
            ("model", run.get("model_ids")),
            ("user", run.get("first_user_id")),
            ("traces", run.get("trace_count")),
            ("episodes", run.get("episode_count")),
            ("average reward", run.get("avg_reward")),
            ("errors", run.get("has_error")),
            ("steps", run.get("step_count")),
            ("first trace", run.get("first_trace_created_at")),
            ("last trace", run.get("last_trace_created_at")),
            ("updated", run.get("last_trace_ingested_at")),
            ("context", _pairs(run.get("context"))),
        ]
    )


def _present(fields: Fields) -> Fields:
    return [(name, value) for name, value in fields if value not in (None, "", [], {})]


def _joined(*parts: Any) -> str:
    return " · ".join(str(part) for part in parts if part not in (None, ""))


def _named(name: str, value: Any) -> str | None:
    return None if value is None else f"{name} {value}"


def _counts(activity: Row) -> str:
    return ", ".join(f"{cell(n)} {what.replace('_', ' ')}" for what, n in activity.items())


def _pairs(context: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in (context or {}).items())
