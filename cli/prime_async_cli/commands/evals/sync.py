"""``eval sync``: what is kept on this disk, to the platform."""

from __future__ import annotations

from prime_async_cli.command import command
from prime_async_cli.options import output_option
from prime_async_cli.session import Session, pass_session

__all__ = ["sync"]


@command("sync")
@output_option
@pass_session
async def sync(session: Session) -> int:
    """Deliver samples kept on this disk."""
    raise NotImplementedError
