"""A platform with runs of two accounts and a team."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.platform import RunningPlatform
from tests.server.runs.people import MATE, OTHER, People
from tests.server.wire import Wire


@pytest.fixture
async def people(platform: RunningPlatform, wire: Wire) -> AsyncIterator[People]:
    """Keys of all of them, and their team."""
    keys = platform.parts.keys
    account = (await wire.get("/user/whoami")).json["data"]["id"]
    await keys.add_account("other", "Other", OTHER)
    mate = await keys.add_account("mate", "Mate", MATE)
    team = await keys.add_team("lab", "Lab", {account: "admin", mate.id: "member"})
    async with Wire(platform.url, OTHER) as other, Wire(platform.url, MATE) as mates:
        yield People(wire, other, mates, account, team)
