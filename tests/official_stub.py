"""A stub that speaks the evaluations wire as the official service does: posts append, no keys.

With ``features=True`` it keeps samples by push and index instead, as the embedded platform does, in
a few lines that field-report checks can bend: limits, answers per sample, refusals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.stub import Answer, Request, Stub

__all__ = ["OfficialStub"]

EVALUATION = "eval-1"
_FEATURES = {"X-Prime-Features": "idempotency, sample-ranges"}


class OfficialStub(Stub):
    """Stores what is pushed to ``/evaluations/{id}/samples``.

    Attributes:
        stored: samples in order of arrival, each as often as it arrived.
        largest: bytes a body may have; a larger one is answered 413.
        answer: makes the answer to a batch, and decides what is stored; None stores everything.
    """

    def __init__(
        self, *, features: bool = False, largest: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.stored: list[Any] = []
        self.largest = largest
        self.answer: Callable[[Request, list[Any]], Answer] | None = None
        self._by_index: dict[tuple[str, int], Any] = {}
        self._headers = _FEATURES if features else {}
        self._features = features
        evaluation = Answer(
            json={"evaluation_id": EVALUATION, "name": "e", "status": "COMPLETED"},
            headers=self._headers,
        )
        self.route("*", "/api/v1/evaluations/.*", evaluation)
        self.route("POST", "/api/v1/evaluations/", evaluation)
        hub = Answer(json={"data": {"id": "env-1"}}, headers=self._headers)
        self.route("*", "/api/v1/environmentshub/.*", hub)
        self.route("POST", "/api/v1/evaluations/[^/]+/samples", self.push)
        self.route("GET", "/api/v1/evaluations/[^/]+/samples", self._page)
        self.route("GET", "/api/v1/evaluations/[^/]+/pushes/[^/]+", self._ranges)

    @property
    def ids(self) -> list[Any]:
        """The ``example_id`` of every stored sample, in order."""
        return [sample["example_id"] for sample in self.stored]

    def push(self, request: Request) -> Answer:
        """Store the samples of a request."""
        if self.largest is not None and len(request.body) > self.largest:
            return Answer(413, json={"detail": "too large"}, headers=self._headers)
        samples = request.json()["samples"]
        if self.answer is not None:
            return self.answer(request, samples)
        if not self._features:
            self.stored.extend(samples)
            return Answer(json={})
        fresh = self._store_by_index(request, samples)
        counts = {"stored": fresh, "duplicates": len(samples) - fresh, "refused": []}
        return Answer(json={**counts, "total_samples": len(self.stored)}, headers=self._headers)

    def _store_by_index(self, request: Request, samples: list[Any]) -> int:
        before = len(self._by_index)
        for index, sample in zip(_indexes(request), samples, strict=True):
            self._by_index.setdefault((request.headers["X-Prime-Push"], index), sample)
        self.stored = list(self._by_index.values())
        return len(self._by_index) - before

    def _page(self, request: Request) -> Answer:
        page, limit = int(request.query.get("page", 1)), int(request.query.get("limit", 100))
        start = (page - 1) * limit
        samples = self.stored[start : start + limit]
        more = start + limit < len(self.stored)
        answer = {"samples": samples, "total": len(self.stored), "page": page, "limit": limit}
        return Answer(json={**answer, "hasMore": more}, headers=self._headers)

    def _ranges(self, request: Request) -> Answer:
        if not self._features:
            return Answer(404, json={"detail": "Not Found"})
        push = request.path.rsplit("/", 1)[1]
        indexes = sorted(index for name, index in self._by_index if name == push)
        ranges = [[index, index + 1] for index in indexes]
        answer = {"push_id": push, "ranges": ranges, "stored": len(indexes)}
        return Answer(json=answer, headers=self._headers)


def _indexes(request: Request) -> list[int]:
    spans = [part.split("-") for part in request.headers["X-Prime-Range"].split(",")]
    return [index for start, stop in spans for index in range(int(start), int(stop))]
