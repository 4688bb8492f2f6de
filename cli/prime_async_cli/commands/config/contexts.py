"""``config use``, ``save``, ``delete`` and ``envs``: the named contexts."""

from __future__ import annotations

from typing import Any

from prime_async_cli.command import command
from prime_async_cli.commands.config.changes import refuse_temporary_context, usage_errors
from prime_async_cli.options import ContextName, argument, output_option, yes_option
from prime_async_cli.prompts import confirm
from prime_async_cli.session import Session, pass_session
from prime_async_cli.tables import Column

__all__ = ["delete", "envs", "save", "use"]

_COLUMNS = (
    Column("CONTEXT", "name", whole=True),
    Column("CURRENT", "current"),
    Column("KEY", "has_key", drop=1),
    Column("TEAM", "team_id", drop=2),
    Column("ADDRESS", "base_url", drop=3),
)
_PROBLEM = Column("PROBLEM", "problem")


@command("use")
@argument("name", type=ContextName(), metavar="NAME", help="'production', 'local' or a saved one.")
@output_option
@pass_session
def use(session: Session, name: str) -> None:
    """Make a context the current one."""
    refuse_temporary_context(session)
    session.store().use_context(name)
    if session.output.json:
        session.output.document({"current": name})
    else:
        session.output.text(f"the current context is {name}")
    _warn_of_environment(session, name)


def _warn_of_environment(session: Session, name: str) -> None:
    settings = session.settings()
    if settings.context != name or settings.origins["api_key"].startswith("environment"):
        session.output.warn("environment variables (PRIME_...) still count more than the context")


@command("save")
@argument("name", metavar="NAME", help="Letters, digits, '-' and '_'.")
@output_option
@pass_session
def save(session: Session, name: str) -> None:
    """Save the account under a name.

    What config.json holds is saved, key included; what the environment says never is.
    """
    refuse_temporary_context(session)
    with usage_errors():
        path = session.store().save_context(name)
    if session.output.json:
        session.output.document({"saved": name, "file": str(path)})
    else:
        session.output.text(f"saved the context {name} in {path}")


@command("delete")
@argument("name", type=ContextName(), metavar="NAME", help="The context to delete.")
@yes_option
@output_option
@pass_session
def delete(session: Session, name: str, yes: bool) -> None:
    """Delete a saved context."""
    refuse_temporary_context(session)
    if not confirm(f"Delete the context {name} and the key in it", yes=yes):
        session.output.note("nothing was deleted")
        return
    session.store().delete_context(name)
    if session.output.json:
        session.output.document({"deleted": name})
    else:
        session.output.text(f"deleted the context {name}")


@command("envs")
@output_option
@pass_session
def envs(session: Session) -> None:
    """List the contexts."""
    store = session.store()
    current = store.current()
    rows = [_row(session, name, current) for name in store.contexts()]
    if session.output.json:
        session.output.document({"contexts": rows, "current": current})
    else:
        problems = (_PROBLEM,) if any(row["problem"] for row in rows) else ()
        session.output.table(rows, (*_COLUMNS, *problems))


def _row(session: Session, name: str, current: str) -> dict[str, Any]:
    """One context; a broken file spoils its own row, not the list."""
    from prime_async.errors import ConfigError

    try:
        values = session.store().read_context(name)
        problem = None
    except ConfigError as error:
        values, problem = {}, error.message
    return {
        "name": name,
        "current": name == current,
        "has_key": bool(values.get("api_key")),
        "team_id": values.get("team_id") or None,
        "base_url": values.get("base_url") or None,
        "problem": problem,
    }
