"""Following the log of a hosted evaluation: the platform hands out all of it at every look, the
user gets each line once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import anyio.to_thread

from prime_async.errors import APITimeoutError, RateLimitError
from prime_async.evals.models import TERMINAL_STATUSES
from prime_async.requests import DAY, check_interval, check_range
from prime_async.transport import DEFAULT_TIMEOUT, check_timeout

__all__ = ["LogLines", "follow_log"]

_QUICK, _PATIENT, _GROWTH = 2.0, 15.0, 1.5
_LOOKS_PER_PAUSE = 4
"""A pause is at least as long as so many looks: a log of many megabytes is not fetched all day."""

_LARGE = 256 * 1024
"""Characters beyond which a log is compared in a thread."""

Look = Callable[[float], Awaitable[tuple[str, str]]]
"""Fetches status and log, within the given seconds."""


async def follow_log(
    look: Look,
    evaluation_id: str,
    *,
    poll_interval: float | None = None,
    tail: int | None = None,
    timeout: float | None = None,
) -> AsyncIterator[str]:
    """Yield lines until the evaluation is final; see ``AsyncEvalsClient.iter_hosted_logs``."""
    pace = _Pace(check_interval(poll_interval))
    if tail is not None:
        check_range("tail", tail, 0)
    seconds = check_timeout(timeout, DAY)
    until = anyio.current_time() + seconds
    lines = LogLines(tail)
    while (left := until - anyio.current_time()) > 0:
        try:
            status, text = await pace.timed(look(min(left, DEFAULT_TIMEOUT)))
        except RateLimitError as error:
            # The transport has waited and tried again already; a follower has all the time.
            await anyio.sleep(min(left, max(error.retry_after or 0.0, _PATIENT)))
            continue
        except APITimeoutError:
            if anyio.current_time() < until:
                raise
            break
        ended = status.upper() in TERMINAL_STATUSES
        fresh = await _compared(lines, text, ended)
        for line in fresh:
            yield line
        if ended:
            return
        await anyio.sleep(min(max(0.0, until - anyio.current_time()), pace.pause(bool(fresh))))
    raise APITimeoutError(
        f"evaluation {evaluation_id} did not end within {seconds:g} s", seconds=seconds
    )


async def _compared(lines: LogLines, text: str, ended: bool) -> list[str]:
    if len(text) < _LARGE:
        return lines.take(text, ended=ended)
    return await anyio.to_thread.run_sync(lambda: lines.take(text, ended=ended))


class _Pace:
    """Quick while lines come, patient while none do; a given interval is kept to exactly."""

    def __init__(self, interval: float | None) -> None:
        self._interval = interval
        self._pause = _QUICK
        self._took = 0.0

    async def timed(self, look: Awaitable[tuple[str, str]]) -> tuple[str, str]:
        """Wait for a look and remember how long it took."""
        began = anyio.current_time()
        found = await look
        self._took = anyio.current_time() - began
        return found

    def pause(self, news: bool) -> float:
        """Return the seconds until the next look."""
        if self._interval is not None:
            return self._interval
        self._pause = _QUICK if news else min(_PATIENT, self._pause * _GROWTH)
        return max(self._pause, _LOOKS_PER_PAUSE * self._took)


class LogLines:
    """Tells the new lines of a log that is always handed out whole.

    The platform may drop the beginning of a long log: then the longest overlap of lines counts,
    found in one pass as in string search, so that a look costs no more than reading the log. A last
    line without its line break is held back until it has one, stands still for a look, or the log
    has ended; should it grow after it stood still, it comes again, whole.

    Args:
        tail: how many of the lines of the first look count as new; None is all.
    """

    def __init__(self, tail: int | None = None) -> None:
        self._tail = tail
        self._known = ""
        """Everything up to the last line break."""
        self._open = ""
        """The line after it, as far as it is there."""
        self._open_given = False

    def take(self, text: str, *, ended: bool = False) -> list[str]:
        """Return the lines of a look that no look before had.

        Args:
            text: the whole log.
            ended: nothing will be added to it.
        """
        if not text:  # not there yet, or not just now: what was read stays read
            text = self._known + self._open
        start = len(self._known) if text.startswith(self._known) else self._overlap(text)
        *lines, rest = text[start:].split("\n")
        if self._open_given and lines and _clean(lines[0]) == _clean(self._open):
            del lines[0]  # only its line break is new
        same = rest == self._open
        given = same and self._open_given
        if rest and not given and (ended or same):
            lines.append(rest)
            given = True
        self._known, self._open, self._open_given = text[: len(text) - len(rest)], rest, given
        return self._first_look([_clean(line) for line in lines])

    def _first_look(self, lines: list[str]) -> list[str]:
        tail, self._tail = self._tail, None
        return lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]

    def _overlap(self, text: str) -> int:
        """Return where in the text the first line is that is not among the last ones known."""
        new = text.split("\n")[:-1]
        old = self._known.split("\n")[:-1]
        matched = _matched(old[max(0, len(old) - len(new)) :], new)
        return sum(map(len, new[:matched])) + matched


def _clean(line: str) -> str:
    return line.removesuffix("\r")


def _matched(old: list[str], new: list[str]) -> int:
    """Return how many of the first lines of ``new`` are the last ones of ``old``."""
    fallback = _fallbacks(new)
    matched = 0
    for line in old:
        while matched and (matched == len(new) or new[matched] != line):
            matched = fallback[matched - 1]
        if new and new[matched] == line:
            matched += 1
    return matched


def _fallbacks(lines: list[str]) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is its suffix too."""
    lengths = [0] * len(lines)
    matched = 0
    for place in range(1, len(lines)):
        while matched and lines[place] != lines[matched]:
            matched = lengths[matched - 1]
        if lines[place] == lines[matched]:
            matched += 1
        lengths[place] = matched
    return lengths
