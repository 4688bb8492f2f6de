"""Changing settings: nothing is lost between processes, and contexts keep their accounts apart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from prime_async.config import ConfigStore, load_settings
from prime_async.errors import ConfigError, UsageError

HOSTED = "https://api.primeintellect.ai"


@pytest.fixture
def store(home: Path) -> ConfigStore:
    return ConfigStore(home)


def test_update_keeps_the_rest(store: ConfigStore) -> None:
    """Known and unknown keys that are not mentioned stay; None clears."""
    store.paths.root.mkdir()
    store.paths.config.write_text('{"team_id": "t", "future": 1}')
    after = store.update({"api_key": " sk-1 ", "base_url": "https://host/api/v1/"})
    assert after == store.read()
    assert after == {
        "team_id": "t",
        "future": 1,
        "api_key": "sk-1",
        "base_url": "https://host",
    }
    assert store.update({"api_key": None, "team_id": None})["api_key"] == ""
    assert load_settings(home=store.paths.home, environ={}).team_id is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("base_url", "notaurl"),
        ("inference_url", "ftp://x"),
        ("api_key", "a b"),
        ("api_key", 7),
        ("team_id", ["t"]),
        ("strict_local", "yes"),
    ],
)
def test_bad_value_is_refused_before_anything_is_written(
    store: ConfigStore, key: str, value: object
) -> None:
    """A wrong value leaves not even a folder."""
    with pytest.raises(ConfigError, match=key):
        store.update({key: value})
    assert not store.paths.root.exists()


_WRITER = """
import pathlib, sys
from prime_async.config import ConfigStore
store, key = ConfigStore(pathlib.Path(sys.argv[1])), "user_" + sys.argv[2]
for number in range(50):
    store.update({key: number})
    assert store.read()[key] == number
"""
_READER = """
import json, pathlib, sys
path, reads = pathlib.Path(sys.argv[1], ".prime", "config.json"), 0
print("ready", flush=True)
while not pathlib.Path(sys.argv[1], "over").exists():
    value = json.loads(path.read_bytes())
    assert value["kept"] == 1, value
    reads += 1
print(reads)
"""


def test_FR50_twenty_processes_lose_nothing(store: ConfigStore, home: Path) -> None:
    """20 processes write 50 times each: every key arrives, and a reader never sees half a file."""
    store.update({"kept": 1})
    reader = subprocess.Popen(
        [sys.executable, "-c", _READER, str(home)], stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(home), str(number)])
        for number in range(20)
    ]
    assert [writer.wait(60) for writer in writers] == [0] * 20
    (home / "over").touch()
    reads, _ = reader.communicate(timeout=10)
    assert reader.returncode == 0
    assert int(reads) > 0
    assert store.read() == {"kept": 1, **{f"user_{number}": 49 for number in range(20)}}
    assert not list(store.paths.root.glob("*.tmp"))


def test_save_use_and_return_to_production(store: ConfigStore) -> None:
    """Each context has its own account; the login of production comes back with it."""
    store.update({"api_key": "sk-prod", "team_id": "t", "team_name": "T", "ssh_key_path": "/k"})
    store.save_context("staging", {"api_key": "sk-s", "base_url": "https://s.example"})
    assert store.contexts() == ["production", "local", "staging"]
    store.use_context("staging")
    assert store.current() == "staging"
    settings = load_settings(home=store.paths.home, environ={})
    assert (settings.api_key, settings.base_url, settings.team_id) == (
        "sk-s",
        "https://s.example",
        None,
    )
    assert settings.ssh_key_path == "/k"
    named = load_settings(home=store.paths.home, environ={}, context="production")
    assert (named.api_key, named.base_url, named.team_id) == ("sk-prod", HOSTED, "t")
    store.use_context("production")
    settings = load_settings(home=store.paths.home, environ={})
    assert (settings.api_key, settings.base_url, settings.team_name) == ("sk-prod", HOSTED, "T")


def test_context_without_a_key_does_not_inherit_one(store: ConfigStore) -> None:
    """A key of one account is not left in config.json beside the address of another."""
    store.update({"api_key": "sk-prod"})
    store.save_context("staging", {"base_url": "https://s.example"})
    store.use_context("staging")
    assert store.read()["api_key"] == ""


def test_services_of_one_account_do_not_stay_for_the_next(store: ConfigStore) -> None:
    """No address of the account before is left beside a key of the next."""
    store.update({"api_key": "sk-prod", "inference_url": "https://inference.prod.example"})
    store.save_context("staging", {"api_key": "sk-s", "base_url": "https://s.example"})
    for _ in range(2):
        store.use_context("staging")
        settings = load_settings(home=store.paths.home, environ={})
        assert settings.inference_url == "https://s.example/api/v1"
        store.use_context("production")
        settings = load_settings(home=store.paths.home, environ={})
        assert settings.inference_url == "https://inference.prod.example"


def test_change_in_a_context_in_use_is_kept_in_it(store: ConfigStore) -> None:
    """Using the context again does not undo a change that was made in it."""
    store.save_context("staging", {"api_key": "sk-s", "base_url": "https://s.example"})
    store.use_context("staging")
    store.update({"team_id": "t2", "traces_opt_out": True})
    store.use_context("production")
    store.use_context("staging")
    assert store.read_context("staging")["team_id"] == "t2"
    assert "traces_opt_out" not in store.read_context("staging")
    assert store.read()["team_id"] == "t2"
    assert store.read()["traces_opt_out"] is True


def test_saving_stores_the_file_not_the_environment(
    store: ConfigStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that was only lent to one command does not end up on disk."""
    store.update({"api_key": "sk-file"})
    monkeypatch.setenv("PRIME_API_KEY", "sk-environment")
    path = store.save_context("copy")
    assert "sk-environment" not in path.read_text()
    assert store.read_context("copy")["api_key"] == "sk-file"


def test_saving_again_keeps_unknown_keys(store: ConfigStore) -> None:
    """What a newer version stored in a context survives."""
    path = store.save_context("staging", {"api_key": "sk-1"})
    path.write_text(json.dumps({**json.loads(path.read_text()), "future": 1}))
    store.save_context("staging", {"api_key": "sk-2"})
    assert store.read_context("staging")["future"] == 1
    assert store.read_context("staging")["api_key"] == "sk-2"


@pytest.mark.parametrize("name", ["production", "Production", "local"])
def test_built_in_contexts_are_neither_saved_nor_deleted(store: ConfigStore, name: str) -> None:
    """The two built-in names are reserved."""
    with pytest.raises(ConfigError, match="built in"):
        store.save_context(name, {})
    with pytest.raises(ConfigError, match="built in"):
        store.delete_context(name)


def test_delete(store: ConfigStore) -> None:
    """A context in use, or one that does not exist, is not deleted; another one is."""
    store.save_context("staging", {"api_key": "sk-s"})
    store.use_context("staging")
    with pytest.raises(ConfigError, match="in use"):
        store.delete_context("staging")
    with pytest.raises(ConfigError, match="did you mean 'staging'"):
        store.delete_context("stagin")
    store.use_context("production")
    store.delete_context("staging")
    assert store.contexts() == ["production", "local"]


def test_use_of_an_unknown_context_changes_nothing(store: ConfigStore) -> None:
    """An error, not a silent switch."""
    store.update({"api_key": "sk-1"})
    with pytest.raises(ConfigError, match="no context 'nowhere'"):
        store.use_context("nowhere")
    assert store.read() == {"api_key": "sk-1"}


def test_local_in_use_follows_the_platform(store: ConfigStore) -> None:
    """A new port reaches config.json too (the official command follows); users cannot set it."""
    store.write_local({"api_key": "sk-l", "base_url": "http://127.0.0.1:1000"})
    store.use_context("local")
    store.write_local({"api_key": "sk-l", "base_url": "http://127.0.0.1:2000", "unix_socket": "/s"})
    assert store.read()["base_url"] == "http://127.0.0.1:2000"
    assert "unix_socket" not in store.read()
    with pytest.raises(UsageError, match="embedded platform"):
        store.update({"api_key": "sk-other"})
    store.update({"traces_opt_out": True})


def test_foreign_context_named_local_is_kept_under_another_name(store: ConfigStore) -> None:
    """A context somebody saved as ``local`` with the official command is not destroyed."""
    store.paths.environments.mkdir(parents=True)
    own = {"api_key": "sk-dev", "base_url": "https://dev.example"}
    store.paths.context("local").write_text(json.dumps(own))
    ours = {"api_key": "sk-l", "base_url": "http://127.0.0.1:1000"}
    store.write_local(ours)
    store.write_local({**ours, "base_url": "http://127.0.0.1:2000"})
    assert store.contexts() == ["production", "local", "local-saved"]
    assert store.read_context("local-saved") == own


def test_official_command_reads_what_is_written(
    store: ConfigStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The official Config finds key, address and team in our files, also through a context."""
    official = pytest.importorskip("prime_cli.core.config")
    store.update({"api_key": "sk-1", "team_id": "t", "base_url": "https://one.example"})
    store.write_local({"api_key": "sk-l", "base_url": "http://127.0.0.1:1000", "unix_socket": "/s"})
    store.save_context("bare", {"api_key": "sk-b"})
    store.update({"frontend_url": None, "ssh_key_path": None})
    config = official.Config()
    assert (config.api_key, config.team_id, config.base_url) == ("sk-1", "t", "https://one.example")
    assert config.load_environment("bare", persist=False)
    assert (config.api_key, config.base_url) == ("sk-b", HOSTED)
    monkeypatch.setenv("PRIME_CONTEXT", "local")
    config = official.Config()
    assert (config.api_key, config.team_id) == ("sk-l", None)
    assert config.base_url == "http://127.0.0.1:1000"


def test_files_of_the_official_command_are_read(store: ConfigStore) -> None:
    """A login and a context made by the official command work here."""
    official = pytest.importorskip("prime_cli.core.config")
    config = official.Config()
    config.set_api_key("sk-1")
    config.set_team("t", team_name="T", team_role="admin")
    config.save_environment("mine")
    settings = load_settings(home=store.paths.home, environ={})
    assert (settings.api_key, settings.team_id, settings.team_name) == ("sk-1", "t", "T")
    assert load_settings(home=store.paths.home, environ={}, context="mine").api_key == "sk-1"


def test_FR57_store_shows_no_key(store: ConfigStore) -> None:
    """No public object and no refusal shows a key."""
    store.update({"api_key": "sk-CANARY-123"})
    assert "CANARY" not in repr(store)
    with pytest.raises(ConfigError) as caught:
        store.update({"api_key": "sk-CANARY 123"})
    assert "CANARY" not in str(caught.value)
