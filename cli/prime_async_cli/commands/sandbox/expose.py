"""``sandbox expose``: ports of sandboxes that can be reached from outside."""

from __future__ import annotations

import asyncclick

from prime_async_cli.command import Entry, Group, command
from prime_async_cli.commands.sandbox.rows import EXPOSURES, set_fields
from prime_async_cli.options import Identifier, Number, argument, output_option
from prime_async_cli.session import Session, pass_session

__all__ = ["add", "group", "list_exposures", "remove"]

group = Group(
    "expose",
    {
        "add": Entry("sandbox.expose:add", "Make a port of a sandbox reachable from outside."),
        "list": Entry("sandbox.expose:list_exposures", "List exposed ports."),
        "ls": Entry("sandbox.expose:list_exposures", "List exposed ports.", alias_of="list"),
        "remove": Entry("sandbox.expose:remove", "Close an exposed port."),
    },
    help="Reach a port of a sandbox from outside.",
)

_PORTS = Number(1, 65535)
_sandbox_id = argument(
    "sandbox_id", type=Identifier(), metavar="SANDBOX", help="The id of the sandbox."
)


@command(
    "add",
    examples="""
    prime-async sandbox expose add ID 8000
    prime-async sandbox expose add ID 5432 --protocol TCP --name database
    """,
)
@_sandbox_id
@argument("port", type=_PORTS, metavar="PORT", help="The port in the sandbox.")
@asyncclick.option("--name", metavar="TEXT", help="A word to know it by.")
@asyncclick.option(
    "--protocol",
    type=asyncclick.Choice(["HTTP", "TCP"], case_sensitive=False),
    default="HTTP",
    show_default=True,
    help="How it is spoken to.",
)
@output_option
@pass_session
async def add(
    session: Session, sandbox_id: str, port: int, name: str | None, protocol: str
) -> None:
    """Make a port of a sandbox reachable from outside.

    Whoever knows the address may use it. JSON: the exposed port as the platform sends it.
    """
    async with session.sandboxes() as client:
        row = dict((await client.expose(sandbox_id, port, name, protocol)).to_wire())
    if session.output.json:
        session.output.document(row)
    else:
        session.output.fields(set_fields(row))


@command("list", examples="prime-async sandbox expose list")
@argument(
    "sandbox_id",
    type=Identifier(),
    required=False,
    metavar="[SANDBOX]",
    help="The id of the sandbox; by default the ports of all are listed.",
)
@output_option
@pass_session
async def list_exposures(session: Session, sandbox_id: str | None) -> None:
    """List exposed ports, those of a sandbox or all.

    JSON: {"exposures": [...]}.
    """
    async with session.sandboxes() as client:
        if sandbox_id is None:
            found = await client.list_all_exposed_ports()
        else:
            found = await client.list_exposed_ports(sandbox_id)
    rows = [dict(exposure.to_wire()) for exposure in found.exposures]
    if session.output.json:
        session.output.document({"exposures": rows})
    elif rows:
        session.output.table(rows, EXPOSURES)
    else:
        session.output.note("no exposed ports")


@command("remove", examples="prime-async sandbox expose remove ID EXPOSURE")
@_sandbox_id
@argument("exposure_id", type=Identifier(), metavar="ID", help="The id of the exposed port.")
@output_option
@pass_session
async def remove(session: Session, sandbox_id: str, exposure_id: str) -> None:
    """Close an exposed port.

    JSON: {"removed": ID}.
    """
    async with session.sandboxes() as client:
        await client.unexpose(sandbox_id, exposure_id)
    if session.output.json:
        session.output.document({"removed": exposure_id})
    else:
        session.output.text(f"removed {exposure_id}")
