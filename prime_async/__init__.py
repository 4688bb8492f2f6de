"""prime_async: evaluations, sandboxes, traces and training, asyncio-first.

Everything public is importable from here and loaded on first use; importing the package opens
nothing and starts nothing.
"""

from prime_async._lazy import lazy_exports

TYPE_CHECKING = False  # see _lazy.py
if TYPE_CHECKING:
    from prime_async._version import (
        __version__ as __version__,
    )
    from prime_async.api import (
        AsyncAPIClient as AsyncAPIClient,
    )
    from prime_async.config import (
        Settings as Settings,
    )
    from prime_async.config import (
        load_settings as load_settings,
    )
    from prime_async.errors import (
        APIConnectionError as APIConnectionError,
    )
    from prime_async.errors import (
        APIError as APIError,
    )
    from prime_async.errors import (
        APITimeoutError as APITimeoutError,
    )
    from prime_async.errors import (
        BackgroundJobsTimeoutError as BackgroundJobsTimeoutError,
    )
    from prime_async.errors import (
        BackgroundJobTimeoutError as BackgroundJobTimeoutError,
    )
    from prime_async.errors import (
        BadRequestError as BadRequestError,
    )
    from prime_async.errors import (
        BatchStatusUnsupportedError as BatchStatusUnsupportedError,
    )
    from prime_async.errors import (
        CheckpointFailedError as CheckpointFailedError,
    )
    from prime_async.errors import (
        CommandTimeoutError as CommandTimeoutError,
    )
    from prime_async.errors import (
        ConfigError as ConfigError,
    )
    from prime_async.errors import (
        ConflictError as ConflictError,
    )
    from prime_async.errors import (
        DownloadTimeoutError as DownloadTimeoutError,
    )
    from prime_async.errors import (
        EnvironmentNotFoundError as EnvironmentNotFoundError,
    )
    from prime_async.errors import (
        EvalsAPIError as EvalsAPIError,
    )
    from prime_async.errors import (
        EvaluationNotFoundError as EvaluationNotFoundError,
    )
    from prime_async.errors import (
        ForbiddenError as ForbiddenError,
    )
    from prime_async.errors import (
        ImageBuildError as ImageBuildError,
    )
    from prime_async.errors import (
        InvalidEvaluationError as InvalidEvaluationError,
    )
    from prime_async.errors import (
        InvalidSampleError as InvalidSampleError,
    )
    from prime_async.errors import (
        LanJoinError as LanJoinError,
    )
    from prime_async.errors import (
        LanJoinTimeoutError as LanJoinTimeoutError,
    )
    from prime_async.errors import (
        LocalPlatformError as LocalPlatformError,
    )
    from prime_async.errors import (
        MethodNotAllowedError as MethodNotAllowedError,
    )
    from prime_async.errors import (
        NotFoundError as NotFoundError,
    )
    from prime_async.errors import (
        NotImplementedByPlatformError as NotImplementedByPlatformError,
    )
    from prime_async.errors import (
        OversizedSamplesError as OversizedSamplesError,
    )
    from prime_async.errors import (
        PartialPushError as PartialPushError,
    )
    from prime_async.errors import (
        PayloadTooLargeError as PayloadTooLargeError,
    )
    from prime_async.errors import (
        PaymentRequiredError as PaymentRequiredError,
    )
    from prime_async.errors import (
        PrimeError as PrimeError,
    )
    from prime_async.errors import (
        PrimeTracesError as PrimeTracesError,
    )
    from prime_async.errors import (
        ProtocolError as ProtocolError,
    )
    from prime_async.errors import (
        RateLimitError as RateLimitError,
    )
    from prime_async.errors import (
        SandboxBulkWaitError as SandboxBulkWaitError,
    )
    from prime_async.errors import (
        SandboxFileNotFoundError as SandboxFileNotFoundError,
    )
    from prime_async.errors import (
        SandboxFileTooLargeError as SandboxFileTooLargeError,
    )
    from prime_async.errors import (
        SandboxImagePullError as SandboxImagePullError,
    )
    from prime_async.errors import (
        SandboxNotFoundError as SandboxNotFoundError,
    )
    from prime_async.errors import (
        SandboxNotRunningError as SandboxNotRunningError,
    )
    from prime_async.errors import (
        SandboxOOMError as SandboxOOMError,
    )
    from prime_async.errors import (
        SandboxTimeoutError as SandboxTimeoutError,
    )
    from prime_async.errors import (
        ServerError as ServerError,
    )
    from prime_async.errors import (
        SpoolError as SpoolError,
    )
    from prime_async.errors import (
        TransportError as TransportError,
    )
    from prime_async.errors import (
        UnauthorizedError as UnauthorizedError,
    )
    from prime_async.errors import (
        UploadTimeoutError as UploadTimeoutError,
    )
    from prime_async.errors import (
        UsageError as UsageError,
    )
    from prime_async.errors import (
        ValidationError as ValidationError,
    )
    from prime_async.errors import (
        ValueEncodingError as ValueEncodingError,
    )
    from prime_async.errors import (
        WrongLoopError as WrongLoopError,
    )
    from prime_async.evals.client import (
        AsyncEvalsClient as AsyncEvalsClient,
    )
    from prime_async.evals.files import (
        FileCheck as FileCheck,
    )
    from prime_async.evals.files import (
        OversizedLine as OversizedLine,
    )
    from prime_async.evals.models import (
        TERMINAL_STATUSES as TERMINAL_STATUSES,
    )
    from prime_async.evals.models import (
        Evaluation as Evaluation,
    )
    from prime_async.evals.models import (
        EvaluationList as EvaluationList,
    )
    from prime_async.evals.models import (
        HostedEvaluation as HostedEvaluation,
    )
    from prime_async.evals.models import (
        ResolvedEnvironment as ResolvedEnvironment,
    )
    from prime_async.evals.models import (
        SamplePage as SamplePage,
    )
    from prime_async.evals.receipts import (
        PushReceipt as PushReceipt,
    )
    from prime_async.evals.receipts import (
        RefusedSample as RefusedSample,
    )
    from prime_async.evals.receipts import (
        ResumeToken as ResumeToken,
    )
    from prime_async.evals.runs import (
        PushedRun as PushedRun,
    )
    from prime_async.evals.sources import (
        check_path as check_path,
    )
    from prime_async.evals.sync import (
        InterruptedPush as InterruptedPush,
    )
    from prime_async.evals.sync import (
        SyncResult as SyncResult,
    )
    from prime_async.evals.sync import (
        interrupted_pushes as interrupted_pushes,
    )
    from prime_async.evals.verifiers import (
        ResultRun as ResultRun,
    )
    from prime_async.evals.verifiers import (
        find_runs as find_runs,
    )
    from prime_async.evals.verifiers import (
        load_run as load_run,
    )
    from prime_async.images.client import (
        AsyncImageClient as AsyncImageClient,
    )
    from prime_async.images.models import (
        BuildImageResponse as BuildImageResponse,
    )
    from prime_async.images.models import (
        BulkBuildImageResponse as BulkBuildImageResponse,
    )
    from prime_async.images.models import (
        ImageArtifactType as ImageArtifactType,
    )
    from prime_async.images.models import (
        ImageBuild as ImageBuild,
    )
    from prime_async.images.models import (
        ImageBuildStatus as ImageBuildStatus,
    )
    from prime_async.images.models import (
        ImageCoordinateState as ImageCoordinateState,
    )
    from prime_async.images.models import (
        ImageListItem as ImageListItem,
    )
    from prime_async.images.models import (
        ImageListResponse as ImageListResponse,
    )
    from prime_async.images.models import (
        ImageMutationError as ImageMutationError,
    )
    from prime_async.images.models import (
        ImageOwner as ImageOwner,
    )
    from prime_async.images.models import (
        ImageOwnerType as ImageOwnerType,
    )
    from prime_async.images.models import (
        ImageUpdateResult as ImageUpdateResult,
    )
    from prime_async.images.models import (
        ImageVisibility as ImageVisibility,
    )
    from prime_async.images.models import (
        PersonalImageOwner as PersonalImageOwner,
    )
    from prime_async.images.models import (
        PlatformImageOwner as PlatformImageOwner,
    )
    from prime_async.images.models import (
        SourceImageBuildResult as SourceImageBuildResult,
    )
    from prime_async.images.models import (
        TeamImageOwner as TeamImageOwner,
    )
    from prime_async.images.models import (
        UpdateImagesResponse as UpdateImagesResponse,
    )
    from prime_async.images.requests import (
        BuildImageRequest as BuildImageRequest,
    )
    from prime_async.images.requests import (
        ImageUpdateItem as ImageUpdateItem,
    )
    from prime_async.images.requests import (
        ImageUpdatePatch as ImageUpdatePatch,
    )
    from prime_async.images.requests import (
        ImageUpdateSource as ImageUpdateSource,
    )
    from prime_async.images.requests import (
        UpdateImagesRequest as UpdateImagesRequest,
    )
    from prime_async.models import (
        Record as Record,
    )
    from prime_async.runs.reading import (
        AsyncRunsClient as AsyncRunsClient,
    )
    from prime_async.runs.run import (
        AsyncRun as AsyncRun,
    )
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
    from prime_async.traces.api import (
        AsyncTracesAPIClient as AsyncTracesAPIClient,
    )
    from prime_async.traces.bulk import (
        AsyncTracesBulkReader as AsyncTracesBulkReader,
    )
    from prime_async.traces.client import (
        AsyncTracesClient as AsyncTracesClient,
    )
    from prime_async.traces.codes import (
        LineFormat as LineFormat,
    )
    from prime_async.traces.connection import (
        AsyncTracesConnection as AsyncTracesConnection,
    )
    from prime_async.traces.errors import (
        TraceTooLargeError as TraceTooLargeError,
    )
    from prime_async.traces.grouping import (
        AsyncTraceRunsReader as AsyncTraceRunsReader,
    )
    from prime_async.traces.models import (
        EpisodeDetail as EpisodeDetail,
    )
    from prime_async.traces.models import (
        EpisodeSummary as EpisodeSummary,
    )
    from prime_async.traces.models import (
        RunSummary as RunSummary,
    )
    from prime_async.traces.models import (
        TraceSummary as TraceSummary,
    )
    from prime_async.traces.models import (
        UploadReceipt as UploadReceipt,
    )
    from prime_async.traces.reading import (
        AsyncTracesReader as AsyncTracesReader,
    )
    from prime_async.traces.receipts import (
        PartialUpload as PartialUpload,
    )
    from prime_async.traces.receipts import (
        UploadReceipts as UploadReceipts,
    )
    from prime_async.traces.receipts import (
        partial_upload as partial_upload,
    )
    from prime_async.transport import (
        RetryPolicy as RetryPolicy,
    )

__all__ = [
    "APIConnectionError",
    "APIError",
    "APITimeoutError",
    "AsyncAPIClient",
    "AsyncCommandStream",
    "AsyncEvalsClient",
    "AsyncImageClient",
    "AsyncProcessStream",
    "AsyncRun",
    "AsyncRunsClient",
    "AsyncSandboxAccess",
    "AsyncSandboxCheckpoints",
    "AsyncSandboxClient",
    "AsyncSandboxCommands",
    "AsyncSandboxControl",
    "AsyncSandboxFiles",
    "AsyncSandboxJobs",
    "AsyncSandboxNetworks",
    "AsyncSandboxProcess",
    "AsyncTraceRunsReader",
    "AsyncTracesAPIClient",
    "AsyncTracesBulkReader",
    "AsyncTracesClient",
    "AsyncTracesConnection",
    "AsyncTracesReader",
    "AsyncVolumes",
    "BackgroundJob",
    "BackgroundJobInfo",
    "BackgroundJobLookupError",
    "BackgroundJobStats",
    "BackgroundJobStatus",
    "BackgroundJobStatusSnapshot",
    "BackgroundJobTimeoutError",
    "BackgroundJobsTimeoutError",
    "BadRequestError",
    "BatchBackgroundJobStatusResponse",
    "BatchCheckpointResponse",
    "BatchSandboxStatusResponse",
    "BatchStatusUnsupportedError",
    "BuildImageRequest",
    "BuildImageResponse",
    "BulkBuildImageResponse",
    "BulkDeleteSandboxResponse",
    "CheckpointDeleteError",
    "CheckpointFailedError",
    "CheckpointLookupError",
    "CommandResponse",
    "CommandTimeoutError",
    "ConfigError",
    "ConflictError",
    "CreateSandboxRequest",
    "DeleteSandboxCheckpointsResponse",
    "DownloadTimeoutError",
    "EgressPolicyStatus",
    "EnvironmentNotFoundError",
    "EpisodeDetail",
    "EpisodeSummary",
    "ErrorContext",
    "EvalsAPIError",
    "Evaluation",
    "EvaluationList",
    "EvaluationNotFoundError",
    "ExposedPort",
    "FileCheck",
    "FileInfo",
    "FileUploadResponse",
    "ForbiddenError",
    "HostedEvaluation",
    "ImageArtifactType",
    "ImageBuild",
    "ImageBuildError",
    "ImageBuildStatus",
    "ImageCoordinateState",
    "ImageListItem",
    "ImageListResponse",
    "ImageMutationError",
    "ImageOwner",
    "ImageOwnerType",
    "ImageUpdateItem",
    "ImageUpdatePatch",
    "ImageUpdateResult",
    "ImageUpdateSource",
    "ImageVisibility",
    "InterruptedPush",
    "InvalidEvaluationError",
    "InvalidSampleError",
    "JobOutputChunk",
    "LanJoinError",
    "LanJoinTimeoutError",
    "LanNetwork",
    "LanNetworkMember",
    "LanRule",
    "LineFormat",
    "ListExposedPortsResponse",
    "LocalPlatformError",
    "MethodNotAllowedError",
    "NotFoundError",
    "NotImplementedByPlatformError",
    "OutputLine",
    "OversizedLine",
    "OversizedSamplesError",
    "PartialOutput",
    "PartialPushError",
    "PartialUpload",
    "PayloadTooLargeError",
    "PaymentRequiredError",
    "PersonalImageOwner",
    "PlatformImageOwner",
    "PrimeError",
    "PrimeTracesError",
    "ProtocolError",
    "PushReceipt",
    "PushedRun",
    "RateLimitError",
    "ReadFileResponse",
    "Record",
    "RefusedSample",
    "ResolvedEnvironment",
    "ResultRun",
    "ResumeToken",
    "RetryPolicy",
    "RunSummary",
    "SSHSession",
    "SamplePage",
    "Sandbox",
    "SandboxBulkWaitError",
    "SandboxCheckpoint",
    "SandboxEgressPolicy",
    "SandboxFileNotFoundError",
    "SandboxFileTooLargeError",
    "SandboxImagePullError",
    "SandboxListResponse",
    "SandboxNotFoundError",
    "SandboxNotRunningError",
    "SandboxOOMError",
    "SandboxStatus",
    "SandboxStatusLookupError",
    "SandboxStatusSnapshot",
    "SandboxTimeoutError",
    "ServerError",
    "Settings",
    "SkippedEntry",
    "SourceImageBuildResult",
    "SpoolError",
    "StartCommand",
    "SyncResult",
    "TERMINAL_STATUSES",
    "TeamImageOwner",
    "TraceSummary",
    "TraceTooLargeError",
    "TransferProgress",
    "TransportError",
    "TreeTransfer",
    "UnauthorizedError",
    "UpdateImagesRequest",
    "UpdateImagesResponse",
    "UploadReceipt",
    "UploadReceipts",
    "UploadTimeoutError",
    "UsageError",
    "ValidationError",
    "ValueEncodingError",
    "Volume",
    "VolumeListResponse",
    "VolumeMount",
    "WrongLoopError",
    "__version__",
    "check_path",
    "find_runs",
    "interrupted_pushes",
    "load_run",
    "load_settings",
    "partial_output",
    "partial_upload",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "APIConnectionError": "prime_async.errors",
        "APIError": "prime_async.errors",
        "APITimeoutError": "prime_async.errors",
        "AsyncAPIClient": "prime_async.api",
        "AsyncCommandStream": "prime_async.sandboxes.command_stream",
        "AsyncEvalsClient": "prime_async.evals.client",
        "AsyncImageClient": "prime_async.images.client",
        "AsyncProcessStream": "prime_async.sandboxes.processes",
        "AsyncRun": "prime_async.runs.run",
        "AsyncRunsClient": "prime_async.runs.reading",
        "AsyncSandboxAccess": "prime_async.sandboxes.access",
        "AsyncSandboxCheckpoints": "prime_async.sandboxes.checkpoints",
        "AsyncSandboxClient": "prime_async.sandboxes.client",
        "AsyncSandboxCommands": "prime_async.sandboxes.execution",
        "AsyncSandboxControl": "prime_async.sandboxes.control",
        "AsyncSandboxFiles": "prime_async.sandboxes.storage",
        "AsyncSandboxJobs": "prime_async.sandboxes.jobs.client",
        "AsyncSandboxNetworks": "prime_async.sandboxes.networks",
        "AsyncSandboxProcess": "prime_async.sandboxes.processes",
        "AsyncTraceRunsReader": "prime_async.traces.grouping",
        "AsyncTracesAPIClient": "prime_async.traces.api",
        "AsyncTracesBulkReader": "prime_async.traces.bulk",
        "AsyncTracesClient": "prime_async.traces.client",
        "AsyncTracesConnection": "prime_async.traces.connection",
        "AsyncTracesReader": "prime_async.traces.reading",
        "AsyncVolumes": "prime_async.sandboxes.volumes",
        "BackgroundJob": "prime_async.sandboxes.jobs.models",
        "BackgroundJobInfo": "prime_async.sandboxes.jobs.models",
        "BackgroundJobLookupError": "prime_async.sandboxes.job_models",
        "BackgroundJobStats": "prime_async.sandboxes.jobs.stats",
        "BackgroundJobStatus": "prime_async.sandboxes.jobs.models",
        "BackgroundJobStatusSnapshot": "prime_async.sandboxes.job_models",
        "BackgroundJobTimeoutError": "prime_async.errors",
        "BackgroundJobsTimeoutError": "prime_async.errors",
        "BadRequestError": "prime_async.errors",
        "BatchBackgroundJobStatusResponse": "prime_async.sandboxes.job_models",
        "BatchCheckpointResponse": "prime_async.sandboxes.checkpoint_models",
        "BatchSandboxStatusResponse": "prime_async.sandboxes.models",
        "BatchStatusUnsupportedError": "prime_async.errors",
        "BuildImageRequest": "prime_async.images.requests",
        "BuildImageResponse": "prime_async.images.models",
        "BulkBuildImageResponse": "prime_async.images.models",
        "BulkDeleteSandboxResponse": "prime_async.sandboxes.models",
        "CheckpointDeleteError": "prime_async.sandboxes.checkpoint_models",
        "CheckpointFailedError": "prime_async.errors",
        "CheckpointLookupError": "prime_async.sandboxes.checkpoint_models",
        "CommandResponse": "prime_async.sandboxes.models",
        "CommandTimeoutError": "prime_async.errors",
        "ConfigError": "prime_async.errors",
        "ConflictError": "prime_async.errors",
        "CreateSandboxRequest": "prime_async.sandboxes.requests",
        "DeleteSandboxCheckpointsResponse": "prime_async.sandboxes.checkpoint_models",
        "DownloadTimeoutError": "prime_async.errors",
        "EgressPolicyStatus": "prime_async.sandboxes.models",
        "EnvironmentNotFoundError": "prime_async.errors",
        "EpisodeDetail": "prime_async.traces.models",
        "EpisodeSummary": "prime_async.traces.models",
        "ErrorContext": "prime_async.sandboxes.models",
        "EvalsAPIError": "prime_async.errors",
        "Evaluation": "prime_async.evals.models",
        "EvaluationList": "prime_async.evals.models",
        "EvaluationNotFoundError": "prime_async.errors",
        "ExposedPort": "prime_async.sandboxes.network_models",
        "FileCheck": "prime_async.evals.files",
        "FileInfo": "prime_async.sandboxes.models",
        "FileUploadResponse": "prime_async.sandboxes.models",
        "ForbiddenError": "prime_async.errors",
        "HostedEvaluation": "prime_async.evals.models",
        "ImageArtifactType": "prime_async.images.models",
        "ImageBuild": "prime_async.images.models",
        "ImageBuildError": "prime_async.errors",
        "ImageBuildStatus": "prime_async.images.models",
        "ImageCoordinateState": "prime_async.images.models",
        "ImageListItem": "prime_async.images.models",
        "ImageListResponse": "prime_async.images.models",
        "ImageMutationError": "prime_async.images.models",
        "ImageOwner": "prime_async.images.models",
        "ImageOwnerType": "prime_async.images.models",
        "ImageUpdateItem": "prime_async.images.requests",
        "ImageUpdatePatch": "prime_async.images.requests",
        "ImageUpdateResult": "prime_async.images.models",
        "ImageUpdateSource": "prime_async.images.requests",
        "ImageVisibility": "prime_async.images.models",
        "InterruptedPush": "prime_async.evals.sync",
        "InvalidEvaluationError": "prime_async.errors",
        "InvalidSampleError": "prime_async.errors",
        "JobOutputChunk": "prime_async.sandboxes.jobs.models",
        "LanJoinError": "prime_async.errors",
        "LanJoinTimeoutError": "prime_async.errors",
        "LanNetwork": "prime_async.sandboxes.network_models",
        "LanNetworkMember": "prime_async.sandboxes.network_models",
        "LanRule": "prime_async.sandboxes.network_models",
        "LineFormat": "prime_async.traces.codes",
        "ListExposedPortsResponse": "prime_async.sandboxes.network_models",
        "LocalPlatformError": "prime_async.errors",
        "MethodNotAllowedError": "prime_async.errors",
        "NotFoundError": "prime_async.errors",
        "NotImplementedByPlatformError": "prime_async.errors",
        "OutputLine": "prime_async.sandboxes.output",
        "OversizedLine": "prime_async.evals.files",
        "OversizedSamplesError": "prime_async.errors",
        "PartialOutput": "prime_async.sandboxes.commands",
        "PartialPushError": "prime_async.errors",
        "PartialUpload": "prime_async.traces.receipts",
        "PayloadTooLargeError": "prime_async.errors",
        "PaymentRequiredError": "prime_async.errors",
        "PersonalImageOwner": "prime_async.images.models",
        "PlatformImageOwner": "prime_async.images.models",
        "PrimeError": "prime_async.errors",
        "PrimeTracesError": "prime_async.errors",
        "ProtocolError": "prime_async.errors",
        "PushReceipt": "prime_async.evals.receipts",
        "PushedRun": "prime_async.evals.runs",
        "RateLimitError": "prime_async.errors",
        "ReadFileResponse": "prime_async.sandboxes.models",
        "Record": "prime_async.models",
        "RefusedSample": "prime_async.evals.receipts",
        "ResolvedEnvironment": "prime_async.evals.models",
        "ResultRun": "prime_async.evals.verifiers",
        "ResumeToken": "prime_async.evals.receipts",
        "RetryPolicy": "prime_async.transport",
        "RunSummary": "prime_async.traces.models",
        "SSHSession": "prime_async.sandboxes.network_models",
        "SamplePage": "prime_async.evals.models",
        "Sandbox": "prime_async.sandboxes.models",
        "SandboxBulkWaitError": "prime_async.errors",
        "SandboxCheckpoint": "prime_async.sandboxes.checkpoint_models",
        "SandboxEgressPolicy": "prime_async.sandboxes.models",
        "SandboxFileNotFoundError": "prime_async.errors",
        "SandboxFileTooLargeError": "prime_async.errors",
        "SandboxImagePullError": "prime_async.errors",
        "SandboxListResponse": "prime_async.sandboxes.models",
        "SandboxNotFoundError": "prime_async.errors",
        "SandboxNotRunningError": "prime_async.errors",
        "SandboxOOMError": "prime_async.errors",
        "SandboxStatus": "prime_async.sandboxes.models",
        "SandboxStatusLookupError": "prime_async.sandboxes.models",
        "SandboxStatusSnapshot": "prime_async.sandboxes.models",
        "SandboxTimeoutError": "prime_async.errors",
        "ServerError": "prime_async.errors",
        "Settings": "prime_async.config",
        "SkippedEntry": "prime_async.sandboxes.treerules",
        "SourceImageBuildResult": "prime_async.images.models",
        "SpoolError": "prime_async.errors",
        "StartCommand": "prime_async.sandboxes.requests",
        "SyncResult": "prime_async.evals.sync",
        "TERMINAL_STATUSES": "prime_async.evals.models",
        "TeamImageOwner": "prime_async.images.models",
        "TraceSummary": "prime_async.traces.models",
        "TraceTooLargeError": "prime_async.traces.errors",
        "TransferProgress": "prime_async.sandboxes.pace",
        "TransportError": "prime_async.errors",
        "TreeTransfer": "prime_async.sandboxes.treerules",
        "UnauthorizedError": "prime_async.errors",
        "UpdateImagesRequest": "prime_async.images.requests",
        "UpdateImagesResponse": "prime_async.images.models",
        "UploadReceipt": "prime_async.traces.models",
        "UploadReceipts": "prime_async.traces.receipts",
        "UploadTimeoutError": "prime_async.errors",
        "UsageError": "prime_async.errors",
        "ValidationError": "prime_async.errors",
        "ValueEncodingError": "prime_async.errors",
        "Volume": "prime_async.sandboxes.checkpoint_models",
        "VolumeListResponse": "prime_async.sandboxes.checkpoint_models",
        "VolumeMount": "prime_async.sandboxes.requests",
        "WrongLoopError": "prime_async.errors",
        "__version__": "prime_async._version",
        "check_path": "prime_async.evals.sources",
        "find_runs": "prime_async.evals.verifiers",
        "interrupted_pushes": "prime_async.evals.sync",
        "load_run": "prime_async.evals.verifiers",
        "load_settings": "prime_async.config",
        "partial_output": "prime_async.sandboxes.commands",
        "partial_upload": "prime_async.traces.receipts",
    },
)
