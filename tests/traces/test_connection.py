"""Where traces go, with which key, for whom: arguments, environment, contexts, shared clients."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import prime_traces
import pytest

import prime_sync
from prime_async import AsyncAPIClient
from prime_async.config import load_settings
from prime_async.traces import AsyncTracesAPIClient, AsyncTracesClient
from prime_async.traces import errors as family
from tests.stub import Answer, Stub
from tests.traces.receiver import Receiver

HOSTED = "https://api.primeintellect.ai"


@pytest.fixture
def configure(home: Path) -> Callable[..., None]:
    """Writes ``config.json``."""

    def write(**values: Any) -> None:
        (home / ".prime").mkdir(exist_ok=True)
        (home / ".prime" / "config.json").write_text(json.dumps(values))

    return write


def where(**options: Any) -> tuple[str, str | None, str | None]:
    client = AsyncTracesClient(**options).client
    return client.base_url, client.api_key, client.team_id


def test_without_anything_said() -> None:
    """The hosted service, and no key."""
    assert where() == (HOSTED, None, None)


def test_arguments_come_first(
    configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the environment, then the files; ``/api/v1`` is dropped."""
    configure(api_key="stored", traces_url="https://stored.example/api/v1/", team_id="t-stored")
    assert where() == ("https://stored.example", "stored", "t-stored")
    monkeypatch.setenv("PRIME_TRACES_URL", "https://env.example/api/v1")
    monkeypatch.setenv("PRIME_API_KEY", "from-env")
    monkeypatch.setenv("PRIME_TEAM_ID", "t-env")
    assert where() == ("https://env.example", "from-env", "t-env")
    assert where(api_key="arg", base_url="https://arg.example/api/v1/", team_id="t-arg") == (
        "https://arg.example",
        "arg",
        "t-arg",
    )
    assert where(base_url="")[0] == "https://env.example"


def test_an_empty_argument_is_final(
    configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key, no team, whatever is configured."""
    configure(api_key="stored", team_id="t-stored")
    assert where(api_key="", team_id="") == (HOSTED, None, None)


def test_the_platform_s_own_address_is_that_of_its_traces(
    configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A platform elsewhere keeps its traces; the hosted ones are never told of its keys."""
    configure(api_key="stored", base_url="https://own.example")
    assert where() == ("https://own.example", "stored", None)
    monkeypatch.setenv("PRIME_API_BASE_URL", "https://env.example")
    monkeypatch.setenv("PRIME_API_KEY", "k-env")
    assert where() == ("https://env.example", "k-env", None)


async def test_a_stored_key_goes_to_no_address_of_the_environment(
    configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch, stub: Stub
) -> None:
    """And the error says why, before anything is sent."""
    configure(api_key="stored")
    monkeypatch.setenv("PRIME_TRACES_URL", stub.url)
    async with AsyncTracesClient() as client:
        with pytest.raises(family.UnauthorizedError, match="set PRIME_API_KEY too"):
            await client.list()
    assert stub.requests == []


def test_the_context_local_keeps_traces_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ``PRIME_TRACES_URL`` says."""
    monkeypatch.setenv("PRIME_TRACES_URL", "https://elsewhere.example")
    for settings in (load_settings(context="local"), _with_context(monkeypatch)):
        assert settings.traces_url == settings.base_url != "https://elsewhere.example"
        assert settings.origins["traces_url"] == settings.origins["base_url"]


def _with_context(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PRIME_CONTEXT", "local")
    return load_settings()


async def test_what_every_request_carries(receiver: Receiver, stub: Stub) -> None:
    """Key, team and program; no team where there is none."""
    for team, agent in (("t-1", "mine/1"), ("", None)):
        async with AsyncTracesClient(
            api_key="k-1", base_url=f"{stub.url}/api/v1", team_id=team, user_agent=agent
        ) as client:
            await client.upload_lines([b"{}\n"])
            await client.client.get_json("/traces")
    first, _, _, last = stub.requests
    assert first.headers["Authorization"] == "Bearer k-1"
    assert first.headers["X-Prime-Team-ID"] == "t-1"
    assert first.headers["User-Agent"] == "mine/1"
    assert "X-Prime-Team-ID" not in last.headers
    assert last.headers["User-Agent"].startswith("prime-async/")


async def test_a_shared_connection_stays_open(receiver: Receiver, stub: Stub) -> None:
    """Of traces as it is; of the platform, its account on a connection of one's own."""
    async with (
        AsyncTracesAPIClient("k-1", stub.url, "t-1") as traces,
        AsyncAPIClient("k-2", base_url=stub.url) as platform,
    ):
        for shared in (traces, platform):
            for _ in range(2):
                async with AsyncTracesClient(shared) as client:
                    await client.upload_lines([b"{}\n"])
        assert AsyncTracesClient(traces).client is traces
        assert AsyncTracesClient(traces).api_client is traces
    keys = [request.headers["Authorization"] for request in stub.requests]
    assert keys == ["Bearer k-1"] * 2 + ["Bearer k-2"] * 2
    assert {request.connection for request in stub.requests[:2]} == {1}


def test_the_sync_client_shares_connections_too() -> None:
    """By the same rules."""
    platform = prime_sync.APIClient("k-2", base_url="https://own.example")
    client = prime_sync.TracesClient(platform)
    assert (client.client.base_url, client.client.api_key) == ("https://own.example", "k-2")
    wire = prime_sync.TracesAPIClient("k", "https://t.example")
    assert prime_sync.TracesClient(wire).client.base_url == "https://t.example"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"api_client": AsyncTracesAPIClient("k"), "team_id": "t"}, "team_id"),
        ({"api_client": AsyncTracesAPIClient("k"), "user_agent": "x"}, "user_agent"),
        ({"api_client": 5}, "api_client"),
        ({"api_client": "k", "api_key": "k"}, "api_key"),
        ({"timeout": 0}, "timeout"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], field: str) -> None:
    """Named, at construction."""
    with pytest.raises(family.TracesUsageError) as caught:
        AsyncTracesClient(**options)
    assert caught.value.field == field


def test_a_key_is_in_no_repr() -> None:
    """Of none of the clients."""
    client = AsyncTracesClient(api_key="pit_secret_0123", base_url="https://t.example")
    assert "secret" not in repr(client) + repr(client.client) + repr(client.client.settings)
    assert "t.example" in repr(client.client)


async def test_a_key_that_comes_back_is_not_quoted(stub: Stub) -> None:
    """In no message of an error."""
    stub.default = Answer(401, json={"error": {"code": "x", "message": "no pit_secret_0123"}})
    async with AsyncTracesClient(api_key="pit_secret_0123", base_url=stub.url) as client:
        with pytest.raises(family.UnauthorizedError) as caught:
            await client.list()
    assert "secret" not in str(caught.value) + repr(caught.value.__dict__)


def test_names_of_the_official_package_are_here() -> None:
    """But ``Config``, whose part ``load_settings`` has."""
    from prime_async import traces

    names = {
        n for n in prime_traces.__all__ if n not in {"Config", "TracesClient", "TracesAPIClient"}
    }
    assert names - set(traces.__all__) == set()
    sync = {n for n in prime_traces.__all__ if not n.startswith("Async")}
    assert sync - {"Config", "aiter_batches"} - set(prime_sync.traces.__all__) == set()
