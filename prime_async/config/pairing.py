"""Which key goes to which address: the two are never combined across the wrong sources."""

from __future__ import annotations

from dataclasses import dataclass, field

from prime_async.config.contexts import PRODUCTION, Stored
from prime_async.errors import ConfigError

__all__ = ["Account", "Said", "pair"]

_Given = tuple[str, str] | None


@dataclass(slots=True)
class Said:
    """What the caller says now: value and origin of key and address, and the context that is named.

    Attributes:
        arg_key, arg_url, env_key, env_url: (value, origin) or None.
        arg_context, env_context: name of a context or None.
    """

    arg_key: _Given = field(default=None, repr=False)
    arg_url: _Given = None
    env_key: _Given = field(default=None, repr=False)
    env_url: _Given = None
    arg_context: str | None = None
    env_context: str | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """A key and the address it belongs to.

    Attributes:
        key_stored, url_stored: the key, the address is that of the stored context.
        context_origin: who named the context, or None when nobody did.
        notes: what was found and not used.
    """

    api_key: str | None = field(repr=False)
    key_origin: str
    base_url: str
    url_origin: str
    key_stored: bool
    url_stored: bool
    context_origin: str | None = None
    notes: tuple[str, ...] = ()


def pair(said: Said, stored: Stored, default_url: str) -> Account:
    """Choose key and address.

    Raises:
        ConfigError: two statements made now contradict each other.
    """
    key = stored.key()
    url = stored.url("base_url", strip_api=True)
    held = _Held(key, url or default_url, stored.label if url else "default", stored)
    if said.arg_context is not None:
        return _with_named_context(said, held, default_url)
    if said.env_context is not None:
        return _with_context_variable(said, held, default_url)
    return _with_config(
        said.arg_key or said.env_key, said.arg_url or said.env_url, held, default_url
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """The stored pair."""

    key: str | None = field(repr=False)
    url: str
    url_origin: str
    stored: Stored

    def account(self, *, context_origin: str | None, key: _Given = None) -> Account:
        """The stored address with the stored key, or with one that was said together with it."""
        own = (self.key, self.stored.label if self.key else "default")
        value, origin = key if key is not None else own
        return Account(
            value,
            origin,
            self.url,
            self.url_origin,
            key_stored=key is None and self.key is not None,
            url_stored=True,
            context_origin=context_origin,
        )


def _said_pair(key: _Given, url: _Given, default_url: str, notes: tuple[str, ...] = ()) -> Account:
    """Key and address said now; the hosted platform's address where none was said."""
    value, origin = key if key is not None else (None, "default")
    address, url_origin = url if url is not None else (default_url, "default")
    return Account(
        value, origin, address, url_origin, key_stored=False, url_stored=False, notes=notes
    )


def _with_named_context(said: Said, held: _Held, default_url: str) -> Account:
    if said.arg_url is not None and said.arg_url[0] != held.url:
        if said.arg_key is not None:
            return _said_pair(said.arg_key, said.arg_url, default_url)
        raise ConfigError(
            f"context {held.stored.name!r} and base_url={said.arg_url[0]!r} are two addresses",
            hint="leave one of them out, or give api_key too",
        )
    key = said.arg_key
    if key is None and held.key is None and held.url == default_url:
        # A key from the environment goes to the hosted platform anyhow; this is its context.
        key = said.env_key
    return held.account(context_origin="argument", key=key)


def _with_context_variable(said: Said, held: _Held, default_url: str) -> Account:
    key, url = said.arg_key or said.env_key, said.arg_url or said.env_url
    if key is not None and url is not None:
        return _said_pair(key, url, default_url)
    same = (key is None or key[0] == held.key) and (url is None or url[0] == held.url)
    if key is not None and held.stored.name == PRODUCTION and held.url == default_url:
        return held.account(context_origin="environment PRIME_CONTEXT", key=key)
    if same:
        return held.account(context_origin="environment PRIME_CONTEXT")
    raise _contradiction(key, url, held.stored.name)


def _contradiction(key: _Given, url: _Given, name: str) -> ConfigError:
    """Half an account was said beside ``PRIME_CONTEXT``: no choice would be surely meant."""
    half, other = ("API key", "address") if key is not None else ("address", "API key")
    given = key if key is not None else url
    origin = given[1].removeprefix("environment ") if given is not None else ""
    return ConfigError(
        f"PRIME_CONTEXT={name} names one account, {origin} the {half} of another, not its {other}",
        hint=(
            f"unset one of them, say the {other} too, or name the context explicitly "
            f"(--context {name}, context={name!r}), which overrides the environment"
        ),
    )


def _with_config(key: _Given, url: _Given, held: _Held, default_url: str) -> Account:
    origin = "config.json" if held.stored.path is not None else None
    if url is not None and url[0] == held.url:
        url = None if key is None else url
    if key is None and url is None:
        return held.account(context_origin=origin)
    notes: tuple[str, ...] = ()
    if key is None and url is not None and held.key is not None:
        note = (
            f"the API key in {held.stored.label} belongs to {held.url} and is not sent to {url[0]} "
            f"({url[1]}): set PRIME_API_KEY or api_key too"
        )
        notes = (note,)
    return _said_pair(key, url, default_url, notes)
