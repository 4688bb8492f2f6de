"""Who has runs: two accounts and a team."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.server.wire import Wire

OTHER = "pit_other_0123456789abcdef"
MATE = "pit_mate_0123456789abcdef"


@dataclass
class People:
    """The first account, a stranger, and a member of the first account's team."""

    wire: Wire
    other: Wire
    mate: Wire
    account: str
    team: str


async def training_run(wire: Wire, **fields: Any) -> str:
    """Make a training run and return its id."""
    headers = fields.pop("headers", {})
    body = {"base_model": "openai/gpt-4o", "max_steps": 10, **fields}
    reply = await wire.post("/rft/external-runs", body, headers=headers)
    assert reply.status == 201, reply
    made: str = reply.json["run"]["id"]
    return made
