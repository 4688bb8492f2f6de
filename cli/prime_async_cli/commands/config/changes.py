"""What every command that writes the configuration does around the write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.session import Session

__all__ = ["change", "refuse_temporary_context", "usage_errors"]


def refuse_temporary_context(session: Session) -> None:
    """A context chosen for one command is for reading: what would be written is another one's file.

    Raises:
        CommandError: ``--context`` was given.
    """
    if session.context is not None:
        raise CommandError(
            f"--context {session.context} is for one command and changes nothing",
            hint=f"`prime-async config use {session.context}` first, then without --context",
            code=USAGE,
        )


@contextmanager
def usage_errors() -> Iterator[None]:
    """A value that was given and cannot be used is a wrong call; a broken file is a failure.

    Raises:
        CommandError: the value is refused; names it.
    """
    from prime_async.errors import ConfigError

    try:
        yield
    except ConfigError as error:
        if error.path is not None:
            raise
        raise CommandError(error.message, hint=error.hint, code=USAGE) from error


def change(session: Session, changes: Mapping[str, Any], said: str) -> None:
    """Write settings, say so, and warn where something else still counts more."""
    refuse_temporary_context(session)
    store = session.store()
    with usage_errors():
        store.update(changes)
    settings = session.settings()
    shadowed = {
        name: settings.origins[name]
        for name in changes
        if settings.origins.get(name, "").startswith("environment")
    }
    if session.output.json:
        names = sorted(changes)
        session.output.document({"changed": names, "file": str(store.paths.config)})
    else:
        session.output.text(said)
    for name, origin in shadowed.items():
        session.output.warn(f"{name} from the {origin} still counts more than what is stored")
