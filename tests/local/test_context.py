"""The context `local`: made current where nothing was chosen, and notes that reach the user."""

from __future__ import annotations

import json
import logging
import socket
from pathlib import Path

import pytest

from prime_async import local
from prime_async.api import AsyncAPIClient
from prime_async.config import ConfigStore, load_settings

KEY = "key-0123456789"


def test_nothing_was_chosen(home: Path) -> None:
    """`local` becomes the current context; a second time there is something chosen."""
    assert local.make_current_if_unset() is True
    assert load_settings().context == "local"
    assert local.make_current_if_unset() is False


def test_a_configuration_file_without_a_choice(home: Path) -> None:
    """What the official command writes by itself is no choice; its unknown keys stay."""
    (home / ".prime").mkdir()
    written = {"api_key": "", "current_environment": "production", "odd": 1}
    (home / ".prime" / "config.json").write_text(json.dumps(written))
    assert local.make_current_if_unset() is True
    assert ConfigStore().read()["odd"] == 1


@pytest.mark.parametrize(
    "environ",
    [
        {"PRIME_API_KEY": KEY},
        {"PRIME_CONTEXT": "production"},
        {"PRIME_API_KEY": KEY, "PRIME_API_BASE_URL": "http://127.0.0.1:9"},
    ],
    ids=" ".join,
)
def test_the_environment_is_a_choice(home: Path, environ: dict[str, str]) -> None:
    """Nothing is written."""
    assert local.make_current_if_unset(environ=environ) is False
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    "changes", [{"api_key": KEY}, {"base_url": "https://prime.example.org"}], ids=str
)
def test_the_configuration_is_a_choice(home: Path, changes: dict[str, str]) -> None:
    """A stored key or address stays what counts."""
    ConfigStore().update(changes)
    assert local.make_current_if_unset() is False
    assert ConfigStore().current() == "production"


def test_a_saved_context_is_a_choice(home: Path) -> None:
    """The one in use stays in use."""
    store = ConfigStore()
    store.save_context("work", {"api_key": KEY})
    store.use_context("work")
    assert local.make_current_if_unset() is False
    assert store.current() == "work"


async def test_what_the_user_should_know_is_logged(
    platform_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that starts the platform says that the port is another one than before."""
    first = await local.ensure_running()
    await local.stop()
    port = int(first.base_url.rpartition(":")[2])
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        async with AsyncAPIClient(context="local") as api:
            await api.get("/user/whoami")
    (record,) = [each for each in caplog.records if each.name == "prime_async.local"]
    assert record.levelno == logging.WARNING
    assert str(port) in record.getMessage()
    assert api.base_url != first.base_url
