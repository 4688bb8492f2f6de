"""How the database goes about every list, search and sum: by an index, never through all rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from tests.platform import RunningPlatform
from tests.server.traces.uploads import episode, store, trace
from tests.server.wire import Wire


@contextmanager
def statements(platform: RunningPlatform) -> Iterator[list[tuple[str, Any]]]:
    """Notes the SELECTs that are run inside the block, with their parameters."""
    seen: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("SELECT"):
            seen.append((statement, parameters))

    engine = platform.parts.database.engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)


def plan(platform: RunningPlatform, statement: str, parameters: Any) -> list[str]:
    """The steps of a statement, as SQLite explains them."""
    connection = platform.parts.database.engine.raw_connection()
    try:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
        return [row[-1] for row in rows]
    finally:
        connection.close()


TIMES = "created_after=2020-01-01T00:00:00Z&created_before=2040-01-01T00:00:00Z"
BY_RUN = "traces USING INDEX traces_by_run (owner=? AND run_id=?"
BY_TIME = "traces USING INDEX traces_by_time (owner=?"
READS = {
    "/traces": BY_TIME,
    f"/traces?{TIMES}": f"{BY_TIME} AND created_at>? AND created_at<?",
    "/traces?run_id=run-1": BY_RUN,
    f"/traces?run_id=run-1&run_step=3&has_error=false&{TIMES}": f"{BY_RUN} AND created_at>?",
    "/traces?run_id=run-1&model_id=m&task_id=t&outcome=o&agent_name=a&has_error=true": BY_RUN,
    "/traces?environment_id=e": "traces_by_environment (owner=? AND environment_id=?)",
    "/traces?model_id=small": "traces_by_model (owner=? AND model_id=?)",
    "/traces?task_id=sum-1": "traces_by_task (owner=? AND task_id=?)",
    "/traces?agent_name=solver": "traces_by_agent (owner=? AND agent_name=?)",
    "/traces?outcome=done&is_truncated=false": "traces_by_outcome (owner=? AND outcome=?)",
    "/traces?has_error=true": "traces_with_error (owner=?)",
    "/traces?upload_id=abc&upload_id=def": "traces_by_upload (upload=?)",
    "/traces?sort=duration_ms&run_id=run-1": BY_RUN,
    "/traces/aggregate?group_by=run_step&run_id=run-1": BY_RUN,
    "/traces/export?format=raw&run_id=run-1": BY_RUN,
    "/traces/t1": "traces_by_id (owner=? AND trace_id=?)",
    f"/episodes?run_id=run-1&{TIMES}": "trace_episodes_by_run (owner=? AND run_id=? AND created_at",
    "/episodes?upload_id=abc": "trace_episodes_by_upload (upload=?)",
    "/episodes?step_min=1": "traces_by_episode (owner=? AND episode_id=?)",
    "/episodes/e1": "traces_by_episode (owner=? AND episode_id=?)",
    "/episodes/e1/traces": "traces_by_episode (owner=? AND episode_id=?)",
    "/runs": "traces_by_run (owner=? AND run_id>?)",
    "/runs/run-1": BY_RUN,
    "/runs/run-1/steps": BY_RUN,
    "/runs/run-1/search?query=2%2B2&run_step=3&has_error=false&reward_min=0": BY_RUN,
    "/rft/external-runs?status=RUNNING": "training_runs_by_account (account_id=?)",
}
"""Requests, and the index that one of their statements has to use."""

ALLOWED = ("SCAN CONSTANT ROW", "SCAN (", "SCAN anon_", "SCAN trace_words VIRTUAL TABLE")
"""Steps that go through what another step has found; words are looked up in their own index."""


async def test_every_read_goes_by_an_index(platform: RunningPlatform, wire: Wire) -> None:
    """The one that fits its filters best; and what is asked about one run or episode never goes
    through those of others.
    """
    await store(wire, trace("t1"))
    await store(wire, episode("e1", [trace("m1")]), episodes=True)
    for path, expected in READS.items():
        with statements(platform) as seen:
            reply = await wire.get(path)
            assert reply.status == 200, reply
        steps = [
            step
            for statement, parameters in seen
            # The index of texts is brought up to date meanwhile.
            if "searchable = 0 ORDER BY" not in statement and "trace_texts" not in statement[:80]
            for step in plan(platform, statement, parameters)
        ]
        assert any(expected in step for step in steps), (path, steps)
        scans = [step for step in steps if step.startswith("SCAN")]
        assert all(step.startswith(ALLOWED) for step in scans), (path, scans)
        of_one = path.startswith(("/runs/run-1", "/episodes/e1"))
        waiting = "otlp_traces_to_make"
        wide = [
            step
            for step in steps
            if step.endswith(("(owner=?)", "_id>?)", "_name>?)")) and waiting not in step
        ]
        assert not (of_one and wide), (path, wide)
