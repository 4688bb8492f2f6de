"""Which key, address and team count, and where each is said to come from."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from prime_async.config import Settings, load_settings
from prime_async.errors import ConfigError

HOSTED = "https://api.primeintellect.ai"
STAGING = {"api_key": "sk-staging", "base_url": "https://staging.example", "team_id": "team-s"}
LOCAL = {
    "api_key": "sk-local",
    "base_url": "http://127.0.0.1:4321",
    "unix_socket": "/run/prime/api.sock",
}


def write(
    home: Path, config: Mapping[str, Any] | None = None, **contexts: Mapping[str, Any]
) -> None:
    """Write config.json and context files as the official command would."""
    (home / ".prime" / "environments").mkdir(parents=True, exist_ok=True)
    if config is not None:
        (home / ".prime" / "config.json").write_text(json.dumps(config))
    for name, values in contexts.items():
        (home / ".prime" / "environments" / f"{name}.json").write_text(json.dumps(values))


def load(home: Path, environ: Mapping[str, str] | None = None, **arguments: str) -> Settings:
    return load_settings(environ=environ or {}, home=home, **arguments)


def test_nothing_configured_means_hosted_without_key(home: Path) -> None:
    """Without files, environment and arguments there is the hosted address and no key."""
    settings = load(home)
    assert settings.api_key is None
    assert settings.base_url == HOSTED
    assert settings.inference_url == "https://api.pinference.ai/api/v1"
    assert settings.frontend_url == "https://app.primeintellect.ai"
    assert settings.traces_url == HOSTED
    assert settings.context == "production"
    assert set(settings.origins.values()) == {"default"}


def test_reading_creates_nothing(home: Path) -> None:
    """Loading settings leaves an empty home empty."""
    load(home)
    with pytest.raises(ConfigError):
        load(home, context="nowhere")
    assert list(home.iterdir()) == []


def test_every_stored_key_is_read_with_its_origin(home: Path) -> None:
    """A file of the official command is understood whole."""
    stored = {
        "api_key": "sk-file",
        "team_id": "team-f",
        "team_name": "Team F",
        "team_role": "admin",
        "user_id": "user-f",
        "user_name": "F",
        "base_url": "https://api.example/api/v1/",
        "frontend_url": "https://app.example/",
        "inference_url": "https://inference.example/api/v1/",
        "traces_url": "https://traces.example/api/v1",
        "ssh_key_path": "~/.ssh/pod",
        "current_environment": "production",
        "share_resources_with_team": True,
        "traces_opt_out": "true",
        "strict_local": True,
    }
    write(home, stored)
    settings = load(home)
    assert settings.base_url == "https://api.example"
    assert settings.frontend_url == "https://app.example"
    assert settings.inference_url == "https://inference.example/api/v1"
    assert settings.traces_url == "https://traces.example"
    assert settings.ssh_key_path == str(home / ".ssh" / "pod")
    assert settings.team_name == "Team F"
    assert settings.team_role == "admin"
    assert settings.user_id == "user-f"
    assert settings.user_name == "F"
    assert settings.share_resources_with_team
    assert settings.traces_opt_out
    assert settings.strict_local
    assert set(settings.origins.values()) == {"config.json"}


PAIRS = [
    # (config.json, environment, arguments) -> (key, address, team, context)
    pytest.param({}, {"PRIME_API_KEY": "e"}, {}, ("e", HOSTED, None, "production"), id="env key"),
    pytest.param(
        STAGING,
        {"PRIME_API_KEY": "e"},
        {},
        ("e", HOSTED, None, "production"),
        id="env key never to the address, nor with the team, of config.json",
    ),
    pytest.param(
        STAGING,
        {"PRIME_API_BASE_URL": "https://other.example"},
        {},
        (None, "https://other.example", None, ""),
        id="stored key never to an address from the environment",
    ),
    pytest.param(
        STAGING,
        {},
        {"base_url": "https://other.example"},
        (None, "https://other.example", None, ""),
        id="stored key never to an address from an argument",
    ),
    pytest.param(
        STAGING,
        {"PRIME_API_BASE_URL": "https://staging.example/api/v1"},
        {},
        ("sk-staging", "https://staging.example", "team-s", "production"),
        id="an address said now that is the stored one keeps the stored account",
    ),
    pytest.param(
        STAGING,
        {"PRIME_API_BASE_URL": "https://other.example", "PRIME_BASE_URL": "https://old.example"},
        {"api_key": "a"},
        ("a", "https://other.example", None, ""),
        id="argument and environment go together; the newer variable wins",
    ),
    pytest.param(
        STAGING,
        {"PRIME_API_KEY": "e", "PRIME_BASE_URL": "https://env.example", "PRIME_TEAM_ID": "team-e"},
        {"api_key": "a", "base_url": "https://arg.example", "team_id": "team-a"},
        ("a", "https://arg.example", "team-a", ""),
        id="arguments win",
    ),
    pytest.param(
        STAGING,
        {"PRIME_TEAM_ID": ""},
        {},
        ("sk-staging", "https://staging.example", None, "production"),
        id="blank team variable means no team",
    ),
    pytest.param(
        STAGING,
        {"PRIME_TEAM_ID": "team-e"},
        {"team_id": " "},
        ("sk-staging", "https://staging.example", None, "production"),
        id="blank team argument means no team",
    ),
    pytest.param(
        STAGING,
        {"PRIME_API_KEY": " ", "PRIME_API_BASE_URL": "", "PRIME_CONTEXT": ""},
        {},
        ("sk-staging", "https://staging.example", "team-s", "production"),
        id="blank variables count as unset",
    ),
]


@pytest.mark.parametrize(("config", "environ", "arguments", "expected"), PAIRS)
def test_key_and_address_belong_together(
    home: Path,
    config: dict[str, str],
    environ: dict[str, str],
    arguments: dict[str, str],
    expected: tuple[str | None, str, str | None, str],
) -> None:
    """Key, address and team never cross the border between what is said now and what is stored."""
    write(home, config)
    settings = load(home, environ, **arguments)
    found = (settings.api_key, settings.base_url, settings.team_id, settings.context)
    assert found == expected


def test_withheld_key_is_explained(home: Path) -> None:
    """A stored key that is not used is mentioned, without being shown."""
    write(home, STAGING)
    settings = load(home, {"PRIME_API_BASE_URL": "https://other.example"})
    (note,) = settings.notes
    assert "config.json" in note
    assert "PRIME_API_BASE_URL" in note
    assert "sk-staging" not in note


def test_explicit_context_overrides_the_environment(home: Path) -> None:
    """``context=`` brings key, address and team of that context."""
    write(home, {"api_key": "sk-file"}, staging=STAGING)
    environ = {
        "PRIME_API_KEY": "e",
        "PRIME_API_BASE_URL": "https://env.example",
        "PRIME_TEAM_ID": "team-e",
        "PRIME_TRACES_URL": "https://traces.example",
        "PRIME_CONTEXT": "typo",
    } | {"PRIME_CONTEXT": "production"}
    settings = load(home, environ, context="staging")
    assert (settings.api_key, settings.base_url) == ("sk-staging", "https://staging.example")
    assert settings.team_id == "team-s"
    assert settings.traces_url == "https://staging.example"
    assert settings.context == "staging"
    assert settings.origins["api_key"] == "context staging"
    assert settings.origins["context"] == "argument"


def test_key_given_with_a_context_goes_to_its_address(home: Path) -> None:
    """Two arguments of one call are meant together; the context's team belongs to its own key."""
    write(home, staging=STAGING)
    settings = load(home, {"PRIME_TEAM_ID": "team-e"}, context="staging", api_key="a")
    assert (settings.api_key, settings.base_url) == ("a", "https://staging.example")
    assert settings.team_id is None


def test_address_given_with_a_context_is_refused(home: Path) -> None:
    """A context's key is not sent to another address, nor is the address silently ignored."""
    write(home, staging=STAGING)
    with pytest.raises(ConfigError, match="two addresses"):
        load(home, context="staging", base_url="https://other.example")
    settings = load(home, context="staging", base_url="https://other.example", api_key="a")
    assert (settings.api_key, settings.base_url) == ("a", "https://other.example")


def test_context_variable_selects_the_account(home: Path) -> None:
    """``PRIME_CONTEXT`` wins over config.json."""
    write(home, {"api_key": "sk-file", "team_id": "team-f"}, staging=STAGING)
    settings = load(home, {"PRIME_CONTEXT": "staging"})
    assert (settings.api_key, settings.team_id) == ("sk-staging", "team-s")
    assert settings.origins["context"] == "environment PRIME_CONTEXT"
    assert settings.origins["team_id"] == "context staging"


def test_a_whole_account_in_the_environment_wins_over_the_context_variable(home: Path) -> None:
    """Environment is above named context when it says key and address."""
    write(home, staging=STAGING)
    environ = {
        "PRIME_CONTEXT": "staging",
        "PRIME_API_KEY": "e",
        "PRIME_API_BASE_URL": "https://env.example",
    }
    settings = load(home, environ)
    assert (settings.api_key, settings.base_url) == ("e", "https://env.example")
    assert settings.team_id is None


@pytest.mark.parametrize(
    "half", [{"PRIME_API_KEY": "e"}, {"PRIME_API_BASE_URL": "https://env.example"}]
)
def test_half_an_account_beside_the_context_variable_is_refused(
    home: Path, half: dict[str, str]
) -> None:
    """Results must not go to a place that was not chosen: the contradiction is named instead."""
    write(home, local=LOCAL)
    with pytest.raises(ConfigError, match="PRIME_CONTEXT=local") as caught:
        load(home, {"PRIME_CONTEXT": "local", **half})
    assert next(iter(half)) in str(caught.value)
    assert "--context local" in str(caught.value)


def test_hosted_context_takes_the_key_from_the_environment(home: Path) -> None:
    """``production`` has the hosted address, where an environment key goes anyhow."""
    for arguments, extra in (
        ({"context": "production"}, {}),
        ({}, {"PRIME_CONTEXT": "production"}),
    ):
        settings = load(home, {"PRIME_API_KEY": "e", **extra}, **arguments)
        assert (settings.api_key, settings.base_url) == ("e", HOSTED)
        assert settings.context == "production"


def test_production_is_not_given_the_key_of_the_context_in_use(home: Path) -> None:
    """config.json holds another account's key while another context is in use."""
    write(home, {**STAGING, "current_environment": "staging"}, staging=STAGING)
    assert load(home).context == "staging"
    settings = load(home, context="production")
    assert (settings.api_key, settings.base_url) == (None, HOSTED)


def test_local_is_built_in_and_unreachable_before_its_first_start(home: Path) -> None:
    """The context ``local`` never falls back to the hosted address."""
    write(home, {"api_key": "sk-file"})
    settings = load(home, context="local")
    assert settings.context == "local"
    assert settings.api_key is None
    assert settings.base_url == "http://127.0.0.1:0"
    for url in (settings.inference_url, settings.frontend_url, settings.traces_url):
        assert url.startswith("http://127.0.0.1:0")


@pytest.mark.parametrize("how", ["argument", "variable", "config.json"])
def test_local_brings_socket_key_and_address(home: Path, how: str) -> None:
    """All three ways of choosing ``local`` lead to what the platform wrote."""
    config = {"api_key": "old", "base_url": "http://127.0.0.1:1"}
    if how == "config.json":
        config["current_environment"] = "local"
    write(home, config, local=LOCAL)
    settings = load(
        home,
        {"PRIME_CONTEXT": "local"} if how == "variable" else {},
        **({"context": "local"} if how == "argument" else {}),
    )
    assert settings.context == "local"
    assert settings.unix_socket == "/run/prime/api.sock"
    assert (settings.api_key, settings.base_url) == ("sk-local", "http://127.0.0.1:4321")


def test_foreign_context_named_local_is_not_followed_off_this_machine(home: Path) -> None:
    """Whoever says ``local`` wants nothing to leave this machine."""
    write(home, local={"api_key": "sk", "base_url": "https://dev.example"})
    settings = load(home, context="local")
    assert (settings.api_key, settings.base_url) == (None, "http://127.0.0.1:0")


def test_environment_key_wins_over_local_in_config(home: Path) -> None:
    """A key said now goes to the hosted platform, and the context is then not ``local``."""
    write(home, {"current_environment": "local"}, local=LOCAL)
    settings = load(home, {"PRIME_API_KEY": "e"})
    assert (settings.base_url, settings.context, settings.unix_socket) == (
        HOSTED,
        "production",
        None,
    )


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_unknown_context_names_the_nearest(home: Path, how: str) -> None:
    """A typing error is an error (it silently meant the default account elsewhere)."""
    write(home, {"api_key": "sk-file"}, staging=STAGING)
    environ = {"PRIME_CONTEXT": "stagin"} if how == "variable" else {}
    arguments = {"context": "stagin"} if how == "argument" else {}
    with pytest.raises(ConfigError, match="did you mean 'staging'") as caught:
        load(home, environ, **arguments)
    assert "production, local, staging" in str(caught.value)


@pytest.mark.parametrize("name", ["../config", "a b", "", "ä", "x" * 101, "a/b"])
def test_context_name_cannot_be_a_path(home: Path, name: str) -> None:
    """Only letters, digits, - and _ are looked up."""
    with pytest.raises(ConfigError, match="not a context name"):
        load(home, context=name)


@pytest.mark.parametrize("name", ["Production", "LOCAL"])
def test_built_in_names_ignore_case(home: Path, name: str) -> None:
    """As in the official command, the reserved name is reserved in every spelling."""
    assert load(home, context=name).context == name.lower()


@pytest.mark.parametrize(
    "url",
    [
        "notaurl",
        "ftp://host",
        "https://",
        "http://:80",
        "http://a b",
        "http://host:99999",
        "http://[::1",
        "https://host?x=1",
        "https://host#x",
        "https://user:hunter2@host",
        "//host",
        "https://host\n.evil",
    ],
)
def test_bad_address_names_its_source(home: Path, url: str) -> None:
    """An address that cannot be used is refused with the name of what set it, and no password."""
    for environ, arguments, source in (
        ({"PRIME_API_BASE_URL": url}, {}, "PRIME_API_BASE_URL"),
        ({"PRIME_INFERENCE_URL": url}, {}, "PRIME_INFERENCE_URL"),
        ({}, {"base_url": url}, "base_url"),
    ):
        with pytest.raises(ConfigError, match=source) as caught:
            load(home, environ, **arguments)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("https://host/", "https://host"),
        ("https://host/api/v1", "https://host"),
        ("https://host/api/v1///", "https://host"),
        ("https://host/api/v1/api/v1", "https://host/api/v1"),
        (" HTTP://HOST:8080/Base/ ", "http://host:8080/Base"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_address_is_normalised(home: Path, given: str, normal: str) -> None:
    """Trailing slashes and one /api/v1 go; scheme and host are lower case; the path is kept."""
    assert load(home, base_url=given).base_url == normal


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel", "tab\tbed"])
def test_key_that_cannot_travel_is_refused_and_not_shown(home: Path, key: str) -> None:
    """A key with a line break would break out of its header."""
    write(home, {"api_key": key})
    with pytest.raises(ConfigError, match=r"config\.json:1:2: api_key holds") as caught:
        load(home)
    assert key not in str(caught.value)
    write(home, {"api_key": " sk-1\n"})
    for environ, arguments in (({}, {"api_key": key}), ({"PRIME_API_KEY": key}, {})):
        with pytest.raises(ConfigError, match=r"(?i)api_key holds") as caught:
            load(home, environ, **arguments)
        assert key not in str(caught.value)
    assert load(home).api_key == "sk-1"
    assert load(home, api_key=" sk-2\n").api_key == "sk-2"


@pytest.mark.parametrize(
    ("config", "line", "column", "what"),
    [
        ('{"api_key": 7}', 1, 2, "api_key must be text"),
        ('{\n  "a": {"base_url": 1},\n  "base_url": []\n}', 3, 3, "base_url must be text"),
        ('{\n"base_url": "ftp://x"}', 2, 1, "base_url must start with"),
        ('{ "team_id": [1], "api_key": "k", "team_id": {}}', 1, 35, "team_id must be text"),
        ('{"traces_opt_out": "maybe"}', 1, 2, "traces_opt_out must be true or false"),
        ('{\n\n "current_environment": "a/b"}', None, None, "not a context name"),
    ],
)
def test_mistyped_setting_is_located(
    home: Path, config: str, line: int | None, column: int | None, what: str
) -> None:
    """The error names file, line and column of the key, even behind a nested one of its name."""
    write(home)
    path = home / ".prime" / "config.json"
    path.write_text(config)
    with pytest.raises(ConfigError, match=what) as caught:
        load(home)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(path) in str(caught.value)


def test_services_follow_an_address_that_is_not_hosted(home: Path) -> None:
    """A key for another platform never travels to the hosted inference or traces service."""
    settings = load(home, api_key="a", base_url="http://127.0.0.1:9")
    assert settings.inference_url == "http://127.0.0.1:9/api/v1"
    assert settings.traces_url == "http://127.0.0.1:9"
    assert settings.frontend_url == "http://127.0.0.1:9"


def test_stored_key_is_withheld_from_a_service_named_by_the_environment(home: Path) -> None:
    """The border also holds for inference and traces."""
    write(home, {"api_key": "sk-file"})
    environ = {"PRIME_TRACES_URL": "https://traces.example"}
    settings = load(home, environ)
    assert settings.key_for("traces_url") is None
    assert settings.key_for("inference_url") == "sk-file"
    assert load(home, {**environ, "PRIME_API_KEY": "e"}).key_for("traces_url") == "e"


def test_restricting_switches_cannot_be_loosened_by_the_environment(home: Path) -> None:
    """The environment may turn strict_local on, not off."""
    assert load(home, {"PRIME_STRICT_LOCAL": "1"}).strict_local
    assert load(home, {"PRIME_STRICT_LOCAL": "1"}).origins["strict_local"].startswith("environment")
    write(home, {"strict_local": True})
    settings = load(home, {"PRIME_STRICT_LOCAL": "0"})
    assert settings.strict_local
    assert settings.origins["strict_local"] == "config.json"


def test_user_and_ssh_key_from_the_environment(home: Path) -> None:
    """The remaining variables of the official command are honoured."""
    settings = load(home, {"PRIME_USER_ID": "u", "PRIME_SSH_KEY_PATH": "~/k"})
    assert settings.user_id == "u"
    assert settings.ssh_key_path == str(home / "k")
    assert settings.origins["ssh_key_path"] == "environment PRIME_SSH_KEY_PATH"


def test_home_comes_from_the_environment_given(home: Path, tmp_path: Path) -> None:
    """``environ`` decides about the home directory too."""
    write(tmp_path, {"api_key": "sk-other"})
    assert load_settings(environ={"HOME": str(tmp_path)}).api_key == "sk-other"
    assert load_settings().api_key is None


def test_home_that_is_not_absolute_is_refused() -> None:
    """A relative HOME would make the settings depend on the current directory."""
    with pytest.raises(ConfigError, match="not an absolute path"):
        load_settings(environ={"HOME": "here"})


def test_without_any_home_arguments_still_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """An account unknown to the system (a bare container) can use arguments and environment."""
    monkeypatch.setattr("prime_async.config.settings.home_directory", lambda environ: None)
    settings = load_settings(environ={"PRIME_API_KEY": "e"})
    assert settings.api_key == "e"
    assert load_settings(environ={}, context="local").base_url == "http://127.0.0.1:0"


def test_FR57_repr_never_shows_the_key(home: Path) -> None:
    """No repr holds the key, wherever it came from."""
    key = "sk-CANARY-123"
    write(home, {"api_key": key}, staging={**STAGING, "api_key": key})
    for settings in (
        load(home),
        load(home, api_key=key),
        load(home, {"PRIME_API_KEY": key}),
        load(home, context="staging"),
    ):
        assert settings.api_key == key
        assert "CANARY" not in repr(settings)
        assert "CANARY" not in str(settings)
        assert pickle.loads(pickle.dumps(settings)) == settings


def test_FR57_broken_file_error_holds_no_content(home: Path) -> None:
    """Neither the error nor anything chained to it carries the text of the file."""
    write(home)
    path = home / ".prime" / "config.json"
    for content in (b'{"api_key": "sk-CANARY-123"', b'{"api_key": "sk-CANARY-123\xff"}'):
        path.write_bytes(content)
        with pytest.raises(ConfigError) as caught:
            load(home)
        error: BaseException | None = caught.value
        while error is not None:
            assert "CANARY" not in f"{error!r} {vars(error)}"
            assert not isinstance(error, ValueError)
            error = error.__cause__ or error.__context__
