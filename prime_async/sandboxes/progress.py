"""How much of a process's outputs has arrived, over streams that broke: nothing lost unsaid,
nothing twice.
"""

from __future__ import annotations

from prime_async.sandboxes.wire import Output, Received

__all__ = ["Progress"]


class Progress:
    """Offsets in the outputs of one process.

    Attributes:
        have: what of them is here, or known to be lost; None when the platform does not tell.
        missing: how many bytes were lost; None when the platform does not tell.
    """

    def __init__(self, have: Received | None) -> None:
        self.have = have
        self.missing: Received | None = Received()
        self._again = Received()

    def begin(self, at: Received | None) -> None:
        """The first stream begins here: what was written before is not asked for."""
        self.have = at

    def go_on(self, at: Received | None) -> Received:
        """Another stream begins here; return how many bytes lie between it and the last one."""
        if self.have is None or at is None or self.missing is None:
            self.have = self.missing = None
            return Received()
        gap = _beyond(at, self.have)
        self._again = _beyond(self.have, at)
        self.have = _sum(self.have, gap)
        self.missing = _sum(self.missing, gap)
        return gap

    def take(self, event: Output) -> Output | None:
        """Note what arrived; leave out what had arrived before."""
        if self.have is None:
            return event
        name = "stderr" if event.stream == "stderr" else "stdout"
        again: int = getattr(self._again, name)
        data = event.data[again:]
        if again:
            left = max(0, again - len(event.data))
            self._again = self._again._replace(**{name: left})
        self.have = self.have._replace(**{name: getattr(self.have, name) + len(data)})
        if not again:
            return event
        return Output(event.stream, data) if data else None


def _beyond(one: Received, other: Received) -> Received:
    return Received(max(0, one.stdout - other.stdout), max(0, one.stderr - other.stderr))


def _sum(one: Received, other: Received) -> Received:
    return Received(one.stdout + other.stdout, one.stderr + other.stderr)
