"""``config set-...`` for addresses, paths and switches, and ``config reset``."""

from __future__ import annotations

import asyncclick

from prime_async_cli.command import Command, command
from prime_async_cli.commands.config.changes import change, refuse_temporary_context
from prime_async_cli.options import argument, output_option, yes_option
from prime_async_cli.prompts import confirm
from prime_async_cli.session import Session, pass_session
from prime_async_cli.text import harmless

__all__ = [
    "reset",
    "set_base_url",
    "set_frontend_url",
    "set_inference_url",
    "set_share_resources_with_team",
    "set_ssh_key_path",
    "set_strict_local",
    "set_traces_opt_out",
    "set_traces_url",
]


def _address(setting: str, short: str) -> Command:
    name = f"set-{setting.replace('_', '-')}"

    @command(
        name,
        help=f"{short}\n\nIt must start with http:// or https://; '-' goes back to the default.",
        examples=f"prime-async config {name} https://example.com",
    )
    @argument("url", metavar="URL", help="The address, or '-' for the default.")
    @output_option
    @pass_session
    def setter(session: Session, url: str) -> None:
        value = None if url in ("-", "") else url
        change(session, {setting: value}, f"{setting} is now {harmless(value or 'the default')}")

    return setter


def _switch(setting: str, short: str, explanation: str) -> Command:
    @command(f"set-{setting.replace('_', '-')}", help=f"{short}\n\n{explanation}")
    @argument(
        "value", type=asyncclick.Choice(["true", "false"]), metavar="true|false", help="On or off."
    )
    @output_option
    @pass_session
    def setter(session: Session, value: str) -> None:
        change(session, {setting: value == "true"}, f"{setting} is now {value}")

    return setter


set_base_url = _address("base_url", "Store the address of the platform.")
set_frontend_url = _address("frontend_url", "Store the address of the web pages.")
set_inference_url = _address("inference_url", "Store the address of inference.")
set_traces_url = _address("traces_url", "Store the address traces go to.")
set_share_resources_with_team = _switch(
    "share_resources_with_team",
    "Share new resources with the team, or not.",
    "Counts for what is created while a team is set.",
)
set_traces_opt_out = _switch(
    "traces_opt_out",
    "Send no traces, or send them.",
    "With true, runs send no traces. PRIME_TRACES_OPT_OUT=1 does the same for one shell.",
)
set_strict_local = _switch(
    "strict_local",
    "Forbid sending anything off this machine, or allow it.",
    "With true, nothing is sent to a platform other than the embedded one.",
)


@command("set-ssh-key-path")
@argument("path", metavar="PATH", help="A private key file; '~' is your home.")
@output_option
@pass_session
def set_ssh_key_path(session: Session, path: str) -> None:
    """Store the path of the SSH key."""
    change(session, {"ssh_key_path": path}, f"ssh_key_path is now {harmless(path)}")


@command("reset")
@yes_option
@output_option
@pass_session
def reset(session: Session, yes: bool) -> None:
    """Start afresh; the old file is kept beside.

    Works on a broken file too. Saved contexts are left alone.
    """
    refuse_temporary_context(session)
    store = session.store()
    if not confirm(f"Move {store.paths.config} aside and start with the defaults", yes=yes):
        session.output.note("nothing was changed")
        return
    backup = store.reset()
    if session.output.json:
        session.output.document({"reset": True, "backup": str(backup) if backup else None})
    elif backup is None:
        session.output.text("there was nothing to reset")
    else:
        session.output.text(f"the configuration is at its defaults; the old one is {backup}")
