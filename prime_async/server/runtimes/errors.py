"""What a runtime raises. The gateway turns these into answers; ``code`` is what it says there.

SandboxRuntimeError (PrimeError)           .code
├── RuntimeUnavailableError           .report: this machine cannot run it; why, and the remedy
├── ImageUnknownError                 .image: the catalogue has no such name
├── SandboxStartError                 the sandbox could not be made; nothing of it is left
├── SandboxEndedError                 .reason: it is not running any more
├── CommandRefusedError (ValueError)  .field: refused before anything was started
├── CommandLostError                  what started the command was killed while it ran
├── StdinClosedError                  the command does not read its input any more
└── SandboxFileError                  .path .code: one call on a file of the sandbox
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from prime_async.errors import PrimeError

if TYPE_CHECKING:
    from prime_async.server.runtimes.protocol import EndReason, RuntimeReport

__all__ = [
    "CommandLostError",
    "CommandRefusedError",
    "FileCode",
    "SandboxFileError",
    "ImageUnknownError",
    "SandboxRuntimeError",
    "RuntimeUnavailableError",
    "SandboxEndedError",
    "SandboxStartError",
    "StdinClosedError",
]

FileCode = Literal[
    "not_found",
    "is_directory",
    "not_directory",
    "not_regular",
    "exists",
    "not_empty",
    "denied",
    "bad_path",
    "no_space",
    "too_large",
    "checksum",
    "offset",
    "io",
]
"""Why a call on a file failed. ``checksum`` and ``offset`` are about resumed transfers."""


class SandboxRuntimeError(PrimeError):
    """Root of what runtimes raise.

    Attributes:
        code: stable name of the kind, in lower case with underscores.
    """

    code: str = "runtime_error"


class RuntimeUnavailableError(SandboxRuntimeError):
    """This machine cannot run the runtime; ``report`` says why and what would help."""

    code = "runtime_unavailable"

    def __init__(self, report: RuntimeReport) -> None:
        super().__init__(
            f"the runtime {report.name} cannot run here: {report.reason}", hint=report.remedy
        )
        self.report = report


class ImageUnknownError(SandboxRuntimeError):
    """The catalogue of images has no such name."""

    code = "image_pull_failed"

    def __init__(self, image: str, *, hint: str | None = None) -> None:
        super().__init__(f"no image {image!r} in the catalogue", hint=hint)
        self.image = image


class SandboxStartError(SandboxRuntimeError):
    """A sandbox could not be started; what was made of it has been removed."""

    code = "start_failed"


class SandboxEndedError(SandboxRuntimeError):
    """The sandbox is not running any more; ``reason`` says since when and why."""

    code = "sandbox_ended"

    def __init__(self, sandbox_id: str, reason: EndReason) -> None:
        super().__init__(f"sandbox {sandbox_id} has ended: {reason.message}")
        self.sandbox_id = sandbox_id
        self.reason = reason


class CommandRefusedError(SandboxRuntimeError, ValueError):
    """A command was refused before anything was started.

    Attributes:
        field: what is wrong: ``argv``, ``environment``, ``working_dir``, ``user``.
    """

    code = "command_refused"

    def __init__(self, message: str, *, field: str, hint: str | None = None) -> None:
        SandboxRuntimeError.__init__(self, message, hint=hint)
        self.field = field


class CommandLostError(SandboxRuntimeError):
    """What started the command was killed while it ran: its exit code will never be known."""

    code = "command_lost"


class StdinClosedError(SandboxRuntimeError):
    """The command has closed its standard input, or has none, or has ended."""

    code = "stdin_closed"


class SandboxFileError(SandboxRuntimeError):
    """A call on a file of the sandbox failed.

    Attributes:
        path: as the caller gave it.
        code: which kind of failure.
    """

    def __init__(self, message: str, *, path: str, code: FileCode, hint: str | None = None) -> None:
        super().__init__(f"{message}: {path!r}", hint=hint)
        self.path = path
        self.code = code
