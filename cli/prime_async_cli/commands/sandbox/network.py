"""``sandbox network``: what a sandbox may reach."""

from __future__ import annotations

from typing import Any

import asyncclick

from prime_async_cli.command import Entry, Group, command
from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.options import Identifier, argument, output_option
from prime_async_cli.session import Session, pass_session

__all__ = ["get", "group", "set_network"]

group = Group(
    "network",
    {
        "get": Entry("sandbox.network:get", "Show what a sandbox may reach."),
        "set": Entry("sandbox.network:set_network", "Say what a sandbox may reach."),
    },
    help="See and say what a sandbox may reach.",
)

_sandbox_id = argument(
    "sandbox_id", type=Identifier(), metavar="SANDBOX", help="The id of the sandbox."
)


@command("get")
@_sandbox_id
@output_option
@pass_session
async def get(session: Session, sandbox_id: str) -> None:
    """Show what a sandbox may reach.

    JSON: {"policy": {"allowlist", "denylist"}, "generation", "applied_generation", "applied"}.
    """
    async with session.sandboxes() as client:
        _show(session, await client.get_network(sandbox_id))


@command(
    "set",
    examples="""
    prime-async sandbox network set ID --allow pypi.org --allow '*.pythonhosted.org:443'
    prime-async sandbox network set ID --deny 10.0.0.0/8
    prime-async sandbox network set ID --deny-all
    """,
)
@_sandbox_id
@asyncclick.option("--allow", multiple=True, metavar="HOST", help="It may reach only these; again.")
@asyncclick.option(
    "--deny", multiple=True, metavar="HOST", help="It may reach all but these; again."
)
@asyncclick.option("--allow-all", is_flag=True, help="It may reach everything.")
@asyncclick.option("--deny-all", is_flag=True, help="It may reach nothing.")
@output_option
@pass_session
async def set_network(
    session: Session,
    sandbox_id: str,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    allow_all: bool,
    deny_all: bool,
) -> None:
    """Say what a sandbox may reach, in place of what held before.

    HOST is a host, `*.` and a host, an IPv4 address or an IPv4 network, with an optional `:port`
    or `:low-high`; hosts take the ports 80 and 443 only. JSON: as that of get.
    """
    if sum(map(bool, (allow, deny, allow_all, deny_all))) != 1:
        raise CommandError(
            "say what: --allow, --deny, --allow-all or --deny-all",
            hint="one of the four, not several",
            code=USAGE,
        )
    every = ["*"]
    async with session.sandboxes() as client:
        status = await client.set_network(
            sandbox_id,
            allow=every if allow_all else list(allow) or None,
            deny=every if deny_all else list(deny) or None,
        )
    _show(session, status)


def _show(session: Session, status: Any) -> None:
    if session.output.json:
        session.output.document(status.to_wire())
        return
    allowed, denied = status.policy.allowlist, status.policy.denylist
    reaches = "everything"
    if allowed is not None:
        reaches = f"only {', '.join(allowed)}" if allowed else "nothing"
    elif denied:
        reaches = f"everything but {', '.join(denied)}"
    session.output.fields([("reaches", reaches), ("in force", status.applied)])
