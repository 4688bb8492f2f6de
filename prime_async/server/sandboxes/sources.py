"""What a sandbox is made from: an image, or a checkpoint; and the volumes it mounts."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sqlalchemy import Connection

from prime_async.sandboxes.requests import CreateSandboxRequest, VolumeMount
from prime_async.server.endpoints import Call
from prime_async.server.failures import RequestError, invalid
from prime_async.server.runtimes.protocol import Mount
from prime_async.server.store import checkpoints, volumes
from prime_async.server.store.volumes import StoredMount

__all__ = ["Source", "find_mounts", "find_source", "require_source"]

_GIB = 1024**3
_DEFAULT_DISK_GB = 5.0
_VOLUMES = 16
_LONGEST_PATH = 255
_TAKEN = (
    "/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys",
    "/usr", "/.prime",
)  # fmt: skip
"""The platform's own places, and all below them."""

_WHOLE = ("/", "/tmp", "/var")  # noqa: S108  # the sandbox's own
"""Places that a sandbox needs for itself; folders below them are free."""


@dataclass(frozen=True, slots=True)
class Source:
    """What the private root of a sandbox is filled from.

    Attributes:
        image, disk_gb: as asked for, or those of the checkpoint.
        checkpoint_id: the checkpoint, or None.
        archive: its files.
    """

    image: str
    disk_gb: float
    checkpoint_id: str | None = None
    archive: Path | None = None


def find_source(call: Call, body: CreateSandboxRequest) -> Source:
    """Find what a request names.

    Raises:
        RequestError: 404, there is no such checkpoint; 409, it is not durable.
    """
    if body.checkpoint_id is None:
        assert body.docker_image is not None, "checked by the model"
        return Source(body.docker_image, body.disk_size_gb or _DEFAULT_DISK_GB)
    wanted, caller = body.checkpoint_id, call.caller
    row = call.platform.database.point(lambda reader: checkpoints.find(reader, wanted, caller))
    if row is None:
        raise RequestError(404, "checkpoint_not_found", f"no checkpoint {wanted}")
    if row["volume_id"] is not None:
        raise RequestError(
            409, "checkpoint_of_volume", f"checkpoint {wanted} is a version of a volume: mount that"
        )
    archive = call.platform.sandboxes.checkpoints.archive(wanted)
    return Source(row["docker_image"], row["disk_size_bytes"] / _GIB, wanted, archive)


def require_source(connection: Connection, source: Source) -> None:
    """Make sure, in the transaction that makes the sandbox, that its checkpoint is whole.

    Raises:
        RequestError: 409.
    """
    if source.checkpoint_id is None:
        return
    row = checkpoints.find_any(connection, source.checkpoint_id)
    state = "DELETING" if row is None else row["state"]
    if state != "DURABLE":
        raise RequestError(
            409,
            "checkpoint_not_durable",
            f"checkpoint {source.checkpoint_id} is {state}: only a DURABLE one can be restored",
        )


def find_mounts(
    connection: Connection, scope: str, sandbox_id: str, wanted: list[VolumeMount], folder: Path
) -> tuple[list[StoredMount], tuple[Mount, ...]]:
    """Find the volumes of a request, by name in the team or account: what is stored of them, and
    what the runtime mounts.

    Args:
        folder: of all volumes.

    Raises:
        RequestError: 404, there is no such volume; 422, nothing can be mounted there.
    """
    if len(wanted) > _VOLUMES:
        raise invalid(["body", "volumes"], f"at most {_VOLUMES}")
    paths = [_mount_path(one, index) for index, one in enumerate(wanted)]
    _refuse_overlaps(paths)
    stored: list[StoredMount] = []
    mounts: list[Mount] = []
    for one, path in zip(wanted, paths, strict=True):
        row = volumes.find(connection, scope, one.name)
        if row is None:
            raise RequestError(404, "volume_not_found", f"no volume {one.name!r}")
        base = row["head_checkpoint_id"]
        stored.append(StoredMount(sandbox_id, path, row["id"], one.read_only, base))
        mounts.append(Mount(folder / row["id"], path, one.read_only))
    return stored, tuple(mounts)


def _mount_path(mount: VolumeMount, index: int) -> str:
    given = mount.mount_path
    path = PurePosixPath(given)
    where: list[str | int] = ["body", "volumes", index, "mount_path"]
    if not given.startswith("/") or ".." in path.parts or len(given) > _LONGEST_PATH:
        raise invalid(
            where, f"an absolute path without .. and of at most {_LONGEST_PATH} characters"
        )
    whole = "/" + str(path).lstrip("/")
    taken = (*_TAKEN, str(Path(sys.base_prefix).resolve()))
    if whole in _WHOLE or any(_below(whole, one) or _below(one, whole) for one in taken):
        raise invalid(where, f"{whole} is the platform's own; take a folder such as /data")
    return whole


def _refuse_overlaps(paths: list[str]) -> None:
    for index, path in enumerate(paths):
        if any(_below(path, one) or _below(one, path) for one in paths[:index]):
            raise invalid(
                ["body", "volumes", index, "mount_path"], f"{path} lies in another volume's folder"
            )


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
