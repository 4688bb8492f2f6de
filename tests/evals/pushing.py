"""What tests of pushes share: where they push to, and what they push."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_async.evals import AsyncEvalsClient, PushReceipt
from prime_async.spool import Ranges

__all__ = ["Target", "indexes", "numbered", "write_jsonl"]


@dataclass(frozen=True, slots=True)
class Target:
    """An evaluation on a platform, and a client of it."""

    client: AsyncEvalsClient
    evaluation_id: str
    url: str

    async def push(self, samples: Any, **options: Any) -> PushReceipt:
        """Push to the evaluation."""
        return await self.client.push_samples(self.evaluation_id, samples, **options)

    async def stored(self) -> list[dict[str, Any]]:
        """Read everything back, in order."""
        found = self.client.iter_samples(self.evaluation_id, page_size=1000)
        return [sample async for sample in found]

    async def ids(self) -> list[Any]:
        """The ``example_id`` of everything that is stored, in order."""
        return [sample.get("example_id") for sample in await self.stored()]


def numbered(count: int, size: int = 20) -> list[dict[str, Any]]:
    """Samples that say which they are."""
    return [{"example_id": index, "answer": "x" * size} for index in range(count)]


def indexes(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """The single indexes of a receipt's ranges."""
    return list(Ranges(ranges).indexes())


def write_jsonl(path: Path, rows: Iterable[Any]) -> Path:
    """Write a JSONL file; a row that is text is written as it is."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path
