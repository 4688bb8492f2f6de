"""``local start``, ``status`` and ``stop``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.options import Number, output_option, yes_option
from prime_async_cli.prompts import confirm
from prime_async_cli.session import Session, pass_session

if TYPE_CHECKING:
    from prime_async.local import LocalAddress, LocalStatus, Stopped

__all__ = ["start", "status", "stop"]

_NAMED = 20
"""Sandboxes that are named when the platform stops; more are counted."""


@command("start")
@asyncclick.option(
    "--port",
    type=Number(1, 65535),
    help="Listen here. Default: the port of last time, at first a free one.",
)
@output_option
@pass_session
async def start(session: Session, port: int | None) -> None:
    """Start the platform; harmless when it runs.

    Where nothing else is configured it becomes the current context. JSON: {"started", "base_url",
    "unix_socket", "pid", "version", "data_dir", "log", "current_context"}.
    """
    from anyio import to_thread

    from prime_async import local

    address = await local.ensure_running(port=port)
    now = await local.status()
    current = session.context is None and await to_thread.run_sync(local.make_current_if_unset)
    for note in address.notes:
        session.output.warn(note)
    if session.output.json:
        facts = {"started": address.started, **_facts(now)}
        session.output.document({**facts, "current_context": "local" if current else None})
        return
    _say_started(session, address, now)
    if current:
        session.output.text("nothing else was configured: `local` is the current context now")


def _say_started(session: Session, address: LocalAddress, now: LocalStatus) -> None:
    verb = "started" if address.started else "already runs"
    session.output.text(f"the local platform {verb}: {address.base_url} (process {now.pid})")
    session.output.note('any client talks to it after: eval "$(prime-async local env)"')


@command("status")
@output_option
@pass_session
async def status(session: Session) -> int:
    """Show whether and where it runs.

    Starts nothing. The exit code is 0 when it runs and answers, 1 otherwise.
    """
    from prime_async import local

    now = await local.status()
    if session.output.json:
        session.output.document(_facts(now))
    else:
        state = "running" if now.answering else "not answering" if now.running else "stopped"
        facts = {name: value for name, value in _facts(now).items() if value is not None}
        session.output.fields([("state", state), *facts.items()])
    return 0 if now.answering else 1


def _facts(now: LocalStatus) -> dict[str, Any]:
    return {**asdict(now), "data_dir": str(now.data_dir), "log": str(now.log)}


@command("stop")
@asyncclick.option("--all", "everything", is_flag=True, help="End what lives in it as well.")
@yes_option
@output_option
@pass_session
async def stop(session: Session, everything: bool, yes: bool) -> int:
    """Stop the platform; its data stay.

    It asks first when something lives in it. Stopping what does not run is no failure.
    """
    from prime_async import local

    now = await local.status()
    question = f"{now.live} things live in the platform. Stop it"
    if now.live and not everything and not confirm(question, yes=yes):
        session.output.note("it goes on running")
        return 0
    ended = await local.stop(everything)
    if session.output.json:
        session.output.document(asdict(ended))
    elif not ended.was_running:
        session.output.text("the local platform does not run")
    else:
        how = "had to be killed" if ended.killed else "has stopped"
        session.output.text(f"the local platform {how}; its data stay in {now.data_dir}")
        _say_sandboxes(session, ended)
    return 0


def _say_sandboxes(session: Session, ended: Stopped) -> None:
    names = ", ".join(ended.sandboxes[:_NAMED])
    names += f" and {len(ended.sandboxes) - _NAMED} more" if len(ended.sandboxes) > _NAMED else ""
    if not names:
        return
    if ended.ended is None:
        session.output.note(f"go on, and are there again after the next start: {names}")
    else:
        session.output.text(f"ended with it: {names}")
