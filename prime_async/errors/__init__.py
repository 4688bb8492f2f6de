"""Every error this project raises, in one tree.

    PrimeError                            .hint: what to do next
    ├── ConfigError                       .path .line .column: a broken file or setting
    ├── UsageError (ValueError)           .field: a bad argument, raised before any request
    │   └── ValueEncodingError (TypeError)    .path .value_type: not in docs/values.md
    ├── WrongLoopError (RuntimeError)     a client used from a second, still running event loop
    ├── SpoolError (OSError)              .path: the local spool cannot be read or written
    ├── LocalPlatformError                the embedded platform cannot start, stop or answer
    ├── SandboxNotRunningError (RuntimeError)   .sandbox_id .status .error_type .command
    │   ├── SandboxOOMError, SandboxTimeoutError, SandboxImagePullError
    ├── SandboxBulkWaitError (RuntimeError)   .failures .statuses: of a wait for many
    ├── CheckpointFailedError (RuntimeError)   .checkpoint_id .state: it never becomes durable
    ├── LanJoinError (RuntimeError)       .sandbox_id .network_id: it runs, but not in its network
    │   └── LanJoinTimeoutError (TimeoutError)
    ├── ImageBuildError (RuntimeError)    .build_id .status: an image that was not built
    ├── CommandTimeoutError (RuntimeError, TimeoutError)   .stdout .stderr .elapsed: what it wrote
    │   └── BackgroundJobTimeoutError     .job .killed: its handle, and whether it was ended
    ├── BackgroundJobsTimeoutError (RuntimeError, TimeoutError)   .statuses .pending: of many
    ├── UploadTimeoutError, DownloadTimeoutError (RuntimeError, TimeoutError)   .file_path
    ├── PrimeTracesError                  .upload .receipts: whatever traces and runs raise; its
    │                                     children (traces/errors.py) are in this tree as well
    └── APIError                          .status .code .detail .request_id .ambiguous …
        ├── TransportError                no answer arrived
        │   ├── APIConnectionError            refused, reset, TLS, name resolution
        │   └── APITimeoutError (TimeoutError)    .budget .seconds: which limit ended the call
        ├── ProtocolError                 an answer that is not what the wire promises
        ├── BadRequestError 400, UnauthorizedError 401, PaymentRequiredError 402,
        │   ForbiddenError 403, NotFoundError 404, MethodNotAllowedError 405,
        │   ConflictError 409, PayloadTooLargeError 413, ValidationError 422,
        │   RateLimitError 429, ServerError 5xx
        ├── NotImplementedByPlatformError 501 (ServerError)
        ├── SandboxNotFoundError (NotFoundError)         .sandbox_id
        ├── SandboxFileNotFoundError (NotFoundError)
        ├── SandboxFileTooLargeError (PayloadTooLargeError)
        ├── BatchStatusUnsupportedError   the platform cannot tell many statuses at once
        └── EvalsAPIError                 base of the evaluation errors
            ├── EnvironmentNotFoundError (NotFoundError)
            ├── EvaluationNotFoundError (NotFoundError)
            ├── InvalidEvaluationError (UsageError)
            ├── InvalidSampleError (UsageError)
            │   └── OversizedSamplesError     .oversized: which lines of a file are too large
            └── PartialPushError          .receipt: what arrived, what did not, how to resume

Errors of other libraries never leave the package; they are the ``__cause__``. No message, repr or
attribute ever holds an API key: request headers are not kept.
"""

from prime_async.errors.api import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    MethodNotAllowedError,
    NotFoundError,
    NotImplementedByPlatformError,
    PayloadTooLargeError,
    PaymentRequiredError,
    ProtocolError,
    RateLimitError,
    ServerError,
    TransportError,
    UnauthorizedError,
    ValidationError,
    error_class_for_status,
)
from prime_async.errors.base import (
    ConfigError,
    LocalPlatformError,
    PrimeError,
    SpoolError,
    UsageError,
    ValueEncodingError,
    WrongLoopError,
)
from prime_async.errors.commands import (
    BackgroundJobsTimeoutError,
    BackgroundJobTimeoutError,
    CommandTimeoutError,
    DownloadTimeoutError,
    UploadTimeoutError,
)
from prime_async.errors.evals import (
    EnvironmentNotFoundError,
    EvalsAPIError,
    EvaluationNotFoundError,
    InvalidEvaluationError,
    InvalidSampleError,
    OversizedSamplesError,
    PartialPushError,
)
from prime_async.errors.sandboxes import (
    BatchStatusUnsupportedError,
    CheckpointFailedError,
    ImageBuildError,
    LanJoinError,
    LanJoinTimeoutError,
    SandboxBulkWaitError,
    SandboxFileNotFoundError,
    SandboxFileTooLargeError,
    SandboxImagePullError,
    SandboxNotFoundError,
    SandboxNotRunningError,
    SandboxOOMError,
    SandboxTimeoutError,
)
from prime_async.errors.traces import (
    PrimeTracesError,
)

__all__ = [
    "APIConnectionError",
    "APIError",
    "APITimeoutError",
    "BackgroundJobTimeoutError",
    "BackgroundJobsTimeoutError",
    "BadRequestError",
    "BatchStatusUnsupportedError",
    "CheckpointFailedError",
    "CommandTimeoutError",
    "ConfigError",
    "ConflictError",
    "DownloadTimeoutError",
    "EnvironmentNotFoundError",
    "EvalsAPIError",
    "EvaluationNotFoundError",
    "ForbiddenError",
    "ImageBuildError",
    "InvalidEvaluationError",
    "InvalidSampleError",
    "LanJoinError",
    "LanJoinTimeoutError",
    "LocalPlatformError",
    "MethodNotAllowedError",
    "NotFoundError",
    "NotImplementedByPlatformError",
    "OversizedSamplesError",
    "PartialPushError",
    "PayloadTooLargeError",
    "PaymentRequiredError",
    "PrimeError",
    "PrimeTracesError",
    "ProtocolError",
    "RateLimitError",
    "SandboxBulkWaitError",
    "SandboxFileNotFoundError",
    "SandboxFileTooLargeError",
    "SandboxImagePullError",
    "SandboxNotFoundError",
    "SandboxNotRunningError",
    "SandboxOOMError",
    "SandboxTimeoutError",
    "ServerError",
    "SpoolError",
    "TransportError",
    "UnauthorizedError",
    "UploadTimeoutError",
    "UsageError",
    "ValidationError",
    "ValueEncodingError",
    "WrongLoopError",
    "error_class_for_status",
]
