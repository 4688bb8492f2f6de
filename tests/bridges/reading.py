"""Opens runs for tests of bridges, and reads what arrived without a client of ours."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from prime_sync.runs import Run, init
from tests.platform import KEY

__all__ = ["Place"]


class Place:
    """A platform, its key, and what is there."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def account(self) -> dict[str, str]:
        """The arguments of `init` that lead here."""
        return {"api_key": KEY, "base_url": self.url}

    def open(self, kind: str = "eval", **options: Any) -> Run:
        """Open a run."""
        described = {"model": "m", "environments": ["math"], **self.account, **options}
        return init(kind=kind, **described)

    def get(self, path: str) -> Any:
        """Read something below ``/api/v1``."""
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}", headers={"Authorization": f"Bearer {KEY}"}
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def traces(self, run_id: str) -> list[dict[str, Any]]:
        """Every trace of a run as it is stored, in the order they began."""
        listed = self.get(f"/traces?run_id={run_id}&limit=100")["items"]
        found = [self.get(f"/traces/{one['trace_id']}?raw=true") for one in listed]
        return sorted(found, key=lambda trace: trace["timing"]["start"])

    def rows(self, run: Run) -> list[dict[str, Any]]:
        """The metric rows of a run, without the times."""
        kinds = {"eval": "/evaluations/{}/metric-rows", "train": "/rft/external-runs/{}/metrics"}
        rows = self.get(kinds[run.kind.value].format(run.id))["rows"]
        return [{name: row[name] for name in row if name != "_timestamp"} for row in rows]

    def samples(self, run_id: str) -> list[dict[str, Any]]:
        """The samples of an evaluation."""
        found: list[dict[str, Any]] = self.get(f"/evaluations/{run_id}/samples?limit=100")[
            "samples"
        ]
        return found
