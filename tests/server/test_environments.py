"""The environments hub over the wire."""

from __future__ import annotations

import pytest

from tests.platform import RunningPlatform
from tests.server.wire import Wire

OTHER = "pit_other_0123456789abcdef"


async def test_resolve_makes_an_environment_once(wire: Wire) -> None:
    """Get or create: the second call finds what the first one made."""
    first = (await wire.post("/environmentshub/resolve", {"name": "gsm8k"})).json["data"]
    again = (await wire.post("/environmentshub/resolve", {"name": "gsm8k"})).json["data"]
    assert (first["created"], again["created"]) == (True, False)
    assert first["id"] == again["id"]
    assert first["owner"] == {"name": "local"}


async def test_lookup_knows_ids(wire: Wire) -> None:
    """An id that exists comes back, another is a 404."""
    made = await wire.environment()
    assert (await wire.post("/environmentshub/lookup", {"id": made})).json["data"]["id"] == made
    for unknown in ("cnothere", "", "../x", "é" * 100):
        reply = await wire.post("/environmentshub/lookup", {"id": unknown})
        assert (reply.status, reply.code) == (404, "environment_not_found")


async def test_details_are_found_by_owner_and_name(wire: Wire) -> None:
    """``@latest`` answers; other versions do not exist here."""
    made = await wire.environment("my env")
    reply = await wire.get("/environmentshub/local/my%20env/@latest")
    assert reply.json["data"]["id"] == made
    assert reply.json["data"]["visibility"] == "PRIVATE"
    for path, code in (
        ("local/my%20env/@0.1.0", "version_not_found"),
        ("local/other/@latest", "environment_not_found"),
        ("else/my%20env/@latest", "environment_not_found"),
        ("local/..%2F..%2Fetc/@latest", "not_found"),
        ("%2e%2e/my%20env/@latest", "not_found"),
    ):
        missing = await wire.get(f"/environmentshub/{path}")
        assert (missing.status, missing.code) == (404, code)


async def test_environments_of_owners_from_elsewhere_can_be_made(wire: Wire) -> None:
    """Results of another platform name owners that nobody here is: they are resolved on demand."""
    made = await wire.environment("gsm8k", owner_slug="primeintellect")
    own = await wire.environment("gsm8k")
    assert made != own
    details = (await wire.get("/environmentshub/primeintellect/gsm8k/@latest")).json["data"]
    assert details["id"] == made


async def test_environments_belong_to_their_owners(platform: RunningPlatform, wire: Wire) -> None:
    """Another account neither sees a private one nor makes one under the owner's name."""
    keys = platform.parts.keys
    other = await keys.add_account("other", "Other", OTHER)
    team = await keys.add_team("lab", "Lab", {other.id: "member"})
    private = await wire.environment("secret", owner_slug="elsewhere")
    public = await wire.environment("open", visibility="PUBLIC")
    async with Wire(platform.url, OTHER) as second:
        assert (await second.post("/environmentshub/lookup", {"id": private})).status == 404
        assert (await second.post("/environmentshub/lookup", {"id": public})).status == 200
        for body, code in (
            ({"name": "x", "owner_slug": "local"}, "owner_refused"),
            ({"name": "secret", "owner_slug": "elsewhere"}, "environment_taken"),
        ):
            reply = await second.post("/environmentshub/resolve", body)
            assert (reply.status, reply.code) == (403, code)
        by_id = await second.environment("e", team_id=team)
        assert await second.environment("e", team_slug="lab") == by_id
        assert await second.environment("e", owner_slug="lab") == by_id
        listed = (await second.get("/environmentshub/")).json
        assert [one["name"] for one in listed["data"]] == ["e", "open"]
    reply = await wire.post("/environmentshub/resolve", {"name": "e", "team_slug": "lab"})
    assert (reply.status, reply.code) == (404, "team_not_found")


async def test_the_list_is_paged_sorted_and_searched(wire: Wire) -> None:
    """Offset, limit, order and search work together with ``total_count``."""
    for name in ("beta", "alpha", "gamma_1", "gamma%2"):
        await wire.environment(name)

    async def names(**params: str) -> list[str]:
        page = (await wire.get("/environmentshub/", params=params)).json
        return [one["name"] for one in page["data"]]

    assert await names() == ["alpha", "beta", "gamma%2", "gamma_1"]
    assert await names(sort_order="desc", limit="1") == ["gamma_1"]
    assert await names(offset="1", limit="2") == ["beta", "gamma%2"]
    assert await names(search="MMA%") == ["gamma%2"]
    assert await names(owner="nobody") == []
    assert await names(mine_only="true", visibility="PRIVATE") == await names()
    assert (await wire.get("/environmentshub/", params={"limit": 1})).json["total_count"] == 4


@pytest.mark.parametrize(
    "name", ["", "a/b", "..", ".hidden", " space", "@x", "a\nb", "a\\b", "x" * 201, "a\x00b"]
)
async def test_names_that_could_not_be_a_path_are_refused(wire: Wire, name: str) -> None:
    """An environment's name has to fit one segment of a path."""
    reply = await wire.post("/environmentshub/resolve", {"name": name})
    assert reply.status == 422
    assert reply.json["detail"][0]["loc"] == ["body", "name"]
