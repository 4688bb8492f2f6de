"""Checks and normal forms of single settings: addresses and keys."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from prime_async.errors import ConfigError

__all__ = [
    "SettingError",
    "checked_key",
    "checked_url",
    "is_loopback",
    "normal_key",
    "normal_url",
]


class SettingError(ValueError):
    """Says what is wrong with a value, in words that follow its name."""


def normal_url(value: str, *, strip_api: bool = False) -> str:
    """Return an address without trailing slashes, with ``strip_api`` also without one ``/api/v1``.

    Raises:
        SettingError: it is not an absolute http or https address, or it carries more than host,
            port and path.
    """
    text = value.strip()
    parts = _split(text)
    if parts.username is not None or parts.password is not None:
        # The text stays out of the message: it holds a password.
        raise SettingError("must not hold a user name or password")
    if parts.scheme not in ("http", "https"):
        raise SettingError(f"must start with http:// or https://, got {text!r}")
    if not parts.hostname or any(
        character.isspace() or not character.isprintable() for character in text
    ):
        raise SettingError(f"names no host, got {text!r}")
    if parts.query or parts.fragment or text.endswith(("?", "#")):
        raise SettingError("must not hold a query or fragment")
    address = f"{parts.scheme}://{parts.netloc.lower()}{parts.path}".rstrip("/")
    return address.removesuffix("/api/v1").rstrip("/") if strip_api else address


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        # Not the library's words: they repeat parts of the text, and it may hold a password.
        raise SettingError("is not an address: its host or port cannot be read") from None
    return parts


def is_loopback(url: str | None) -> bool:
    """Say whether an address in its normal form is on this machine."""
    return url is not None and urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")


def checked_url(value: str, *, source: str, strip_api: bool = False) -> str:
    """Return an address given by argument or environment in its normal form.

    Raises:
        ConfigError: it cannot be used; the message names ``source``.
    """
    try:
        return normal_url(value, strip_api=strip_api)
    except SettingError as error:
        raise ConfigError(
            f"{source} {error}", hint="an address looks like https://api.example.com"
        ) from error


def normal_key(value: str | None) -> str | None:
    """Return an API key without the white space around it; None when nothing is left.

    Raises:
        SettingError: it could not travel in a header; the words never show the key.
    """
    key = (value or "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SettingError("holds a space, a line break or a letter that no key has")
    return key or None


def checked_key(value: str | None, *, source: str) -> str | None:
    """Return an API key given by argument or environment in its normal form.

    Raises:
        ConfigError: it cannot be used; the message names ``source``.
    """
    try:
        return normal_key(value)
    except SettingError as error:
        raise ConfigError(f"{source} {error}", hint="copy the key again") from error
