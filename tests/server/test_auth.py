"""Keys, accounts, teams: who may see and change what."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

import pytest

from prime_async.errors import LocalPlatformError
from prime_async.server.auth import ensure_key
from tests.platform import KEY, RunningPlatform, running_platform
from tests.server.wire import Wire

ANNA, BERT = "pit_anna_0123456789abcdef", "pit_bert_0123456789abcdef"


class People(NamedTuple):
    """Two accounts; the team is Anna's alone."""

    anna: Wire
    bert: Wire
    team: str


@pytest.fixture
async def people(platform: RunningPlatform):  # type: ignore[no-untyped-def]  # a generator
    """Anna with a team, Bert without."""
    keys = platform.parts.keys
    anna = await keys.add_account("anna", "Anna", ANNA)
    await keys.add_account("bert", "Bert", BERT)
    team = await keys.add_team("lab", "The Lab", {anna.id: "admin"})
    async with Wire(platform.url, ANNA) as one, Wire(platform.url, BERT) as two:
        yield People(one, two, team)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Basic {KEY}",
        KEY,
        f"Bearer {KEY}x",
        "Bearer ä",
    ],
)
async def test_without_a_known_key_nothing_is_answered(
    platform: RunningPlatform, header: str | None
) -> None:
    """401 with a JSON body and the way to authenticate, whatever is wrong with the key."""
    headers = {} if header is None else {"Authorization": header}
    async with Wire(platform.url, key=None) as wire:
        for method, path in (
            ("GET", "/evaluations/"),
            ("POST", "/evaluations/"),
            ("GET", "/evaluations/cnothere"),
            ("GET", "/user/whoami"),
            ("GET", "//metrics"),
        ):
            reply = await wire.send(method, path, headers=headers)
            assert (reply.status, reply.code) == (401, "unauthorized")
            assert reply.headers["WWW-Authenticate"] == "Bearer"


async def test_health_and_description_need_no_key(platform: RunningPlatform) -> None:
    """They say nothing about the data."""
    async with Wire(platform.url, key=None) as wire:
        assert (await wire.get("//healthz")).json["status"] == "ok"
        assert (await wire.get("//openapi.json")).json["openapi"] == "3.1.0"


async def test_the_key_names_its_account(people: People) -> None:
    """whoami and the teams list are the caller's own."""
    who = (await people.anna.get("/user/whoami")).json["data"]
    assert (who["slug"], who["name"]) == ("anna", "Anna")
    assert {"id", "email", "scope", "account_limits", "key_limits"} <= who.keys()
    teams = (await people.anna.get("/user/teams", params={"offset": 0, "limit": 100})).json
    (team,) = teams["data"]
    assert (team["teamId"], team["slug"], team["role"]) == (people.team, "lab", "admin")
    assert teams["total_count"] == 1
    assert (await people.bert.get("/user/teams")).json["data"] == []
    assert (await people.anna.get("/user/whoami", params={"teamId": people.team})).status == 200
    assert (await people.bert.get("/user/whoami", params={"teamId": people.team})).status == 404


async def test_accounts_do_not_see_each_other(people: People) -> None:
    """Another account's evaluation is a 404 for every call, as if it did not exist."""
    mine = await people.anna.evaluation()
    await people.anna.push(mine, [{"a": 1}], "p1")
    for method, path, body in (
        ("GET", "", None),
        ("PUT", "", {"name": "stolen"}),
        ("DELETE", "", None),
        ("POST", "/samples", {"samples": [{}]}),
        ("GET", "/samples", None),
        ("POST", "/finalize", {}),
        ("GET", "/pushes/p1", None),
    ):
        reply = await people.bert.send(method, f"/evaluations/{mine}{path}", json=body)
        assert (reply.status, reply.code) == (404, "evaluation_not_found")
    assert (await people.bert.get("/evaluations/")).json["total"] == 0
    kept = (await people.anna.get(f"/evaluations/{mine}")).json
    assert (kept["name"], kept["total_samples"]) == ("test", 1)


async def test_a_team_shares_its_evaluations(platform: RunningPlatform, people: People) -> None:
    """Members see and change them; others get a 404 for the team itself."""
    keys = platform.parts.keys
    carl = await keys.add_account("carl", "Carl", "pit_carl_0123456789abcdef")
    anna_id = (await people.anna.get("/user/whoami")).json["data"]["id"]
    team = await keys.add_team("both", "Both", {carl.id: "member", anna_id: "admin"})
    shared = await people.anna.evaluation(team_id=team)
    private = await people.anna.evaluation()
    async with Wire(platform.url, "pit_carl_0123456789abcdef") as wire:
        assert (await wire.push(shared, [{"a": 1}])).status == 200
        assert (await wire.get(f"/evaluations/{shared}")).json["team_id"] == team
        found = (await wire.get("/evaluations/", params={"team_id": team})).json
        assert [one["evaluation_id"] for one in found["evaluations"]] == [shared]
        assert (await wire.get(f"/evaluations/{private}")).status == 404
    mine = (await people.anna.get("/evaluations/")).json["evaluations"]
    assert [one["evaluation_id"] for one in mine] == [private, shared]
    assert (await people.bert.get(f"/evaluations/{shared}")).status == 404


async def test_a_wrong_team_is_not_found(people: People) -> None:
    """Foreign and unknown teams look the same, and nothing is made in them."""
    for team in (people.team, "cnothere"):
        for reply in (
            await people.bert.get("/evaluations/", params={"team_id": team}),
            await people.bert.post("/evaluations/", {"name": "n", "run_id": "r", "team_id": team}),
            await people.bert.post("/environmentshub/resolve", {"name": "e", "team_id": team}),
        ):
            assert (reply.status, reply.code) == (404, "team_not_found")
    assert (await people.anna.get("/evaluations/", params={"team_id": people.team})).json[
        "total"
    ] == 0


async def test_a_public_evaluation_can_be_read_but_not_changed(people: People) -> None:
    """``is_public`` lets every account of this platform read it by id."""
    public = await people.anna.evaluation(is_public=True)
    await people.anna.push(public, [{"a": 1}])
    assert (await people.bert.get(f"/evaluations/{public}")).status == 200
    assert await people.bert.samples(public) == [{"a": 1}]
    assert (await people.bert.put(f"/evaluations/{public}", {"name": "x"})).status == 404
    assert (await people.bert.push(public, [{}])).status == 404
    assert (await people.bert.delete(f"/evaluations/{public}")).status == 404
    assert (await people.bert.get("/evaluations/")).json["total"] == 0


async def test_a_new_configured_key_replaces_the_old_one(tmp_path: Path) -> None:
    """The account and its data stay, the old key is worth nothing."""
    async with running_platform(tmp_path) as platform, Wire(platform.url) as wire:
        evaluation = await wire.evaluation()
    async with running_platform(tmp_path, api_key="pit_new_0123456789abcdef") as platform:
        async with Wire(platform.url) as wire:
            assert (await wire.get("/evaluations/")).status == 401
        async with Wire(platform.url, "pit_new_0123456789abcdef") as wire:
            assert (await wire.get(f"/evaluations/{evaluation}")).status == 200


async def test_a_generated_key_is_kept_in_a_private_file(tmp_path: Path) -> None:
    """Without a configured key the first start makes one, and the next start takes the same."""
    keys = []
    for _ in range(2):
        async with running_platform(tmp_path, api_key=None) as platform:
            file = platform.config.key_file
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            keys.append(file.read_text().strip())
            async with Wire(platform.url, keys[-1]) as wire:
                assert (await wire.get("/user/whoami")).status == 200
    assert keys[0] == keys[1]
    assert len(keys[0]) > 40
    assert sorted(os.listdir(file.parent))[0] == "api_key"


async def test_keys_are_not_in_the_database(platform: RunningPlatform, wire: Wire) -> None:
    """Only a digest is stored."""
    await wire.evaluation()
    files = [one for one in platform.config.data_dir.rglob("*") if one.is_file()]
    assert files
    for file in files:
        assert KEY.encode() not in file.read_bytes()


async def test_an_empty_key_file_is_a_clear_error(tmp_path: Path) -> None:
    """A damaged key file stops the start with the way out, and stays as it is."""
    file = tmp_path / "api_key"
    file.write_text("\n")
    with pytest.raises(LocalPlatformError, match="empty") as caught:
        ensure_key(file)
    assert caught.value.hint
    assert file.read_text() == "\n"
