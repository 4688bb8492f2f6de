"""Sandboxes: the client, what they are made from, and what comes back."""

from typing import TYPE_CHECKING

from prime_async._lazy import lazy_exports

if TYPE_CHECKING:
    from prime_async.sandboxes.client import (
        AsyncSandboxClient as AsyncSandboxClient,
    )
    from prime_async.sandboxes.command_stream import (
        AsyncCommandStream as AsyncCommandStream,
    )
    from prime_async.sandboxes.commands import (
        PartialOutput as PartialOutput,
    )
    from prime_async.sandboxes.commands import (
        partial_output as partial_output,
    )
    from prime_async.sandboxes.control import (
        AsyncSandboxControl as AsyncSandboxControl,
    )
    from prime_async.sandboxes.execution import (
        AsyncSandboxCommands as AsyncSandboxCommands,
    )
    from prime_async.sandboxes.models import (
        BatchSandboxStatusResponse as BatchSandboxStatusResponse,
    )
    from prime_async.sandboxes.models import (
        BulkDeleteSandboxResponse as BulkDeleteSandboxResponse,
    )
    from prime_async.sandboxes.models import (
        CommandResponse as CommandResponse,
    )
    from prime_async.sandboxes.models import (
        EgressPolicyStatus as EgressPolicyStatus,
    )
    from prime_async.sandboxes.models import (
        ErrorContext as ErrorContext,
    )
    from prime_async.sandboxes.models import (
        FileInfo as FileInfo,
    )
    from prime_async.sandboxes.models import (
        FileUploadResponse as FileUploadResponse,
    )
    from prime_async.sandboxes.models import (
        ReadFileResponse as ReadFileResponse,
    )
    from prime_async.sandboxes.models import (
        Sandbox as Sandbox,
    )
    from prime_async.sandboxes.models import (
        SandboxEgressPolicy as SandboxEgressPolicy,
    )
    from prime_async.sandboxes.models import (
        SandboxListResponse as SandboxListResponse,
    )
    from prime_async.sandboxes.models import (
        SandboxStatus as SandboxStatus,
    )
    from prime_async.sandboxes.models import (
        SandboxStatusLookupError as SandboxStatusLookupError,
    )
    from prime_async.sandboxes.models import (
        SandboxStatusSnapshot as SandboxStatusSnapshot,
    )
    from prime_async.sandboxes.output import (
        OutputLine as OutputLine,
    )
    from prime_async.sandboxes.pace import (
        TransferProgress as TransferProgress,
    )
    from prime_async.sandboxes.processes import (
        AsyncProcessStream as AsyncProcessStream,
    )
    from prime_async.sandboxes.processes import (
        AsyncSandboxProcess as AsyncSandboxProcess,
    )
    from prime_async.sandboxes.requests import (
        CreateSandboxRequest as CreateSandboxRequest,
    )
    from prime_async.sandboxes.requests import (
        StartCommand as StartCommand,
    )
    from prime_async.sandboxes.requests import (
        VolumeMount as VolumeMount,
    )
    from prime_async.sandboxes.storage import (
        AsyncSandboxFiles as AsyncSandboxFiles,
    )
    from prime_async.sandboxes.treerules import (
        SkippedEntry as SkippedEntry,
    )
    from prime_async.sandboxes.treerules import (
        TreeTransfer as TreeTransfer,
    )

__all__ = [
    "AsyncCommandStream",
    "AsyncProcessStream",
    "AsyncSandboxClient",
    "AsyncSandboxCommands",
    "AsyncSandboxControl",
    "AsyncSandboxFiles",
    "AsyncSandboxProcess",
    "BatchSandboxStatusResponse",
    "BulkDeleteSandboxResponse",
    "CommandResponse",
    "CreateSandboxRequest",
    "EgressPolicyStatus",
    "ErrorContext",
    "FileInfo",
    "FileUploadResponse",
    "OutputLine",
    "PartialOutput",
    "ReadFileResponse",
    "Sandbox",
    "SandboxEgressPolicy",
    "SandboxListResponse",
    "SandboxStatus",
    "SandboxStatusLookupError",
    "SandboxStatusSnapshot",
    "SkippedEntry",
    "StartCommand",
    "TransferProgress",
    "TreeTransfer",
    "VolumeMount",
    "partial_output",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AsyncCommandStream": "prime_async.sandboxes.command_stream",
        "AsyncProcessStream": "prime_async.sandboxes.processes",
        "AsyncSandboxClient": "prime_async.sandboxes.client",
        "AsyncSandboxCommands": "prime_async.sandboxes.execution",
        "AsyncSandboxControl": "prime_async.sandboxes.control",
        "AsyncSandboxFiles": "prime_async.sandboxes.storage",
        "AsyncSandboxProcess": "prime_async.sandboxes.processes",
        "BatchSandboxStatusResponse": "prime_async.sandboxes.models",
        "BulkDeleteSandboxResponse": "prime_async.sandboxes.models",
        "CommandResponse": "prime_async.sandboxes.models",
        "CreateSandboxRequest": "prime_async.sandboxes.requests",
        "EgressPolicyStatus": "prime_async.sandboxes.models",
        "ErrorContext": "prime_async.sandboxes.models",
        "FileInfo": "prime_async.sandboxes.models",
        "FileUploadResponse": "prime_async.sandboxes.models",
        "OutputLine": "prime_async.sandboxes.output",
        "PartialOutput": "prime_async.sandboxes.commands",
        "ReadFileResponse": "prime_async.sandboxes.models",
        "Sandbox": "prime_async.sandboxes.models",
        "SandboxEgressPolicy": "prime_async.sandboxes.models",
        "SandboxListResponse": "prime_async.sandboxes.models",
        "SandboxStatus": "prime_async.sandboxes.models",
        "SandboxStatusLookupError": "prime_async.sandboxes.models",
        "SandboxStatusSnapshot": "prime_async.sandboxes.models",
        "SkippedEntry": "prime_async.sandboxes.treerules",
        "StartCommand": "prime_async.sandboxes.requests",
        "TransferProgress": "prime_async.sandboxes.pace",
        "TreeTransfer": "prime_async.sandboxes.treerules",
        "VolumeMount": "prime_async.sandboxes.requests",
        "partial_output": "prime_async.sandboxes.commands",
    },
)
