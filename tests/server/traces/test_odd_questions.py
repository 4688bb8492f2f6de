"""Questions that nobody asks: answered or refused in the words of the wire, never a 500."""

from __future__ import annotations

import asyncio
import base64

import msgspec

from tests.server.traces.uploads import episode, store, trace
from tests.server.wire import Reply, Wire

HUGE = "9" * 30
ODD = ("%FF", "%00", "nan", "1e999", "-" + HUGE)
NUMBERS = {
    "/traces": ("run_step", "reward_min", "reward_max", "limit", "has_error", "created_after"),
    "/episodes": ("run_step", "step_min", "step_max", "created_before"),
    "/runs": ("run_type", "created_by", "limit"),
    "/traces/aggregate?group_by=run_step&": ("run_step", "upload_id", "context.a"),
    "/traces/export?format=raw&": ("run_step", "run_id"),
    "/traces/t1/nodes": ("after", "limit", "role"),
    "/traces/t1/calls": ("limit", "model"),
    "/runs/run-1/search?query=2%2B2&": ("run_step", "reward_min", "role"),
    "/runs/run-1/search": ("query",),
    "/rft/external-runs": ("limit", "cursor", "team_id"),
}


async def test_odd_values(wire: Wire) -> None:
    """Numbers that nothing can hold, bytes that are no text, words for what is no number."""
    await store(wire, trace("t1"))
    for path, names in NUMBERS.items():
        joined = path if path.endswith("&") else f"{path}?"
        asked = [f"{joined}{name}={value}" for name in names for value in ODD]
        replies = await asyncio.gather(*map(wire.get, asked))
        odd = {one: reply for one, reply in zip(asked, replies, strict=True) if _is_odd(reply)}
        assert not odd


def _is_odd(reply: Reply) -> bool:
    return reply.status not in (200, 400, 403, 404, 422)


async def test_forged_cursors(wire: Wire) -> None:
    """With the right mark, but places that no row has."""
    await store(wire, trace("t1"), trace("t2"))
    await store(wire, episode("e1", []), episode("e2", []), episodes=True)
    for path, places in {
        "/traces?limit=1": ((1.0, 2**64 - 1), (float("nan"), 1), (float("-inf"), -(2**63))),
        "/traces?limit=1&sort=reward": ((float("nan"), 1), (1e308, 2**64 - 1)),
        "/episodes?limit=1": ((1.0, 2**64 - 1),),
        "/traces/t1/nodes?limit=1": ((2**64 - 1,), (-5,)),
    }.items():
        mark = base64.urlsafe_b64decode((await wire.get(path)).json["next_cursor"] + "==")[:8]
        for place in places:
            packed = mark + msgspec.msgpack.encode(place)
            cursor = base64.urlsafe_b64encode(packed).decode().rstrip("=")
            reply = await wire.get(f"{path}&cursor={cursor}")
            assert reply.status in (200, 400), (path, place, reply)
    made = await wire.post("/rft/external-runs", {"base_model": "m", "max_steps": 1})
    run = f"/rft/external-runs/{made.json['run']['id']}"
    for path, place in {
        "/rft/external-runs": (2**70,),
        f"{run}/metrics": (None, 2**70),
        f"{run}/distributions": (2**70, "x", 1),
        f"{run}/samples": (1, -(2**70)),
    }.items():
        cursor = base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")
        reply = await wire.get(path, params={"cursor": cursor})
        assert (reply.status, reply.code) == (400, "invalid_cursor"), (path, reply)
