"""Configuration files: broken ones are reported and kept, written ones are private and whole."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from prime_async.config import ConfigStore, load_settings
from prime_async.config.files import read_object, write_object
from prime_async.errors import ConfigError

BROKEN = {
    "empty": (b"", None, None),
    "blank": (b" \n\t\n", None, None),
    "half-written": (b'{\n  "api_key": "sk-1",\n  "team_id": "te', 3, 14),
    "binary": (b'{"a":\n "\x00\xff\xfe"}', 2, 4),
    "utf-16": ("{}".encode("utf-16"), 1, 1),
    "list": (b'["api_key"]', 1, 1),
    "null": (b"null", 1, 1),
    "number": (b"12", 1, 1),
    "two objects": (b"{}{}", 1, 3),
    # Python 3.13 points at the comma, those before at what follows it.
    "trailing comma": (b'{"a": 1,\n}', *((1, 8) if sys.version_info >= (3, 13) else (2, 1))),
    "deep": (b"[" * 100_000, None, None),
    "endless number": (b'{"a": ' + b"1" * 10_000 + b"}", None, None),
    "huge": (b" " * (1 << 20) + b"{}", None, None),
}


def config_file(home: Path) -> Path:
    (home / ".prime").mkdir(mode=0o700, exist_ok=True)
    return home / ".prime" / "config.json"


@pytest.mark.parametrize("kind", BROKEN)
def test_FR49_broken_file_is_one_line_with_path_and_place(home: Path, kind: str) -> None:
    """Whatever is wrong: one line with path, place and cure, and never a rewrite."""
    content, line, column = BROKEN[kind]
    path = config_file(home)
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_settings(home=home, environ={})
    text = str(caught.value)
    assert (caught.value.path, caught.value.line, caught.value.column) == (path, line, column)
    assert text.startswith(str(path))
    assert "\n" not in text
    assert "config reset" in text
    with pytest.raises(ConfigError):
        ConfigStore(home).update({"api_key": "sk-2"})
    assert path.read_bytes() == content


@pytest.mark.parametrize("kind", BROKEN)
def test_FR49_reset_keeps_the_broken_file(home: Path, kind: str) -> None:
    """After a reset settings can be written again, and the old bytes are still there, private."""
    content, _, _ = BROKEN[kind]
    path = config_file(home)
    path.write_bytes(content)
    store = ConfigStore(home)
    backup = store.reset()
    assert backup is not None
    assert backup.read_bytes() == content
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert store.read() == {}
    store.update({"api_key": "sk-2"})
    assert load_settings(home=home, environ={}).api_key == "sk-2"


def test_FR49_directory_in_place_of_the_file(home: Path) -> None:
    """A directory called config.json is an error with a way out, and is moved aside by a reset."""
    path = config_file(home)
    path.mkdir()
    (path / "keep").write_text("me")
    with pytest.raises(ConfigError, match=r"config\.json"):
        load_settings(home=home, environ={})
    store = ConfigStore(home)
    backup = store.reset()
    assert backup is not None
    assert (backup / "keep").read_text() == "me"
    store.update({"api_key": "sk-2"})


_AS_NORMAL_USER = """
import os, pathlib, sys
from prime_async.config import ConfigStore, load_settings
from prime_async.errors import ConfigError
home = pathlib.Path(sys.argv[1])
if os.getuid() == 0:
    for path in [home, *home.rglob("*")]:
        os.chown(path, 65534, 65534)
    os.setgid(65534)
    os.setuid(65534)
try:
    load_settings(home=home, environ={})
except ConfigError as error:
    print(error)
print(ConfigStore(home).reset() is not None)
"""


def test_FR49_unreadable_file() -> None:
    """A file of mode 000 is an error for a normal user, and can be moved aside."""
    with tempfile.TemporaryDirectory() as folder:
        path = config_file(Path(folder))
        path.write_text("{}")
        path.chmod(0)
        command = [sys.executable, "-c", _AS_NORMAL_USER, folder]
        done = subprocess.run(command, capture_output=True, text=True)
    message, moved = done.stdout.splitlines()
    assert str(path) in message
    assert "Permission denied" in message
    assert moved == "True"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_named_pipe_in_place_of_the_file_does_not_hang(home: Path) -> None:
    """Opening never waits for a writer."""
    os.mkfifo(config_file(home))
    with pytest.raises(ConfigError, match="not a regular file"):
        load_settings(home=home, environ={})


def test_parent_that_is_a_file(home: Path) -> None:
    """A file called .prime is named for reading and for writing."""
    (home / ".prime").write_text("")
    with pytest.raises(ConfigError, match=r"\.prime"):
        load_settings(home=home, environ={})
    with pytest.raises(ConfigError, match="a directory was expected"):
        ConfigStore(home).update({"api_key": "sk-2"})


def test_home_that_does_not_exist(tmp_path: Path) -> None:
    """Reading works, writing says what is missing."""
    nowhere = tmp_path / "nowhere"
    assert load_settings(home=nowhere, environ={}).api_key is None
    with pytest.raises(ConfigError, match="cannot create the directory") as caught:
        ConfigStore(nowhere).update({"api_key": "sk-2"})
    assert "HOME" in str(caught.value)


def test_byte_order_mark_is_accepted(home: Path) -> None:
    """Editors on Windows write one."""
    config_file(home).write_bytes(b'\xef\xbb\xbf{"api_key": "sk-1"}')
    assert load_settings(home=home, environ={}).api_key == "sk-1"


def test_broken_context_file_is_named(home: Path) -> None:
    """A context file gets the same treatment, with a cure that fits it."""
    folder = home / ".prime" / "environments"
    folder.mkdir(parents=True)
    (folder / "staging.json").write_text("{")
    with pytest.raises(ConfigError, match=r"staging\.json:1:2") as caught:
        load_settings(home=home, environ={}, context="staging")
    assert "config reset" not in str(caught.value)


def test_FR51_files_are_private_from_creation(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under umask 022 every file is opened with 0600 and exclusively, and every folder is 0700."""
    opened: list[tuple[str, int, int]] = []
    real_open = os.open

    def spy(path: str, flags: int, mode: int = 0o777, **more: int) -> int:
        if flags & os.O_CREAT:
            opened.append((str(path), flags, mode))
        return real_open(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", spy)
    before = os.umask(0o022)
    try:
        store = ConfigStore(home)
        store.update({"api_key": "sk-CANARY"})
        store.save_context("staging", {"api_key": "sk-CANARY"})
        store.use_context("staging")
        store.write_local({"api_key": "sk-CANARY", "base_url": "http://127.0.0.1:1"})
    finally:
        os.umask(before)
    assert {mode for _, _, mode in opened} == {0o600}
    temporary = [flags for path, flags, _ in opened if path.endswith(".tmp")]
    assert temporary
    assert all(flags & os.O_EXCL for flags in temporary)
    for path in (home / ".prime").rglob("*"):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    assert stat.S_IMODE((home / ".prime").stat().st_mode) == 0o700


def test_rewriting_a_file_of_the_official_command_makes_it_private(home: Path) -> None:
    """The official command leaves 0644; our first write ends that."""
    path = config_file(home)
    path.write_text('{"api_key": "sk-1", "future": {"kept": [1]}}')
    path.chmod(0o644)
    ConfigStore(home).update({"team_id": "t"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_object(path) == {"api_key": "sk-1", "future": {"kept": [1]}, "team_id": "t"}


def test_link_to_a_file_stays_a_link(home: Path, tmp_path: Path) -> None:
    """Settings kept elsewhere by the user (dotfiles) are written there."""
    elsewhere = tmp_path / "dotfile.json"
    elsewhere.write_text('{"api_key": "sk-1"}')
    path = config_file(home)
    path.symlink_to(elsewhere)
    ConfigStore(home).update({"team_id": "t"})
    assert path.is_symlink()
    assert read_object(elsewhere) == {"api_key": "sk-1", "team_id": "t"}


def test_failed_write_leaves_the_old_file_and_no_other(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is an error with a path; the old settings stay, no temporary file does."""
    store = ConfigStore(home)
    store.update({"api_key": "sk-1"})
    before = {path.name for path in store.paths.root.iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left on device") as caught:
        store.update({"api_key": "sk-2"})
    assert str(store.paths.config) in str(caught.value)
    assert {path.name for path in store.paths.root.iterdir()} == before
    assert store.read() == {"api_key": "sk-1"}


def test_leftovers_of_a_killed_writer_are_removed(home: Path) -> None:
    """A temporary file may hold a key: the next writer deletes it."""
    store = ConfigStore(home)
    store.update({"api_key": "sk-1"})
    leftover = store.paths.root / ".config.json.0123456789abcdef.tmp"
    leftover.write_text('{"api_key": "sk-old"}')
    store.update({"team_id": "t"})
    assert not leftover.exists()


def test_content_survives_a_round_trip(tmp_path: Path) -> None:
    """Text outside ASCII is written readably and read back the same."""
    path = tmp_path / "file.json"
    write_object(path, {"user_name": "Zoë 字", "n": None})
    assert "Zoë 字" in path.read_text(encoding="utf-8")
    assert read_object(path) == {"user_name": "Zoë 字", "n": None}
