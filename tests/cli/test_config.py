"""`config`: every setting, its origin, safe files, and what happens to broken ones."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import CANARY, Ran, run_command

Inside = Callable[..., Ran]


def view(inside: Inside, *options: str) -> dict[str, Any]:
    ran = inside(*options, "config", "view", "-o", "json")
    assert ran.code == 0, ran
    settings: dict[str, Any] = json.loads(ran.out)["settings"]
    return settings


def stored(home: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((home / ".prime" / "config.json").read_text("utf-8"))
    return content


SETTERS = [
    (("set-team-id", "t1"), "team_id", "t1"),
    (("set-base-url", "https://api.example.com/api/v1/"), "base_url", "https://api.example.com"),
    (("set-frontend-url", "https://app.example.com"), "frontend_url", "https://app.example.com"),
    (
        ("set-inference-url", "https://i.example.com/v1"),
        "inference_url",
        "https://i.example.com/v1",
    ),
    (("set-traces-url", "https://t.example.com"), "traces_url", "https://t.example.com"),
    (("set-ssh-key-path", "/keys/id"), "ssh_key_path", "/keys/id"),
    (("set-share-resources-with-team", "true"), "share_resources_with_team", True),
    (("set-traces-opt-out", "true"), "traces_opt_out", True),
    (("set-strict-local", "true"), "strict_local", True),
]


@pytest.mark.parametrize(("words", "name", "value"), SETTERS, ids=[s[1] for s in SETTERS])
def test_each_setting(
    words: tuple[str, ...], name: str, value: object, inside: Inside, home: Path
) -> None:
    """Set, said, stored and shown with its origin."""
    run_command("config", "set-api-key", input="k" * 20)
    ran = inside("config", *words)
    assert (ran.code, ran.err) == (0, ""), ran
    assert stored(home)[name] == value
    assert view(inside)[name] == {"value": value, "origin": "config.json"}
    answer = json.loads(inside("config", *words, "-o", "json").out)
    assert name in answer["changed"]
    assert answer["file"] == str(home / ".prime" / "config.json")


@pytest.mark.parametrize(
    "words",
    [("set-base-url", "-"), ("set-traces-url", ""), ("remove-team-id",)],
    ids=lambda words: words[0],
)
def test_back_to_the_default(words: tuple[str, ...], inside: Inside) -> None:
    """`-` and an empty text clear an address; a team can be left."""
    inside("config", "set-traces-url", "https://t.example.com")
    inside("config", "set-team-id", "t1")
    assert inside("config", *words).code == 0
    name = {"remove-team-id": "team_id"}.get(words[0], words[0][4:].replace("-", "_"))
    assert view(inside)[name]["origin"] == "default"


def test_the_key_comes_from_standard_input_and_is_never_shown(home: Path) -> None:
    """Not on the command line, not on the screen, in a file only its owner can read."""
    os.umask(0o022)
    ran = run_command("config", "set-api-key", input=f"{CANARY}\nsecond line\n")
    assert (ran.code, ran.err) == (0, "")
    assert "CANARY" not in ran.everything
    assert stored(home)["api_key"] == CANARY
    for arguments in (("config", "view"), ("config", "view", "-o", "json"), ("config", "envs")):
        assert "CANARY" not in run_command(*arguments).everything
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in (home / ".prime", *(home / ".prime").rglob("*"))
    }
    assert modes[".prime"] == 0o700
    assert all(mode in (0o600, 0o700) for mode in modes.values()), modes
    assert "***6789" in run_command("config", "view").out


def test_a_key_on_the_command_line_is_taken_with_a_warning(home: Path, inside: Inside) -> None:
    """As the official command takes it, but not in silence and not shown."""
    ran = inside("config", "set-api-key", CANARY)
    assert ran.code == 0
    assert "can be seen by others" in ran.err
    assert "CANARY" not in ran.everything
    assert stored(home)["api_key"] == CANARY


@pytest.mark.parametrize("text", ["", "\n", "   \n"])
def test_no_key_where_one_is_needed(text: str) -> None:
    """An empty standard input is a usage error, not an empty key."""
    ran = run_command("config", "set-api-key", input=text)
    assert ran.code == 2
    assert "no API key was given" in ran.err


def test_what_the_environment_says_counts_more_and_is_named(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """`view` shows the variable; a setter warns; `save` never stores what the variable holds."""
    monkeypatch.setenv("PRIME_API_KEY", CANARY)
    assert view(inside)["api_key"] == {"value": "***6789", "origin": "environment PRIME_API_KEY"}
    monkeypatch.setenv("PRIME_TEAM_ID", "t9")
    ran = inside("config", "set-team-id", "t1")
    assert ran.code == 0
    assert "PRIME_TEAM_ID still counts more" in ran.err
    assert inside("config", "save", "work").code == 0
    assert "CANARY" not in (home / ".prime" / "environments" / "work.json").read_text("utf-8")


def test_contexts(inside: Inside, home: Path) -> None:
    """Save, use, list, delete; the one in use and the built-in ones stay."""
    run_command("config", "set-api-key", input="key-of-work-0123456789")
    assert inside("config", "save", "work").code == 0
    assert inside("config", "use", "work").code == 0
    answer = json.loads(inside("config", "ls", "-o", "json").out)
    assert answer["current"] == "work"
    assert [each["name"] for each in answer["contexts"]] == ["production", "local", "work"]
    assert view(inside, "--context", "production")["context"]["value"] == "production"
    in_use = inside("config", "delete", "work", "--yes")
    assert in_use.code == 1
    assert "in use" in in_use.err
    assert inside("config", "delete", "production", "-y").code == 1
    assert inside("config", "save", "../x").code in (1, 2)
    assert inside("config", "use", "production").code == 0
    assert inside("config", "delete", "work", "-y").code == 0
    unknown = inside("config", "use", "producton")
    assert unknown.code == 2
    assert "Did you mean 'production'?" in unknown.err


@pytest.mark.parametrize(
    "words",
    [
        ("set-team-id", "t1"),
        ("remove-team-id",),
        ("set-base-url", "https://x.example"),
        ("set-api-key",),
        ("use", "local"),
        ("save", "x"),
        ("delete", "local", "-y"),
        ("reset", "-y"),
    ],
    ids=lambda words: words[0],
)
def test_a_context_for_one_command_changes_nothing(
    words: tuple[str, ...], inside: Inside, home: Path
) -> None:
    """`--context` with a command that writes is refused."""
    ran = inside("--context", "local", "config", *words)
    assert ran.code == 2
    assert "changes nothing" in ran.err
    assert not (home / ".prime" / "config.json").exists()


BROKEN: dict[str, bytes] = {
    "half-written": b'{"api_key": "sk-CANARY-123-',
    "binary": bytes(range(256)),
    "a list": b"[]",
    "a wrong type": b'{"api_key": ["sk-CANARY-123"], "base_url": 7}',
}


@pytest.mark.parametrize("what", [*BROKEN, "a directory", "unreadable"])
def test_FR49_a_broken_file_is_named_and_can_be_reset(
    what: str, home: Path, inside: Inside
) -> None:
    """One line with path and place; `config reset` works and keeps it as a backup."""
    folder = home / ".prime"
    folder.mkdir()
    file = folder / "config.json"
    if what == "a directory":
        file.mkdir()
    else:
        file.write_bytes(BROKEN.get(what, b"{}"))
    if what == "unreadable":
        file.chmod(0)
        if os.geteuid() == 0:
            pytest.skip("root can read everything")
    for words in (("config", "view"), ("eval", "list"), ("config", "set-team-id", "t1")):
        ran = inside(*words)
        assert ran.code == 1, ran
        assert str(file) in ran.err
        assert "CANARY" not in ran.everything
    before = None if what in ("a directory", "unreadable") else file.read_bytes()
    reset = inside("config", "reset", "--yes")
    assert (reset.code, reset.err) == (0, ""), reset
    (backup,) = [path for path in folder.iterdir() if path.suffix == ".bak"]
    assert before is None or backup.read_bytes() == before
    assert inside("config", "view").code == 0


def test_reset_of_nothing(inside: Inside) -> None:
    """Said so."""
    assert inside("config", "reset", "-y").out == "there was nothing to reset\n"
    assert json.loads(inside("config", "reset", "-y", "-o", "json").out)["backup"] is None


def test_a_broken_context_does_not_spoil_the_list(home: Path, inside: Inside) -> None:
    """Its row says what is wrong with it."""
    folder = home / ".prime" / "environments"
    folder.mkdir(parents=True)
    (folder / "bad.json").write_text("{", "utf-8")
    ran = inside("config", "envs")
    assert ran.code == 0
    assert "bad.json" in ran.out
