"""``sandbox upload``, ``download`` and ``files``."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncclick
from anyio import to_thread

from prime_async_cli.command import command
from prime_async_cli.commands.sandbox.rows import FILES, file_row
from prime_async_cli.failures import CommandError
from prime_async_cli.options import Identifier, argument, output_option
from prime_async_cli.progress import transfer_progress
from prime_async_cli.session import Session, pass_session
from prime_async_cli.value_types import FilePath

if TYPE_CHECKING:
    from prime_async.sandboxes import AsyncSandboxClient, TreeTransfer

__all__ = ["download", "files", "upload"]

_SHOWN = 10
_sandbox_id = argument("sandbox_id", type=Identifier(), metavar="ID", help="The id of the sandbox.")
_skip = asyncclick.option(
    "--skip",
    is_flag=True,
    help="Leaving out links that lead elsewhere, and devices, is no failure.",
)
_verify = asyncclick.option(
    "--verify", is_flag=True, help="Compare the SHA-256 of a file at the end."
)


@command(
    "upload",
    examples="""
    prime-async sandbox upload ID train.py /app/train.py
    prime-async sandbox upload ID ./src /app/src
    """,
)
@_sandbox_id
@argument("local", type=FilePath(there=True), metavar="LOCAL", help="A file or folder here.")
@argument("remote", metavar="REMOTE", help="Where it goes; into a folder when it ends with '/'.")
@_skip
@_verify
@output_option
@pass_session
async def upload(
    session: Session, sandbox_id: str, local: Path, remote: str, skip: bool, verify: bool
) -> None:
    """Send a file or folder into a sandbox.

    A file appears when it is whole. A folder's content goes below REMOTE; what is there and not
    here stays. JSON: {"path", "size"} of a file; {"path", "files", "directories", "links", "size",
    "skipped"} of a folder.
    """
    folder = await to_thread.run_sync(local.is_dir)
    if remote.endswith("/"):
        remote = posixpath.join(remote, await to_thread.run_sync(_name, local))
    async with session.sandboxes() as client:
        with transfer_progress(session.output, local.name) as progress:
            if folder:
                tree = await client.upload_tree(sandbox_id, remote, local, progress=progress)
            else:
                sent = await client.upload_file(
                    sandbox_id, remote, local, progress=progress, verify=verify
                )
                tree = None
    if tree is not None:
        _report_tree(session, remote, tree, skip=skip)
    else:
        _report_file(session, sent.path or remote, sent.size)


def _name(path: Path) -> str:
    """Return the last part of a path; `.` and `x/..` have one too."""
    return path.resolve().name if path.name in ("", "..") else path.name


@command(
    "download",
    examples="""
    prime-async sandbox download ID /app/model.pt .
    prime-async sandbox download ID /app/results ./results
    """,
)
@_sandbox_id
@argument("remote", metavar="REMOTE", help="A file or folder in the sandbox.")
@argument(
    "local",
    type=FilePath(),
    metavar="LOCAL",
    help="Where it goes; a file into it when it is a folder.",
)
@_skip
@_verify
@output_option
@pass_session
async def download(
    session: Session, sandbox_id: str, remote: str, local: Path, skip: bool, verify: bool
) -> None:
    """Read a file or folder out of a sandbox.

    A file appears when it is whole. A folder's content goes below LOCAL; nothing is written outside
    of it. JSON as that of upload.
    """
    into = await to_thread.run_sync(local.is_dir)
    target = local / posixpath.basename(remote.rstrip("/")) if into else local
    async with session.sandboxes() as client:
        with transfer_progress(session.output, posixpath.basename(remote)) as progress:
            tree = await _fetch(client, sandbox_id, remote, (target, local), progress, verify)
    if tree is not None:
        _report_tree(session, str(local), tree, skip=skip)
    else:
        _report_file(session, str(target), target.stat().st_size)


async def _fetch(
    client: AsyncSandboxClient,
    sandbox_id: str,
    remote: str,
    targets: tuple[Path, Path],
    progress: Any,
    verify: bool,
) -> TreeTransfer | None:
    """Read a file to the first target, or what turns out to be a folder to the second."""
    from prime_async.errors import APIError

    try:
        await client.download_file(sandbox_id, remote, targets[0], progress=progress, verify=verify)
    except APIError:
        if not await _is_folder(client, sandbox_id, remote):
            raise
        return await client.download_tree(sandbox_id, remote, targets[1], progress=progress)
    return None


async def _is_folder(client: AsyncSandboxClient, sandbox_id: str, path: str) -> bool:
    from prime_async.errors import PrimeError

    try:
        await client.list_files(sandbox_id, path)
    except PrimeError:  # the first error says more than this one
        return False
    return True


def _report_file(session: Session, path: str, size: int) -> None:
    if session.output.json:
        session.output.document({"path": path, "size": size})
    else:
        session.output.fields([("path", path), ("size", f"{size:,} bytes")])


def _report_tree(session: Session, path: str, tree: TreeTransfer, *, skip: bool) -> None:
    skipped = [{"path": entry.path, "reason": entry.reason} for entry in tree.skipped]
    facts = {
        "path": path,
        "files": tree.files,
        "directories": tree.directories,
        "links": tree.links,
        "size": tree.size,
    }
    if session.output.json:
        session.output.document({**facts, "skipped": skipped})
    else:
        session.output.fields([*facts.items(), ("skipped", len(skipped))])
    if not skipped:
        return
    lines = [f"{entry['path']}: {entry['reason']}" for entry in skipped[:_SHOWN]]
    if len(skipped) > _SHOWN:
        lines.append(f"and {len(skipped) - _SHOWN} more")
    text = f"{len(skipped)} entries were left out\n" + "\n".join(lines)
    if not skip:
        raise CommandError(text, hint="all else is there; --skip accepts this", path=path)
    session.output.warn(text)


@command(
    "files",
    examples="prime-async sandbox files ID /app --recursive",
)
@_sandbox_id
@argument(
    "folder", default="/app", required=False, metavar="[FOLDER]", help="Which; /app by default."
)
@asyncclick.option("--recursive", is_flag=True, help="What is in its folders too.")
@output_option
@pass_session
async def files(session: Session, sandbox_id: str, folder: str, recursive: bool) -> None:
    """List what is in a folder of a sandbox.

    JSON: {"path", "files": [{"path", "type", "size", "mode", "modified_at", "target"}]}.
    """
    async with session.sandboxes() as client:
        found = await client.list_files(sandbox_id, folder, recursive=recursive)
    if session.output.json:
        session.output.document({"path": folder, "files": found})
    elif found:
        session.output.table([file_row(entry) for entry in found], FILES)
    else:
        session.output.note(f"{folder} is empty")
