"""``config set-api-key``, ``set-team-id`` and ``remove-team-id``."""

from __future__ import annotations

from prime_async_cli.command import command
from prime_async_cli.commands.config.changes import change, refuse_temporary_context
from prime_async_cli.commands.config.view import masked
from prime_async_cli.options import Identifier, argument, output_option
from prime_async_cli.prompts import read_secret
from prime_async_cli.session import Session, pass_session

__all__ = ["remove_team_id", "set_api_key", "set_team_id"]


@command(
    "set-api-key",
    examples="""
    prime-async config set-api-key                    # asks, shows nothing
    prime-async config set-api-key < key.txt
    """,
)
@argument(
    "key",
    required=False,
    metavar="[KEY]",
    help="Better left out: it would stand in the history of the shell and in the process list.",
)
@output_option
@pass_session
def set_api_key(session: Session, key: str | None) -> None:
    """Store an API key, read without showing it.

    The key is asked for, or read from the first line of standard input. It is stored in
    ~/.prime/config.json, which only you can read.
    """
    refuse_temporary_context(session)
    if key not in (None, "-"):
        session.secrets.add(str(key))
        session.output.warn("a key on the command line can be seen by others on this machine")
    given = read_secret("API key") if key in (None, "-") else str(key)
    session.secrets.add(given)
    change(session, {"api_key": given}, f"stored the API key {masked(given)}")


@command("set-team-id")
@argument("team_id", type=Identifier(), metavar="ID", help="The id of the team.")
@output_option
@pass_session
def set_team_id(session: Session, team_id: str) -> None:
    """Act for a team."""
    changes = {"team_id": team_id, "team_name": None, "team_role": None}
    change(session, changes, f"acting for team {team_id}")


@command("remove-team-id")
@output_option
@pass_session
def remove_team_id(session: Session) -> None:
    """Act for the personal account again."""
    changes = {"team_id": None, "team_name": None, "team_role": None}
    change(session, changes, "acting for the personal account")
