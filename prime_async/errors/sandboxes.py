"""What goes wrong with sandboxes and what is around them."""

from __future__ import annotations

from prime_async.errors.api import APIError, NotFoundError, PayloadTooLargeError
from prime_async.errors.base import PrimeError

__all__ = [
    "BatchStatusUnsupportedError",
    "CheckpointFailedError",
    "ImageBuildError",
    "LanJoinError",
    "LanJoinTimeoutError",
    "SandboxBulkWaitError",
    "SandboxFileNotFoundError",
    "SandboxFileTooLargeError",
    "SandboxImagePullError",
    "SandboxNotFoundError",
    "SandboxNotRunningError",
    "SandboxOOMError",
    "SandboxTimeoutError",
]


class SandboxNotFoundError(NotFoundError):
    """No sandbox has this id, or it belongs to another account or team.

    Attributes:
        sandbox_id: the id.
    """

    sandbox_id: str | None = None


class SandboxFileNotFoundError(NotFoundError):
    """There is no such file in the sandbox, or it is not a plain file."""


class SandboxFileTooLargeError(PayloadTooLargeError):
    """The file is too large to be read in one answer; download it, or read a window of it."""


class BatchStatusUnsupportedError(APIError):
    """The platform cannot tell the statuses of many sandboxes in one answer."""


class SandboxNotRunningError(PrimeError, RuntimeError):
    """The sandbox has ended, is ending, or cannot be reached.

    Attributes:
        sandbox_id: which one.
        status: its status as far as it is known; ``TERMINATED`` for one that does not exist.
        error_type: why it ended, such as ``OOM_KILLED`` or ``TIMEOUT``; ``SANDBOX_NOT_FOUND`` when
            it does not exist (any more); or None.
        command: the command that was running, or None.
        stdout, stderr, elapsed: what that command had written, and after how many seconds.
    """

    def __init__(
        self,
        sandbox_id: str,
        status: str | None = None,
        error_type: str | None = None,
        command: str | None = None,
        message: str | None = None,
        *,
        hint: str | None = None,
    ) -> None:
        reason = _REASONS.get(error_type or "", error_type)
        if error_type == "SANDBOX_NOT_FOUND" and status is None:
            what = f"there is no sandbox {sandbox_id}"
        else:
            what = f"sandbox {sandbox_id} is not running"
            what += f" (status {status})" if status else ""
            what += f": {reason}" if reason else ""
        what += f"; {message}" if message else ""
        what += f"; while running {command[:50]!r}" if command else ""
        PrimeError.__init__(self, what, hint=hint)
        self.sandbox_id = sandbox_id
        self.status = status or ("TERMINATED" if error_type == "SANDBOX_NOT_FOUND" else None)
        self.error_type = error_type
        self.command = command
        self.stdout = ""
        self.stderr = ""
        self.elapsed: float | None = None


_REASONS = {
    "OOM_KILLED": "it ran out of memory",
    "TIMEOUT": "its time was over",
    "IMAGE_PULL_FAILED": "its image cannot be had",
    "SANDBOX_NOT_FOUND": "it is gone",
    "GATEWAY_REACHABILITY_TIMEOUT": "it was started but could not be reached in time",
}


class SandboxOOMError(SandboxNotRunningError):
    """The sandbox ran out of memory."""


class SandboxTimeoutError(SandboxNotRunningError):
    """The sandbox reached its lifetime."""


class SandboxImagePullError(SandboxNotRunningError):
    """The sandbox's image does not exist or cannot be fetched."""


class SandboxBulkWaitError(PrimeError, RuntimeError):
    """Some of the sandboxes that were waited for cannot be used.

    Attributes:
        failures: the error of each of them, by id.
        statuses: the others.
    """

    def __init__(self, failures: dict[str, PrimeError], statuses: dict[str, str]) -> None:
        shown = [f"{name}: {error}" for name, error in list(failures.items())[:5]]
        more = f"; and {len(failures) - 5} more" if len(failures) > 5 else ""
        total = len(failures) + len(statuses)
        PrimeError.__init__(
            self,
            f"{len(failures)} of {total} sandboxes are not ready: {'; '.join(shown)}{more}",
        )
        self.failures = failures
        self.statuses = statuses


class CheckpointFailedError(PrimeError, RuntimeError):
    """A checkpoint that was waited for failed, or is being deleted.

    Attributes:
        checkpoint_id: which one.
        state: its state, ``FAILED`` or ``DELETING``.
        reason: what the platform says about it, or None.
    """

    def __init__(self, checkpoint_id: str, state: str, reason: str | None = None) -> None:
        what = f"checkpoint {checkpoint_id} does not become durable: it is {state}"
        PrimeError.__init__(self, f"{what}; {reason}" if reason else what)
        self.checkpoint_id = checkpoint_id
        self.state = state
        self.reason = reason


class LanJoinError(PrimeError, RuntimeError):
    """A sandbox runs, but did not become a member of the network that it was to join.

    Attributes:
        sandbox_id, network_id: which one, and where.
    """

    def __init__(
        self, sandbox_id: str, network_id: str, message: str, *, hint: str | None = None
    ) -> None:
        what = f"sandbox {sandbox_id} did not join network {network_id}: {message}"
        PrimeError.__init__(self, what, hint=hint)
        self.sandbox_id = sandbox_id
        self.network_id = network_id


class LanJoinTimeoutError(LanJoinError, TimeoutError):
    """The network did not let a sandbox in in time; waiting for the sandbox again goes on."""


class ImageBuildError(PrimeError, RuntimeError):
    """An image was not built.

    Attributes:
        build_id: which build.
        status: how it ended, ``FAILED`` or ``CANCELLED``.
        reason: what the platform says about it, or None.
    """

    def __init__(self, build_id: str, status: str, reason: str | None = None) -> None:
        what = f"image build {build_id} ended: {status}"
        PrimeError.__init__(self, f"{what}; {reason}" if reason else what)
        self.build_id = build_id
        self.status = status
        self.reason = reason
