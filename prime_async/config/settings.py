"""`Settings`: the account, addresses and switches in force, each with where it came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prime_async.config.contexts import (
    LOCAL,
    PRODUCTION,
    Stored,
    check_name,
    read_config,
    read_context,
)
from prime_async.config.files import PrimePaths, home_directory
from prime_async.config.pairing import Account, Said, pair
from prime_async.config.values import checked_key, checked_url

__all__ = [
    "DEFAULT_BASE_URL",
    "DEFAULT_FRONTEND_URL",
    "DEFAULT_INFERENCE_URL",
    "Settings",
    "load_settings",
]

DEFAULT_BASE_URL = "https://api.primeintellect.ai"
DEFAULT_FRONTEND_URL = "https://app.primeintellect.ai"
DEFAULT_INFERENCE_URL = "https://api.pinference.ai/api/v1"


@dataclass(frozen=True, slots=True)
class Settings:
    """What counts for one client.

    Attributes:
        api_key: the key, or None; never shown by ``repr``.
        base_url: the platform's address, without trailing slash and without ``/api/v1``.
        team_id: the team whose resources are meant, or None for the personal account.
        context: name of the context in use; empty when key and address were both said by argument
            or environment.
        unix_socket: path of the embedded platform's socket, in the context ``local`` once it has
            been started.
        inference_url, frontend_url, traces_url: the other services; they follow ``base_url`` when
            that is not the hosted platform.
        team_name, team_role, user_id, user_name: as stored at login; never taken from another
            account's file.
        ssh_key_path: private key for pods.
        share_resources_with_team: new resources are shared with the team.
        traces_opt_out: runs send no traces.
        strict_local: nothing may be sent to a platform that is not the embedded one.
        origins: setting name -> ``argument``, ``environment NAME``, ``context NAME``,
            ``config.json`` or ``default``.
        notes: sentences on what was found and deliberately not used.
    """

    api_key: str | None = field(repr=False)
    base_url: str
    team_id: str | None
    context: str
    unix_socket: str | None
    inference_url: str
    frontend_url: str
    traces_url: str
    user_id: str | None
    team_name: str | None
    team_role: str | None
    user_name: str | None
    ssh_key_path: str
    share_resources_with_team: bool
    traces_opt_out: bool
    strict_local: bool
    origins: Mapping[str, str] = field(compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    def key_for(self, url_name: str) -> str | None:
        """Return the key that may be sent to ``inference_url`` or ``traces_url``.

        None when the key is stored and that address comes from the environment: the environment
        alone must not be able to direct a stored key elsewhere.
        """
        here = self.origins[url_name].startswith("environment")
        stored = self.origins["api_key"].startswith(("context", "config.json"))
        return None if here and stored else self.api_key


def load_settings(
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    team_id: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> Settings:
    """Find out what counts: argument > environment > named context > ``config.json`` > default.

    A key and an address are never combined across the border between what is said now (arguments
    and environment) and
    what is stored: a stored key goes to its own address only, and a key said now goes to an address
    said now or to the hosted platform. ``context=`` brings key and address of that context, over
    the environment; an ``api_key`` given with it is used at the context's address. Reading only: no
    file or folder is created.

    Args:
        api_key: API key.
        base_url: address of the platform; a trailing ``/api/v1`` is dropped.
        team_id: team; blank means the personal account.
        context: name of a saved context, or ``production`` or ``local``.
        environ: environment variables; default those of the process.
        home: home directory; default that of the user.

    Raises:
        ConfigError: a file or value cannot be used, the context does not exist, or two of them
            contradict each other.
    """
    environ = os.environ if environ is None else environ
    home = home if home is not None else home_directory(environ)
    paths = PrimePaths(home) if home is not None else None
    config = read_config(paths)
    said = _said(api_key, base_url, context, environ)
    stored = _selected(paths, config, said)
    account = pair(said, stored, DEFAULT_BASE_URL)
    return _Builder(environ, home, config, stored, account, said).build(team_id)


def _said(
    api_key: str | None, base_url: str | None, context: str | None, environ: Mapping[str, str]
) -> Said:
    """Collect what arguments and environment say about the account."""
    said = Said()
    for variable in ("PRIME_BASE_URL", "PRIME_API_BASE_URL"):
        if environ.get(variable, "").strip():
            source = f"environment {variable}"
            said.env_url = (checked_url(environ[variable], source=variable, strip_api=True), source)
    key = checked_key(environ.get("PRIME_API_KEY"), source="PRIME_API_KEY")
    said.env_key = (key, "environment PRIME_API_KEY") if key else None
    if base_url is not None:
        said.arg_url = (checked_url(base_url, source="base_url", strip_api=True), "argument")
    key = checked_key(api_key, source="api_key")
    said.arg_key = (key, "argument") if key else None
    said.arg_context = check_name(context, source="context") if context is not None else None
    named = environ.get("PRIME_CONTEXT", "").strip()
    said.env_context = check_name(named, source="PRIME_CONTEXT") if named else None
    return said


def _selected(paths: PrimePaths | None, config: Stored, said: Said) -> Stored:
    """Return the file whose account counts where nothing is said now."""
    if said.arg_context is not None:
        return read_context(paths, said.arg_context, config, source="context")
    if said.env_context is not None:
        return read_context(paths, said.env_context, config, source="PRIME_CONTEXT")
    if config.name == LOCAL:
        # Its address can change between starts: its own file knows, config.json has a copy.
        return read_context(paths, LOCAL, config, source="config.json")
    return config


class _Builder:
    """Fills in one setting after the other and notes the origin of each."""

    def __init__(
        self,
        environ: Mapping[str, str],
        home: Path | None,
        config: Stored,
        stored: Stored,
        account: Account,
        said: Said,
    ) -> None:
        self._environ = environ
        self._home = home
        self._config = config
        self._stored = stored
        self._account = account
        # An explicit context speaks over the environment, unless the key itself had to come from
        # there.
        self._use_environ = said.arg_context is None or account.key_origin.startswith("environment")
        self._origins: dict[str, str] = {}

    def build(self, team_id: str | None) -> Settings:
        account = self._account
        self._origins["api_key"], self._origins["base_url"] = account.key_origin, account.url_origin
        self._origins["context"] = self._context_origin()
        team = self._team(team_id)
        own_team = self._origins["team_id"] == self._stored.label
        user = self._account_text("user_id", variable="PRIME_USER_ID")
        own_user = self._origins["user_id"] == self._stored.label
        hosted = account.base_url == DEFAULT_BASE_URL
        return Settings(
            api_key=account.api_key,
            base_url=account.base_url,
            team_id=team,
            context=self._context(),
            unix_socket=self._unix_socket(),
            inference_url=self._url(
                "inference_url", DEFAULT_INFERENCE_URL if hosted else f"{account.base_url}/api/v1"
            ),
            frontend_url=self._url(
                "frontend_url", DEFAULT_FRONTEND_URL if hosted else account.base_url
            ),
            traces_url=self._traces_url(),
            user_id=user,
            team_name=self._account_text("team_name", wanted=own_team),
            team_role=self._account_text("team_role", wanted=own_team),
            user_name=self._account_text("user_name", wanted=own_user),
            ssh_key_path=self._ssh_key_path(),
            share_resources_with_team=self._flag("share_resources_with_team"),
            traces_opt_out=self._flag("traces_opt_out", variable="PRIME_TRACES_OPT_OUT"),
            strict_local=self._flag("strict_local", variable="PRIME_STRICT_LOCAL"),
            origins=self._origins,
            notes=account.notes,
        )

    def _keep(self, name: str, value: str | None, origin: str) -> str | None:
        self._origins[name] = origin
        return value

    def _context(self) -> str:
        if self._account.url_stored:
            return self._stored.name
        return PRODUCTION if self._account.base_url == DEFAULT_BASE_URL else ""

    def _context_origin(self) -> str:
        if not self._account.url_stored:
            return "default"
        return self._account.context_origin or ("config.json" if self._config.path else "default")

    def _unix_socket(self) -> str | None:
        if self._context() != LOCAL:
            return None
        return self._stored.text("unix_socket")

    def _team(self, argument: str | None) -> str | None:
        if argument is not None:
            return self._keep("team_id", argument.strip() or None, "argument")
        blank_counts = self._environ.get("PRIME_TEAM_ID") if self._use_environ else None
        if blank_counts is not None:
            return self._keep("team_id", blank_counts.strip() or None, "environment PRIME_TEAM_ID")
        return self._account_text("team_id")

    def _account_text(
        self, name: str, *, variable: str | None = None, wanted: bool = True
    ) -> str | None:
        """A setting that belongs to the key: said now, or from the file the key is from."""
        said = self._environ.get(variable, "").strip() if variable and self._use_environ else ""
        if said:
            return self._keep(name, said, f"environment {variable}")
        value = self._stored.text(name) if wanted and self._account.key_stored else None
        return self._keep(name, value, self._stored.label if value else "default")

    def _url(self, name: str, default: str, *, strip_api: bool = False) -> str:
        variable = f"PRIME_{name.upper()}"
        said = self._environ.get(variable, "").strip() if self._use_environ else ""
        if said:
            self._origins[name] = f"environment {variable}"
            return checked_url(said, source=variable, strip_api=strip_api)
        value = self._stored.url(name, strip_api=strip_api) if self._account.url_stored else None
        self._origins[name] = self._stored.label if value else "default"
        return value or default

    def _traces_url(self) -> str:
        """Return where traces go: in the context ``local`` nowhere but to the embedded platform."""
        account = self._account
        if account.url_stored and self._stored.name == LOCAL:
            self._origins["traces_url"] = self._origins["base_url"]
            return account.base_url
        return self._url("traces_url", account.base_url, strip_api=True)

    def _ssh_key_path(self) -> str:
        said = self._environ.get("PRIME_SSH_KEY_PATH", "").strip()
        stored = self._config.text("ssh_key_path")
        origin = (
            "environment PRIME_SSH_KEY_PATH" if said else "config.json" if stored else "default"
        )
        self._origins["ssh_key_path"] = origin
        path = said or stored or "~/.ssh/id_rsa"
        home = str(self._home) if self._home is not None else "~"
        return home + path[1:] if path.startswith("~/") else path

    def _flag(self, name: str, *, variable: str | None = None) -> bool:
        """A switch that restricts: the environment can turn it on, never off."""
        stored = self._config.flag(name)
        said = self._environ.get(variable, "").strip().lower() if variable else ""
        if said in ("1", "true", "yes", "on") and not stored:
            self._origins[name] = f"environment {variable}"
            return True
        self._origins[name] = "default" if stored is None else "config.json"
        return bool(stored)
