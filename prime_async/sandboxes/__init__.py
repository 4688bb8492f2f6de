"""Sandboxes: the client, what they are made from, and what comes back."""

from typing import TYPE_CHECKING

from prime_async._lazy import lazy_exports

if TYPE_CHECKING:
    from prime_async.sandboxes.access import (
        AsyncSandboxAccess as AsyncSandboxAccess,
    )
    from prime_async.sandboxes.checkpoint_models import (
        BatchCheckpointResponse as BatchCheckpointResponse,
    )
    from prime_async.sandboxes.checkpoint_models import (
        CheckpointDeleteError as CheckpointDeleteError,
    )
    from prime_async.sandboxes.checkpoint_models import (
        CheckpointLookupError as CheckpointLookupError,
    )
    from prime_async.sandboxes.checkpoint_models import (
        DeleteSandboxCheckpointsResponse as DeleteSandboxCheckpointsResponse,
    )
    from prime_async.sandboxes.checkpoint_models import (
        SandboxCheckpoint as SandboxCheckpoint,
    )
    from prime_async.sandboxes.checkpoint_models import (
        Volume as Volume,
    )
    from prime_async.sandboxes.checkpoint_models import (
        VolumeListResponse as VolumeListResponse,
    )
    from prime_async.sandboxes.checkpoints import (
        AsyncSandboxCheckpoints as AsyncSandboxCheckpoints,
    )
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
    from prime_async.sandboxes.job_models import (
        BackgroundJobLookupError as BackgroundJobLookupError,
    )
    from prime_async.sandboxes.job_models import (
        BackgroundJobStatusSnapshot as BackgroundJobStatusSnapshot,
    )
    from prime_async.sandboxes.job_models import (
        BatchBackgroundJobStatusResponse as BatchBackgroundJobStatusResponse,
    )
    from prime_async.sandboxes.jobs.client import (
        AsyncSandboxJobs as AsyncSandboxJobs,
    )
    from prime_async.sandboxes.jobs.models import (
        BackgroundJob as BackgroundJob,
    )
    from prime_async.sandboxes.jobs.models import (
        BackgroundJobInfo as BackgroundJobInfo,
    )
    from prime_async.sandboxes.jobs.models import (
        BackgroundJobStatus as BackgroundJobStatus,
    )
    from prime_async.sandboxes.jobs.models import (
        JobOutputChunk as JobOutputChunk,
    )
    from prime_async.sandboxes.jobs.stats import (
        BackgroundJobStats as BackgroundJobStats,
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
    from prime_async.sandboxes.network_models import (
        ExposedPort as ExposedPort,
    )
    from prime_async.sandboxes.network_models import (
        LanNetwork as LanNetwork,
    )
    from prime_async.sandboxes.network_models import (
        LanNetworkMember as LanNetworkMember,
    )
    from prime_async.sandboxes.network_models import (
        LanRule as LanRule,
    )
    from prime_async.sandboxes.network_models import (
        ListExposedPortsResponse as ListExposedPortsResponse,
    )
    from prime_async.sandboxes.network_models import (
        SSHSession as SSHSession,
    )
    from prime_async.sandboxes.networks import (
        AsyncSandboxNetworks as AsyncSandboxNetworks,
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
    from prime_async.sandboxes.volumes import (
        AsyncVolumes as AsyncVolumes,
    )

__all__ = [
    "AsyncCommandStream",
    "AsyncProcessStream",
    "AsyncSandboxAccess",
    "AsyncSandboxCheckpoints",
    "AsyncSandboxClient",
    "AsyncSandboxCommands",
    "AsyncSandboxControl",
    "AsyncSandboxFiles",
    "AsyncSandboxJobs",
    "AsyncSandboxNetworks",
    "AsyncSandboxProcess",
    "AsyncVolumes",
    "BackgroundJob",
    "BackgroundJobInfo",
    "BackgroundJobLookupError",
    "BackgroundJobStats",
    "BackgroundJobStatus",
    "BackgroundJobStatusSnapshot",
    "BatchBackgroundJobStatusResponse",
    "BatchCheckpointResponse",
    "BatchSandboxStatusResponse",
    "BulkDeleteSandboxResponse",
    "CheckpointDeleteError",
    "CheckpointLookupError",
    "CommandResponse",
    "CreateSandboxRequest",
    "DeleteSandboxCheckpointsResponse",
    "EgressPolicyStatus",
    "ErrorContext",
    "ExposedPort",
    "FileInfo",
    "FileUploadResponse",
    "JobOutputChunk",
    "LanNetwork",
    "LanNetworkMember",
    "LanRule",
    "ListExposedPortsResponse",
    "OutputLine",
    "PartialOutput",
    "ReadFileResponse",
    "SSHSession",
    "Sandbox",
    "SandboxCheckpoint",
    "SandboxEgressPolicy",
    "SandboxListResponse",
    "SandboxStatus",
    "SandboxStatusLookupError",
    "SandboxStatusSnapshot",
    "SkippedEntry",
    "StartCommand",
    "TransferProgress",
    "TreeTransfer",
    "Volume",
    "VolumeListResponse",
    "VolumeMount",
    "partial_output",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AsyncCommandStream": "prime_async.sandboxes.command_stream",
        "AsyncProcessStream": "prime_async.sandboxes.processes",
        "AsyncSandboxAccess": "prime_async.sandboxes.access",
        "AsyncSandboxCheckpoints": "prime_async.sandboxes.checkpoints",
        "AsyncSandboxClient": "prime_async.sandboxes.client",
        "AsyncSandboxCommands": "prime_async.sandboxes.execution",
        "AsyncSandboxControl": "prime_async.sandboxes.control",
        "AsyncSandboxFiles": "prime_async.sandboxes.storage",
        "AsyncSandboxJobs": "prime_async.sandboxes.jobs.client",
        "AsyncSandboxNetworks": "prime_async.sandboxes.networks",
        "AsyncSandboxProcess": "prime_async.sandboxes.processes",
        "AsyncVolumes": "prime_async.sandboxes.volumes",
        "BackgroundJob": "prime_async.sandboxes.jobs.models",
        "BackgroundJobInfo": "prime_async.sandboxes.jobs.models",
        "BackgroundJobLookupError": "prime_async.sandboxes.job_models",
        "BackgroundJobStats": "prime_async.sandboxes.jobs.stats",
        "BackgroundJobStatus": "prime_async.sandboxes.jobs.models",
        "BackgroundJobStatusSnapshot": "prime_async.sandboxes.job_models",
        "BatchBackgroundJobStatusResponse": "prime_async.sandboxes.job_models",
        "BatchCheckpointResponse": "prime_async.sandboxes.checkpoint_models",
        "BatchSandboxStatusResponse": "prime_async.sandboxes.models",
        "BulkDeleteSandboxResponse": "prime_async.sandboxes.models",
        "CheckpointDeleteError": "prime_async.sandboxes.checkpoint_models",
        "CheckpointLookupError": "prime_async.sandboxes.checkpoint_models",
        "CommandResponse": "prime_async.sandboxes.models",
        "CreateSandboxRequest": "prime_async.sandboxes.requests",
        "DeleteSandboxCheckpointsResponse": "prime_async.sandboxes.checkpoint_models",
        "EgressPolicyStatus": "prime_async.sandboxes.models",
        "ErrorContext": "prime_async.sandboxes.models",
        "ExposedPort": "prime_async.sandboxes.network_models",
        "FileInfo": "prime_async.sandboxes.models",
        "FileUploadResponse": "prime_async.sandboxes.models",
        "JobOutputChunk": "prime_async.sandboxes.jobs.models",
        "LanNetwork": "prime_async.sandboxes.network_models",
        "LanNetworkMember": "prime_async.sandboxes.network_models",
        "LanRule": "prime_async.sandboxes.network_models",
        "ListExposedPortsResponse": "prime_async.sandboxes.network_models",
        "OutputLine": "prime_async.sandboxes.output",
        "PartialOutput": "prime_async.sandboxes.commands",
        "ReadFileResponse": "prime_async.sandboxes.models",
        "SSHSession": "prime_async.sandboxes.network_models",
        "Sandbox": "prime_async.sandboxes.models",
        "SandboxCheckpoint": "prime_async.sandboxes.checkpoint_models",
        "SandboxEgressPolicy": "prime_async.sandboxes.models",
        "SandboxListResponse": "prime_async.sandboxes.models",
        "SandboxStatus": "prime_async.sandboxes.models",
        "SandboxStatusLookupError": "prime_async.sandboxes.models",
        "SandboxStatusSnapshot": "prime_async.sandboxes.models",
        "SkippedEntry": "prime_async.sandboxes.treerules",
        "StartCommand": "prime_async.sandboxes.requests",
        "TransferProgress": "prime_async.sandboxes.pace",
        "TreeTransfer": "prime_async.sandboxes.treerules",
        "Volume": "prime_async.sandboxes.checkpoint_models",
        "VolumeListResponse": "prime_async.sandboxes.checkpoint_models",
        "VolumeMount": "prime_async.sandboxes.requests",
        "partial_output": "prime_async.sandboxes.commands",
    },
)
