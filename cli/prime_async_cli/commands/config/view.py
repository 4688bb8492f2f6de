"""``config view``: every setting in force, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prime_async_cli.command import command
from prime_async_cli.options import output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.tables import Column

if TYPE_CHECKING:
    from prime_async.config import Settings

__all__ = ["masked", "view"]

_SHOWN = (
    "context",
    "api_key",
    "team_id",
    "team_name",
    "user_id",
    "user_name",
    "base_url",
    "frontend_url",
    "inference_url",
    "traces_url",
    "ssh_key_path",
    "share_resources_with_team",
    "traces_opt_out",
    "strict_local",
)
_COLUMNS = (
    Column("SETTING", "setting", whole=True),
    Column("VALUE", "value"),
    Column("FROM", "origin", drop=1),
)


@command(
    "view",
    examples="""
    prime-async config view
    prime-async --context local config view --output json
    """,
)
@output_option
@pass_session
def view(session: Session) -> None:
    """Show every setting and where it comes from.

    The order of precedence: environment, the context of --context or PRIME_CONTEXT, config.json,
    default. The API key is never shown whole.
    """
    settings = session.settings()
    rows = _rows(settings)
    if session.output.json:
        session.output.document(
            {
                "settings": {row["setting"]: _without_name(row) for row in rows},
                "notes": list(settings.notes),
                "files": _files(session),
            }
        )
        return
    session.output.table(rows, _COLUMNS)
    for note in settings.notes:
        session.output.note(f"note: {note}")


def _rows(settings: Settings) -> list[dict[str, Any]]:
    rows = []
    for name in _SHOWN:
        value = getattr(settings, name)
        shown = masked(value) if name == "api_key" else value
        rows.append({"setting": name, "value": shown, "origin": settings.origins.get(name)})
    return rows


def _without_name(row: dict[str, Any]) -> dict[str, Any]:
    return {"value": row["value"], "origin": row["origin"]}


def _files(session: Session) -> dict[str, str]:
    paths = session.store().paths
    return {"config": str(paths.config), "contexts": str(paths.environments)}


def masked(key: str | None) -> str | None:
    """Return enough of a key to recognise it: the last four characters of a long one."""
    if not key:
        return None
    return f"***{key[-4:]}" if len(key) >= 16 else "***"
