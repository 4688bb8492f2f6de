"""What the platform says about a batch: stored, refused one by one, or to be sent again."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from prime_async.errors import APIError, ProtocolError, ValidationError
from prime_async.evals.batches import Batch
from prime_async.evals.receipts import RefusedSample
from prime_async.transport import Response

__all__ = ["SampleAnswer", "refused_positions"]

_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class SampleAnswer:
    """A 2xx answer, with the samples that did not make it all the same.

    The embedded platform names them by input index under ``refused``; platforms that answer 207
    name them by their place in the request under ``errors``. The official service answers neither:
    everything was stored.
    """

    refused: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, response: Response) -> SampleAnswer:
        """Read an answer; one without usable JSON means that everything was stored, as the wire has
        it.
        """
        try:
            body = response.json()
        except ProtocolError:
            return cls()
        return cls(_objects(body.get("refused")), _objects(body.get("errors")))

    def refused_in(self, batch: Batch, *, passing_too: bool = False) -> list[RefusedSample]:
        """The samples of the batch that are not to be sent again; `passing_too` gives up on passing
        faults as well.
        """
        found = [(entry.get("index"), entry) for entry in self.refused]
        final = [entry for entry in self.errors if passing_too or entry.get("status") not in _AGAIN]
        found += [(_index_at(batch, entry), entry) for entry in final]
        known = batch.indexes
        return [
            _refusal(index, entry)
            for index, entry in found
            if isinstance(index, int) and index in known
        ]

    def again_in(self, batch: Batch) -> list[int]:
        """The indexes of samples whose fault passes: worth sending again."""
        found = [_index_at(batch, entry) for entry in self.errors if entry.get("status") in _AGAIN]
        return [index for index in found if index is not None]


def refused_positions(error: APIError) -> dict[int, str]:
    """Read from a 422 which samples of the request it is about: place in the request to reason."""
    if not isinstance(error, ValidationError):
        return {}
    found: dict[int, str] = {}
    for entry in error.errors:
        loc = entry.get("loc")
        if isinstance(loc, list) and "samples" in loc:
            place = loc[loc.index("samples") + 1 :][:1]
            if place and isinstance(place[0], int):
                inner = ".".join(str(part) for part in loc[loc.index("samples") + 2 :])
                found[place[0]] = (
                    f"{inner}: {entry.get('msg', '')}" if inner else str(entry.get("msg", ""))
                )
    return found


def _index_at(batch: Batch, entry: dict[str, Any]) -> int | None:
    place = entry.get("id", entry.get("index"))
    if isinstance(place, int) and 0 <= place < batch.count:
        return next(itertools.islice(batch.indexes.indexes(), place, None))
    return None


def _refusal(index: int, entry: dict[str, Any]) -> RefusedSample:
    status = entry.get("status")
    reason = str(entry.get("message") or entry.get("error") or "refused by the platform")
    return RefusedSample(
        index, reason, f"samples[{index}]", status if isinstance(status, int) else None
    )


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
