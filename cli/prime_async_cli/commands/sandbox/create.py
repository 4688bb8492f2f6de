"""``sandbox create``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.commands.sandbox.rows import masked, sandbox_fields
from prime_async_cli.commands.sandbox.wishes import make_options, make_request
from prime_async_cli.options import Identifier, argument, output_option
from prime_async_cli.session import Session, pass_session

if TYPE_CHECKING:
    from prime_async.sandboxes import CreateSandboxRequest

__all__ = ["DEFAULT_IMAGE", "create", "show_new"]

DEFAULT_IMAGE = "python:3.11-slim"


@command(
    "create",
    examples="""
    prime-async sandbox create ubuntu:24.04 --wait --label ci
    prime-async sandbox create python:3.11 --secret HF_TOKEN -- python -m http.server 8000
    """,
)
@argument(
    "image",
    required=False,
    metavar="[IMAGE]",
    help=f"What it is made from; {DEFAULT_IMAGE} by default.",
)
@argument(
    "words",
    nargs=-1,
    required=False,
    metavar="[-- COMMAND...]",
    help="What it runs from its start: a program and its arguments.",
)
@make_options
@asyncclick.option(
    "--checkpoint", type=Identifier(), metavar="ID", help="Made from it in place of an image."
)
@asyncclick.option("--wait", is_flag=True, help="Come back when it can be used.")
@output_option
@pass_session
async def create(
    session: Session,
    /,
    image: str | None,
    words: tuple[str, ...],
    checkpoint: str | None,
    wait: bool,
    **wishes: Any,
) -> None:
    """Create a sandbox.

    It lives until it is deleted or its time is over. JSON: the object as the platform sends it,
    the values of its environment hidden.
    """
    if checkpoint is None and image is None:
        image = DEFAULT_IMAGE
    request = make_request(session, image, checkpoint=checkpoint, command=words, **wishes)
    await show_new(session, request, wait=wait)


async def show_new(session: Session, request: CreateSandboxRequest, *, wait: bool) -> None:
    """Create a sandbox, wait for it if asked to, and show it."""
    async with session.sandboxes() as client:
        sandbox = await client.create(request)
        if wait:
            session.facts = {"sandbox_id": sandbox.id}
            session.next_step = f"`prime-async sandbox delete {sandbox.id}` deletes it"
            await client.wait_for_creation(sandbox.id)
            sandbox = await client.get(sandbox.id)
    row = masked(sandbox)
    if session.output.json:
        session.output.document(row)
        return
    session.output.fields(sandbox_fields(row))
    session.output.note(f"run something: prime-async sandbox exec {sandbox.id} -- COMMAND")
