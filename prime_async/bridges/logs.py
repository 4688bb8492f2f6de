"""`RunLogHandler`: what a program says through `logging`, kept with its run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from prime_async import ids
from prime_async.bridges.target import AnyRun
from prime_async.runs.errors import RunFinishedError
from prime_async.runs.exits import forget_in_children

__all__ = ["RunLogHandler"]

LINES = 1000
CHARACTERS = 256 * 1024
SECONDS = 5.0
EXTRA_CHARACTERS = 1000

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {
    "asctime",
    "message",
    "metrics",
    "step",
    "taskName",  # from Python 3.12 on
}

_OURS = ("prime_async", "prime_sync")
_UPLOADER = "prime-async-uploader"


class RunLogHandler(logging.Handler):
    """Keeps log records as traces of a run: the lines of one logger and step make one trace.

    Each line is a node with the role ``log``, so that they are listed and searched like any other
    message; the trace is not trainable and has no reward, so that averages do not see it. A record
    with ``extra={"metrics": {...}}`` is a row of metrics besides; ``extra={"step": 7}`` says of
    which step. ::

        logging.getLogger().addHandler(RunLogHandler(run, level=logging.INFO))
        log.info("step done", extra={"step": 7, "metrics": {"loss": 0.3}})

    It never waits and never raises. Lines are gathered and logged when there are a thousand, 256 Ki
    characters, or one is five seconds old when the next arrives; at once from ERROR on; and when
    the run ends. What this package says itself is left out: saying it could need saying again.

    Without a run lines are gathered until :meth:`attach` gives one, within the same bounds, so that
    logging can be set up before anything else.

    Args:
        run: a run, asynchronous or not; None for later.
        level: lowest level that is kept, a number or a name; default INFO.

    Attributes:
        missed: lines that came when the run took nothing more, or there was no room without one.
    """

    def __init__(self, run: AnyRun | None = None, level: int | str = logging.INFO) -> None:
        super().__init__(level)
        self.missed = 0
        self._run: AnyRun | None = None
        self._pages: dict[tuple[str, int | None], _Page] = {}
        self._early: list[tuple[Mapping[str, Any], int | None]] = []
        self._lines = 0
        self._characters = 0
        self._busy = False
        self.addFilter(_not_ours)
        forget_in_children(self)
        if run is not None:
            self.attach(run)

    def attach(self, run: AnyRun) -> None:
        """Log to this run from now on, and to it what was gathered without one; what was gathered
        for another run goes there.
        """
        self.acquire()
        try:
            if self._run is not None:
                self._log_pages()
            self._run = run
            early, self._early = self._early, []
            for metrics, step in early:
                self._tell(partial(run.log_metrics, metrics, step=step))
        finally:
            self.release()
        run.before_finish(lambda: self._flush_to(run))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line. Called with the handler's lock held, as `logging` does."""
        if self._busy:  # said by what we call, such as the redaction of the run
            self.missed += 1
            return
        if self._run is None and self._is_large():
            self.missed += 1
            return
        self._busy = True
        try:
            self._keep(record)
        except RunFinishedError:
            self.missed += 1
        except Exception:
            self.handleError(record)
        finally:
            self._busy = False

    def flush(self) -> None:
        """Log the lines that are gathered; without a run they stay."""
        self.acquire()
        try:
            if self._run is not None:
                self._log_pages()
        finally:
            self.release()

    def close(self) -> None:
        """Log the lines that are gathered, and take no more part in `logging`."""
        self.flush()
        super().close()

    def after_fork(self) -> None:
        """In a forked child: what was gathered before is the parent's to log."""
        self._busy = False
        self._early = []
        self._forget()

    def _flush_to(self, run: AnyRun) -> None:
        """Log to a run that ends, unless another one has followed it."""
        if self._run is run:
            self.flush()

    def _keep(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        step = _step_of(record)
        metrics = getattr(record, "metrics", None)
        if isinstance(metrics, Mapping):
            if self._run is None:
                self._early.append((dict(metrics), step))
            else:
                self._run.log_metrics(metrics, step=step)
        page = self._pages.setdefault((record.name, step), _Page(record.name, step))
        extra = _extra_of(record)
        page.add(record, text, extra)
        self._lines += 1
        self._characters += len(text) + sum(len(str(value)) for value in extra.values())
        if self._run is not None and (record.levelno >= logging.ERROR or self._is_due()):
            self._log_pages()

    def _is_due(self) -> bool:
        oldest = min(page.since for page in self._pages.values())
        return self._is_large() or time.monotonic() - oldest >= SECONDS

    def _is_large(self) -> bool:
        return self._lines >= LINES or self._characters >= CHARACTERS

    def _log_pages(self) -> None:
        run, pages = self._run, list(self._pages.values())
        assert run is not None
        self._forget()
        for page in pages:
            self._tell(partial(run.log_trace, page.trace(run.kind.value)), len(page.nodes))

    def _tell(self, log: Callable[[], None], lines: int = 0) -> None:
        try:
            log()
        except RunFinishedError:
            self.missed += lines

    def _forget(self) -> None:
        self._pages = {}
        self._lines = self._characters = 0


class _Page:
    """Lines of one logger and step."""

    def __init__(self, name: str, step: int | None) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.since = time.monotonic()
        self._name = name
        self._step = step

    def add(self, record: logging.LogRecord, text: str, extra: Mapping[str, Any]) -> None:
        place = len(self.nodes)
        told = {"extra": extra} if extra else {}
        self.nodes.append(
            {
                "parent": place - 1 if place else None,
                "message": {"role": "log", "content": text},
                "sampled": False,
                "timestamp": record.created,
                "log": {
                    "level": record.levelname,
                    "file": record.filename,
                    "line": record.lineno,
                    "function": record.funcName,
                    "thread": record.threadName,
                    "process": record.process,
                    **told,
                },
            }
        )

    def trace(self, kind: str) -> dict[str, Any]:
        start, end = self.nodes[0]["timestamp"], self.nodes[-1]["timestamp"]
        made = {
            "id": ids.new_id("log"),
            "version": 1,
            "task": {"type": "log", "data": {"name": self._name}},
            "agent": {"name": "log", "trainable": False},
            "nodes": self.nodes,
            "ok": True,
            "is_completed": True,
            "timing": {"start": start, "agent": {"start": start, "end": end}},
        }
        if self._step is not None:
            made["run"] = {"work": {"type": kind, "step": self._step}}
        return made


def _not_ours(record: logging.LogRecord) -> bool:
    """Leave out what this package says, and others on the thread of its uploads."""
    return record.name.partition(".")[0] not in _OURS and record.threadName != _UPLOADER


def _extra_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the other fields of ``extra``: plain values as they are, others as their text.

    They are what they are now, and cannot keep a trace of a thousand lines from being written.
    """
    return {
        name: value if isinstance(value, bool | int | float | None) else _text_of(value)
        for name, value in vars(record).items()
        if name not in _STANDARD
    }


def _text_of(value: Any) -> str:
    try:
        return str(value)[:EXTRA_CHARACTERS]
    except Exception as error:  # of a class of the user's
        return f"<{type(value).__name__}: {error!r}>"[:EXTRA_CHARACTERS]


def _step_of(record: logging.LogRecord) -> int | None:
    step = getattr(record, "step", None)
    return step if isinstance(step, int) and not isinstance(step, bool) else None
