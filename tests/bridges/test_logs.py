"""`RunLogHandler`: log records are kept with the run, whatever happens around them."""

from __future__ import annotations

import logging
import queue
import subprocess
import sys
from collections.abc import Iterator
from logging.handlers import QueueHandler, QueueListener
from typing import Any

import pytest

from prime_async.bridges import RunLogHandler, logs
from prime_sync.runs import Run
from tests.bridges.reading import Place

LOG = logging.Logger("trainer")
"""Stands by itself, so that nobody else hears it."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Forget the handlers that a test adds."""
    yield
    LOG.handlers.clear()


def handled(run: Run, **options: Any) -> RunLogHandler:
    """A handler on the logger of the tests."""
    handler = RunLogHandler(run, **options)
    LOG.addHandler(handler)
    return handler


def said(trace: dict[str, Any]) -> list[str]:
    """The lines of a trace."""
    return [node["message"]["content"] for node in trace["nodes"]]


@pytest.mark.parametrize("kind", ["eval", "train"])
def test_lines_are_traces_and_metrics_are_rows(place: Place, kind: str) -> None:
    """One trace per logger and step, found by its role and by a search; rows at their step."""
    with place.open(kind) as run:
        handled(run)
        LOG.debug("too low")
        LOG.info("begins with %d tasks", 3)
        LOG.info("loss fell", extra={"step": 1, "metrics": {"loss": 0.5}})
        LOG.warning("slow step", extra={"step": 1})
    free, first = place.traces(run.id)
    assert said(free) == ["begins with 3 tasks"]
    assert said(first) == ["loss fell", "slow step"]
    assert first["task"] == {"type": "log", "data": {"name": "trainer"}}
    assert first["run"] == {"id": run.id, "type": kind, "work": {"type": kind, "step": 1}}
    assert [node["log"]["level"] for node in first["nodes"]] == ["INFO", "WARNING"]
    assert first["nodes"][1]["log"]["function"] == "test_lines_are_traces_and_metrics_are_rows"
    assert place.rows(run) == [{"loss": 0.5, "step": 1}]
    page = place.get(f"/runs/{run.id}/search?query=slow+step&role=log")
    assert [match["trace_id"] for match in page["items"]] == [first["id"]]


def test_averages_do_not_see_them(place: Place) -> None:
    """No reward, not trainable, no error: a traceback is text."""
    with place.open() as run:
        handled(run)
        try:
            raise ValueError("bad batch")
        except ValueError:
            LOG.exception("step failed")
    (trace,) = place.traces(run.id)
    assert said(trace)[0].startswith("step failed\nTraceback")
    summary = place.get(f"/traces/{trace['id']}")
    assert (summary["score"]["reward"], summary["execution"]["has_error"]) == (None, False)


def test_what_is_gathered_is_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logged at an error, when there are enough lines or characters, and when a line is old."""
    run = place.open()
    handled(run)
    LOG.info("waits")
    assert run.stats().counts.logged == 0
    LOG.error("at once")
    assert run.stats().counts.logged == 1
    monkeypatch.setattr(logs, "LINES", 3)
    for number in range(4):
        LOG.info("line %d", number)
    assert run.stats().counts.logged == 2
    monkeypatch.setattr(logs, "CHARACTERS", 100)
    LOG.info("x" * 100)
    assert run.stats().counts.logged == 3
    monkeypatch.setattr(logs, "SECONDS", 0.0)
    LOG.info("old")
    assert run.stats().counts.logged == 4
    run.finish()
    assert [len(trace["nodes"]) for trace in place.traces(run.id)] == [2, 3, 2, 1]


def test_it_never_hears_itself(place: Place) -> None:
    """Neither this package, nor the redaction of the run while a line is kept."""

    def redact(record: Any) -> Any:
        LOG.error("redacting")
        return record

    with place.open(redact=redact) as run:
        handler = handled(run, level="DEBUG")
        ours = logging.getLogger("prime_async.runs")
        ours.addHandler(handler)
        try:
            ours.error("about a delivery")
            LOG.error("of the user")
        finally:
            ours.removeHandler(handler)
    assert [said(trace) for trace in place.traces(run.id)] == [["of the user"]]
    assert handler.missed == 1


def test_what_is_said_of_a_delivery_is_not_delivered(place: Place) -> None:
    """By the callback of the run, or by anything else while records are on their way."""
    said_of: list[Any] = []

    def on_batch(*batch: Any) -> None:
        said_of.append(batch)
        LOG.error("delivered")

    with place.open(on_batch=on_batch) as run:
        handled(run, level="DEBUG")
        LOG.error("of the user")
    assert said_of
    assert [said(trace) for trace in place.traces(run.id)] == [["of the user"]]


def test_it_never_raises(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that cannot be written is told as `logging` does; one behind the end is counted."""
    monkeypatch.setattr(logging, "raiseExceptions", True)
    run = place.open()
    handler = handled(run)
    LOG.info("%d", "no number")
    assert "no number" in capsys.readouterr().err
    run.finish()
    LOG.error("too late")
    LOG.info("too late", extra={"metrics": {"loss": 1.0}})
    handler.close()
    assert handler.missed == 2
    assert capsys.readouterr().err == ""
    assert place.traces(run.id) == []


class Unspeakable:
    """A value that cannot even be printed."""

    def __str__(self) -> str:
        raise OSError("closed")


def test_extra_fields_are_kept(place: Place) -> None:
    """Plain ones as they are, others as text, as they were when the line was said."""
    seen = ["a"]
    with place.open() as run:
        handled(run)
        extra = {"user": "José", "count": 3, "ok": None, "seen": seen, "odd": Unspeakable()}
        LOG.info("naïve — 日本 \ud83d", extra={**extra, "step": 2})
        seen.append("b")
        LOG.info("plain")
    plain, told = sorted(place.traces(run.id), key=lambda trace: "work" in trace["run"])
    assert "extra" not in plain["nodes"][0]["log"]
    (node,) = told["nodes"]
    assert node["message"]["content"].startswith("naïve — 日本 ")
    assert {**node["log"]["extra"], "odd": ""} == {
        "user": "José",
        "count": 3,
        "ok": None,
        "seen": "['a']",
        "odd": "",
    }
    assert "OSError" in node["log"]["extra"]["odd"]


def test_behind_a_queue(place: Place) -> None:
    """A `QueueHandler` hands over formatted records; the thread is the one that spoke."""
    lines: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with place.open() as run:
        LOG.addHandler(QueueHandler(lines))
        listener = QueueListener(lines, RunLogHandler(run), respect_handler_level=True)
        listener.start()
        LOG.debug("too low")
        LOG.info("loss fell", extra={"step": 1, "metrics": {"loss": 0.5}, "worker": 4})
        try:
            raise ValueError("bad batch")
        except ValueError:
            LOG.exception("step failed", extra={"step": 1})
        listener.stop()
    (trace,) = place.traces(run.id)
    fell, failed = trace["nodes"]
    assert fell["message"]["content"] == "loss fell"
    assert fell["log"]["extra"] == {"worker": 4}
    assert fell["log"]["thread"] == "MainThread"
    assert failed["message"]["content"].endswith("ValueError: bad batch")
    assert place.rows(run) == [{"loss": 0.5, "step": 1}]


def test_before_there_is_a_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines wait for it, within bounds; a run that follows another gets what is said then."""
    handler = RunLogHandler()
    LOG.addHandler(handler)
    monkeypatch.setattr(logs, "LINES", 2)
    LOG.error("early", extra={"step": 1, "metrics": {"loss": 0.5}})
    LOG.info("early too")
    LOG.info("too much")
    handler.flush()
    monkeypatch.undo()
    with place.open() as first:
        handler.attach(first)
        LOG.info("of the first")
        second = place.open()
        handler.attach(second)
        LOG.info("of the second")
    second.finish()
    lines = [
        sorted(line for t in place.traces(run.id) for line in said(t)) for run in (first, second)
    ]
    assert lines == [["early", "early too", "of the first"], ["of the second"]]
    assert place.rows(first) == [{"loss": 0.5, "step": 1}]
    assert handler.missed == 1
    handler.attach(second)
    LOG.info("too late")
    handler.close()
    assert handler.missed == 2


EXITING = """
import logging
from prime_async.bridges import RunLogHandler
from prime_sync.runs import init

run = init(model="m", environments=["math"], spool_dir="spool")
log = logging.getLogger("trainer")
log.addHandler(RunLogHandler(run))
log.warning("last words")
print(run.id, flush=True)
"""


def test_at_exit(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """What is gathered when the process ends is delivered, before `logging` shuts down."""
    monkeypatch.setenv("PRIME_API_KEY", place.account["api_key"])
    monkeypatch.setenv("PRIME_API_BASE_URL", place.url)
    done = subprocess.run(
        [sys.executable, "-c", EXITING], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    (trace,) = place.traces(done.stdout.strip())
    assert said(trace) == ["last words"]
    assert "Error" not in done.stderr


FORKED = """
import logging, os
from prime_async.bridges import RunLogHandler
from prime_sync.runs import init

run = init(model="m", environments=["math"], spool_dir="spool")
log = logging.getLogger("trainer")
log.setLevel("INFO")
log.addHandler(RunLogHandler(run))
log.info("of the parent")
child = os.fork()
if not child:
    log.info("of the child")
    logging.shutdown()
    run.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
run.finish()
print(run.id)
"""


def test_a_forked_child_has_lines_of_its_own(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """What was gathered before the fork is logged once, by the parent."""
    monkeypatch.setenv("PRIME_API_KEY", place.account["api_key"])
    monkeypatch.setenv("PRIME_API_BASE_URL", place.url)
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    traces = place.traces(done.stdout.strip())
    assert sorted(said(trace) for trace in traces) == [["of the child"], ["of the parent"]]
