"""What lies in a sandbox's folders, asked of the gateway or, where it cannot tell, of `find`."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import msgspec

from prime_async.errors import APIError, ProtocolError, SandboxFileNotFoundError
from prime_async.requests import read_record
from prime_async.sandboxes.commands import CommandOptions
from prime_async.sandboxes.downloads import raise_file_error
from prime_async.sandboxes.gateway import Gateway, Link
from prime_async.sandboxes.models import CommandResponse, FileInfo
from prime_async.sandboxes.running import execute
from prime_async.transport import Response

__all__ = ["FILE_INFO", "digest_in_sandbox", "list_folder", "run_tool"]

FILE_INFO = "file-info"

_FORMAT = r"%y\0%s\0%m\0%T@\0%p\0%l\0"
_FIELDS = 6
_TYPES = {"f": "file", "d": "directory", "l": "symlink"}
_NO_FOLDER = 44


async def list_folder(
    gateway: Gateway, sandbox_id: str, path: str, *, recursive: bool
) -> AsyncGenerator[FileInfo, None]:
    """Yield what is in a folder, sorted by path within each folder.

    Raises:
        SandboxFileNotFoundError: there is no such folder.
    """
    if not await gateway.has(FILE_INFO):
        for entry in await _find(gateway, sandbox_id, path, recursive=recursive):
            yield entry
        return
    for line in (await _ask(gateway, sandbox_id, path, recursive=recursive)).splitlines():
        try:
            yield FileInfo.from_wire(msgspec.json.decode(line))
        except (msgspec.MsgspecError, AttributeError) as error:
            raise ProtocolError(f"the gateway's list of {path!r} is broken ({error})") from error


async def _ask(gateway: Gateway, sandbox_id: str, path: str, *, recursive: bool) -> bytes:
    async def send(link: Link) -> Response:
        return await link.transport.request(
            "GET",
            f"{link.path}/list-files",
            params={"path": path, "sandbox_id": sandbox_id, "recursive": recursive},
            headers=link.headers,
        )

    try:
        return (await gateway.call(sandbox_id, send)).body
    except APIError as error:
        raise_file_error(error, path)


async def _find(gateway: Gateway, sandbox_id: str, path: str, *, recursive: bool) -> list[FileInfo]:
    # A path cannot be taken for an option when it begins with a dot or a slash.
    quoted = shlex.quote(path if path.startswith("/") else f"./{path}")
    depth = "" if recursive else "-maxdepth 1"
    command = f"[ -d {quoted} ] || exit {_NO_FOLDER}; "
    command += f"find {quoted}/ -mindepth 1 {depth} -printf {shlex.quote(_FORMAT)}"
    answer = await run_tool(gateway, sandbox_id, command)
    if answer.exit_code == _NO_FOLDER:
        raise SandboxFileNotFoundError(f"there is no folder {path!r} in the sandbox", status=404)
    if answer.exit_code or answer.truncated:
        raise APIError(f"the folder {path!r} cannot be listed: {answer.stderr.strip()}")
    fields = answer.stdout_bytes.split(b"\0")[:-1]
    rows = [fields[start : start + _FIELDS] for start in range(0, len(fields), _FIELDS)]
    return sorted((_entry(row) for row in rows), key=lambda entry: entry.path.split("/"))


def _entry(row: list[bytes]) -> FileInfo:
    kind, size, mode, moment, path, target = (field.decode("utf-8", "replace") for field in row)
    modified = datetime.fromtimestamp(float(moment), UTC)
    return FileInfo(
        path=path.replace("//", "/"),
        type=_TYPES.get(kind, "other"),
        size=int(size),
        mode=int(mode, 8),
        modified_at=modified.isoformat(),
        target=target or None,
    )


async def digest_in_sandbox(gateway: Gateway, sandbox_id: str, path: str) -> str:
    """Return the SHA-256 of a file in a sandbox.

    Raises:
        APIError: it cannot be told.
    """

    async def send(link: Link) -> Response:
        return await link.transport.request(
            "GET",
            f"{link.path}/file-info",
            params={"path": path, "sandbox_id": sandbox_id, "digest": "sha256"},
            headers=link.headers,
        )

    if await gateway.has(FILE_INFO):
        info = read_record(await gateway.call(sandbox_id, send), FileInfo)
        if info.sha256:
            return info.sha256.lower()
    command = f"sha256sum < {shlex.quote(path if path.startswith('/') else f'./{path}')}"
    answer = await run_tool(gateway, sandbox_id, command)
    if answer.exit_code:
        raise APIError(f"the checksum of {path!r} cannot be told: {answer.stderr.strip()}")
    return answer.stdout.split()[0]


async def run_tool(gateway: Gateway, sandbox_id: str, command: str) -> CommandResponse:
    """Run a small command of ours in a sandbox."""
    options = CommandOptions.checked(command, None, {"LC_ALL": "C"}, None, None)
    return await execute(gateway, sandbox_id, options, None)
