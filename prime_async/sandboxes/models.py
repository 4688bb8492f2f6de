"""Wire models of the sandboxes API. Both the client and the embedded platform use them; no I/O
here.

Field names are ours (snake_case); the platform spells some in camelCase, and either is read. Keys
that a model does not know stay readable by key (see :class:`~prime_async.models.Record`).
"""

from __future__ import annotations

import enum
from typing import Any, Self

from msgspec import field

from prime_async.models import Record

__all__ = [
    "BatchAccessResponse",
    "BatchSandboxStatusResponse",
    "BulkDeleteSandboxResponse",
    "CommandResponse",
    "ENDED_STATUSES",
    "EgressPolicyStatus",
    "ErrorContext",
    "FileInfo",
    "FileUploadResponse",
    "GatewayAccess",
    "ReadFileResponse",
    "Sandbox",
    "SandboxEgressPolicy",
    "SandboxAccess",
    "SandboxListResponse",
    "SandboxStatus",
    "SandboxStatusLookupError",
    "SandboxStatusSnapshot",
]


class SandboxStatus(enum.StrEnum):
    """The statuses known to this version; models hold plain text, so that others may appear."""

    PENDING = "PENDING"
    PROVISIONING = "PROVISIONING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    ERROR = "ERROR"
    TERMINATED = "TERMINATED"
    TIMEOUT = "TIMEOUT"


ENDED_STATUSES = frozenset({"ERROR", "TERMINATED", "TIMEOUT"})
"""Statuses that never change again."""


class Sandbox(Record):
    """One sandbox.

    Attributes:
        id: the platform's id.
        status: see :class:`SandboxStatus`; other text may appear.
        vm: True when commands run in a virtual machine, False in a container.
        cpu_cores, memory_gb, disk_size_gb: its limits.
        timeout_minutes: its whole lifetime; ``idle_timeout_minutes`` without a command.
        environment_vars, secrets: as created; secrets are masked by the platform.
        error_type: why it ended, such as ``OOM_KILLED``, with ``error_message`` in words.
        created_at, updated_at, started_at, terminated_at: ISO 8601 text, as sent.
        pending_image_build_id: the image build it waits for, or None.
    """

    id: str
    name: str | None = None
    docker_image: str | None = None
    start_command: dict[str, Any] | str | None = None
    cpu_cores: float | None = None
    memory_gb: float | None = field(default=None, name="memoryGB")
    disk_size_gb: float | None = field(default=None, name="diskSizeGB")
    disk_mount_path: str | None = None
    gpu_count: int = 0
    gpu_type: str | None = None
    vm: bool = True
    network_allowlist: list[str] | None = None
    network_denylist: list[str] | None = None
    status: str = "PENDING"
    timeout_minutes: int | None = None
    idle_timeout_minutes: int | None = None
    termination_reason: str | None = None
    environment_vars: dict[str, Any] | None = None
    secrets: dict[str, Any] | None = None
    advanced_configs: dict[str, Any] | None = None
    labels: list[str] = field(default_factory=list)
    created_at: str | None = None
    updated_at: str | None = None
    started_at: str | None = None
    terminated_at: str | None = None
    exit_code: int | None = None
    error_type: str | None = None
    error_message: str | None = None
    user_id: str | None = None
    team_id: str | None = None
    region: str | None = None
    pending_image_build_id: str | None = None


class SandboxListResponse(Record):
    """One page of sandboxes; ``page`` counts from 1, ``total`` counts all."""

    sandboxes: list[Sandbox] = field(default_factory=list)
    total: int = 0
    page: int = 1
    per_page: int = field(default=50, name="perPage")
    has_next: bool = field(default=False, name="hasNext")


class SandboxStatusSnapshot(Record):
    """The status of one sandbox at one moment."""

    sandbox_id: str
    status: str
    error_type: str | None = None
    error_message: str | None = None
    pending_image_build_id: str | None = None


class SandboxStatusLookupError(Record):
    """Why the status of one sandbox cannot be told: ``code`` is NOT_FOUND, FORBIDDEN or MANAGED."""

    sandbox_id: str
    code: str = "NOT_FOUND"
    message: str = ""


class BatchSandboxStatusResponse(Record):
    """The statuses of many sandboxes: those that are known, and an error for each other one."""

    statuses: list[SandboxStatusSnapshot] = field(default_factory=list)
    errors: list[SandboxStatusLookupError] = field(default_factory=list)


class BulkDeleteSandboxResponse(Record):
    """What became of a bulk delete: the ids that are gone, and ``{id: reason}`` for the others."""

    succeeded: list[str] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    message: str = ""


class ErrorContext(Record):
    """Why a sandbox is not well; all fields are None when the platform does not tell."""

    status: str | None = None
    error_type: str | None = None
    error_message: str | None = None


class GatewayAccess(Record):
    """Where a sandbox is reached, and the token for it.

    Attributes:
        gateway_url, user_ns, job_id: parts of its address.
        token: short-lived and for this sandbox only; never shown.
        expires_at: ISO 8601; without a zone it is UTC.
        is_vm: False for a container, None when the platform does not tell.
    """

    gateway_url: str
    user_ns: str
    job_id: str
    token: str
    expires_at: str
    is_vm: bool | None = None

    def __repr__(self) -> str:
        return f"GatewayAccess(gateway_url={self.gateway_url!r}, expires_at={self.expires_at!r})"


class SandboxAccess(GatewayAccess, kw_only=True):
    """The access to one of several sandboxes."""

    sandbox_id: str


class BatchAccessResponse(Record):
    """The access to many sandboxes: to those that there are, and an error for each other one."""

    accesses: list[SandboxAccess] = field(default_factory=list)
    errors: list[SandboxStatusLookupError] = field(default_factory=list)


class FileUploadResponse(Record):
    """An upload that arrived: the path it has in the sandbox and its size in bytes.

    Attributes:
        sha256: the platform's checksum, where it was asked for.
    """

    success: bool = True
    path: str = ""
    size: int = 0
    timestamp: str | None = None
    sha256: str | None = None


class ReadFileResponse(Record):
    """The text of a file, or of a window of it.

    Attributes:
        content: the text; bytes that are not UTF-8 are replaced.
        size: bytes of the content.
        total_size: bytes of the whole file, where the platform tells.
        offset: where the window begins; truncated: whether the file goes on after it.
    """

    content: str = ""
    size: int = 0
    total_size: int | None = None
    offset: int | None = None
    truncated: bool | None = None


class FileInfo(Record):
    """What is at a path of a sandbox.

    Attributes:
        path: absolute; bytes that are not UTF-8 are replaced.
        type: ``file``, ``directory``, ``symlink`` or ``other``.
        mode: permission bits.
        modified_at: ISO 8601.
        target: where a link points.
        sha256: checksum of a file, where it was asked for.
        path_base64: the exact path where it is not UTF-8.
    """

    path: str
    type: str = "file"
    size: int = 0
    mode: int = 0
    modified_at: str | None = None
    target: str | None = None
    sha256: str | None = None
    path_base64: str | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]


class SandboxEgressPolicy(Record):
    """What a sandbox may reach: the hosts of an allow list, or all but those of a deny list."""

    allowlist: list[str] | None = None
    denylist: list[str] | None = None


class EgressPolicyStatus(Record):
    """A policy and whether it is in force: ``applied_generation`` is -1 before the first one is."""

    policy: SandboxEgressPolicy
    generation: int = 0
    applied_generation: int = -1
    applied: bool = False


class CommandResponse(Record):
    """What a command wrote, and its exit code (128 + N where signal N ended it, as a shell has it).

    The texts are the bytes decoded as UTF-8, what is none replaced by U+FFFD. Output beyond
    ``max_output_bytes`` is cut at its beginning, and marked.

    Attributes:
        stdout_truncated, stderr_truncated: whether the beginning is missing.
        stdout_size, stderr_size: bytes the command wrote.
        elapsed: seconds it took, as seen from here.
    """

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    stdout_size: int = 0
    stderr_size: int = 0
    elapsed: float = 0.0

    @property
    def truncated(self) -> bool:
        """Whether anything is missing."""
        return self.stdout_truncated or self.stderr_truncated

    @property
    def stdout_bytes(self) -> bytes:
        """The exact bytes behind ``stdout``."""
        exact: bytes | None = self.__dict__.get("_stdout")
        return self.stdout.encode() if exact is None else exact

    @property
    def stderr_bytes(self) -> bytes:
        """The exact bytes behind ``stderr``."""
        exact: bytes | None = self.__dict__.get("_stderr")
        return self.stderr.encode() if exact is None else exact

    def with_bytes(self, stdout: bytes, stderr: bytes) -> Self:
        """Keep the exact bytes with the texts."""
        self.__dict__.update(_stdout=stdout, _stderr=stderr)
        return self
