"""prime_async: evaluations, sandboxes, traces and training, asyncio-first.

Everything public is importable from here and loaded on first use; importing the package opens nothing and starts nothing.
"""

from typing import TYPE_CHECKING

from prime_async._lazy import lazy_exports

if TYPE_CHECKING:
    from prime_async._version import (
        __version__ as __version__,
    )
    from prime_async.api import (
        AsyncAPIClient as AsyncAPIClient,
    )
    from prime_async.config import (
        Settings as Settings,
        load_settings as load_settings,
    )
    from prime_async.errors import (
        APIConnectionError as APIConnectionError,
        APIError as APIError,
        APITimeoutError as APITimeoutError,
        BadRequestError as BadRequestError,
        ConfigError as ConfigError,
        ConflictError as ConflictError,
        EnvironmentNotFoundError as EnvironmentNotFoundError,
        EvalsAPIError as EvalsAPIError,
        EvaluationNotFoundError as EvaluationNotFoundError,
        ForbiddenError as ForbiddenError,
        InvalidEvaluationError as InvalidEvaluationError,
        InvalidSampleError as InvalidSampleError,
        LocalPlatformError as LocalPlatformError,
        MethodNotAllowedError as MethodNotAllowedError,
        NotFoundError as NotFoundError,
        PartialPushError as PartialPushError,
        PayloadTooLargeError as PayloadTooLargeError,
        PaymentRequiredError as PaymentRequiredError,
        PrimeError as PrimeError,
        ProtocolError as ProtocolError,
        RateLimitError as RateLimitError,
        ServerError as ServerError,
        SpoolError as SpoolError,
        TransportError as TransportError,
        UnauthorizedError as UnauthorizedError,
        UsageError as UsageError,
        ValidationError as ValidationError,
        ValueEncodingError as ValueEncodingError,
        WrongLoopError as WrongLoopError,
    )
    from prime_async.evals.client import (
        AsyncEvalsClient as AsyncEvalsClient,
    )
    from prime_async.evals.files import (
        FileCheck as FileCheck,
    )
    from prime_async.evals.models import (
        Evaluation as Evaluation,
        EvaluationList as EvaluationList,
        HostedEvaluation as HostedEvaluation,
        ResolvedEnvironment as ResolvedEnvironment,
        SamplePage as SamplePage,
        TERMINAL_STATUSES as TERMINAL_STATUSES,
    )
    from prime_async.evals.receipts import (
        PushReceipt as PushReceipt,
        RefusedSample as RefusedSample,
        ResumeToken as ResumeToken,
    )
    from prime_async.evals.sources import (
        check_path as check_path,
    )
    from prime_async.evals.sync import (
        InterruptedPush as InterruptedPush,
        SyncResult as SyncResult,
        interrupted_pushes as interrupted_pushes,
    )
    from prime_async.evals.verifiers import (
        ResultRun as ResultRun,
        find_runs as find_runs,
        load_run as load_run,
    )
    from prime_async.models import (
        Record as Record,
    )
    from prime_async.transport import (
        RetryPolicy as RetryPolicy,
    )

__all__ = [
    "APIConnectionError",
    "APIError",
    "APITimeoutError",
    "AsyncAPIClient",
    "AsyncEvalsClient",
    "BadRequestError",
    "ConfigError",
    "ConflictError",
    "EnvironmentNotFoundError",
    "EvalsAPIError",
    "Evaluation",
    "EvaluationList",
    "EvaluationNotFoundError",
    "FileCheck",
    "ForbiddenError",
    "HostedEvaluation",
    "InterruptedPush",
    "InvalidEvaluationError",
    "InvalidSampleError",
    "LocalPlatformError",
    "MethodNotAllowedError",
    "NotFoundError",
    "PartialPushError",
    "PayloadTooLargeError",
    "PaymentRequiredError",
    "PrimeError",
    "ProtocolError",
    "PushReceipt",
    "RateLimitError",
    "Record",
    "RefusedSample",
    "ResolvedEnvironment",
    "ResultRun",
    "ResumeToken",
    "RetryPolicy",
    "SamplePage",
    "ServerError",
    "Settings",
    "SpoolError",
    "SyncResult",
    "TERMINAL_STATUSES",
    "TransportError",
    "UnauthorizedError",
    "UsageError",
    "ValidationError",
    "ValueEncodingError",
    "WrongLoopError",
    "__version__",
    "check_path",
    "find_runs",
    "interrupted_pushes",
    "load_run",
    "load_settings",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "APIConnectionError": "prime_async.errors",
        "APIError": "prime_async.errors",
        "APITimeoutError": "prime_async.errors",
        "AsyncAPIClient": "prime_async.api",
        "AsyncEvalsClient": "prime_async.evals.client",
        "BadRequestError": "prime_async.errors",
        "ConfigError": "prime_async.errors",
        "ConflictError": "prime_async.errors",
        "EnvironmentNotFoundError": "prime_async.errors",
        "EvalsAPIError": "prime_async.errors",
        "Evaluation": "prime_async.evals.models",
        "EvaluationList": "prime_async.evals.models",
        "EvaluationNotFoundError": "prime_async.errors",
        "FileCheck": "prime_async.evals.files",
        "ForbiddenError": "prime_async.errors",
        "HostedEvaluation": "prime_async.evals.models",
        "InterruptedPush": "prime_async.evals.sync",
        "InvalidEvaluationError": "prime_async.errors",
        "InvalidSampleError": "prime_async.errors",
        "LocalPlatformError": "prime_async.errors",
        "MethodNotAllowedError": "prime_async.errors",
        "NotFoundError": "prime_async.errors",
        "PartialPushError": "prime_async.errors",
        "PayloadTooLargeError": "prime_async.errors",
        "PaymentRequiredError": "prime_async.errors",
        "PrimeError": "prime_async.errors",
        "ProtocolError": "prime_async.errors",
        "PushReceipt": "prime_async.evals.receipts",
        "RateLimitError": "prime_async.errors",
        "Record": "prime_async.models",
        "RefusedSample": "prime_async.evals.receipts",
        "ResolvedEnvironment": "prime_async.evals.models",
        "ResultRun": "prime_async.evals.verifiers",
        "ResumeToken": "prime_async.evals.receipts",
        "RetryPolicy": "prime_async.transport",
        "SamplePage": "prime_async.evals.models",
        "ServerError": "prime_async.errors",
        "Settings": "prime_async.config",
        "SpoolError": "prime_async.errors",
        "SyncResult": "prime_async.evals.sync",
        "TERMINAL_STATUSES": "prime_async.evals.models",
        "TransportError": "prime_async.errors",
        "UnauthorizedError": "prime_async.errors",
        "UsageError": "prime_async.errors",
        "ValidationError": "prime_async.errors",
        "ValueEncodingError": "prime_async.errors",
        "WrongLoopError": "prime_async.errors",
        "__version__": "prime_async._version",
        "check_path": "prime_async.evals.sources",
        "find_runs": "prime_async.evals.verifiers",
        "interrupted_pushes": "prime_async.evals.sync",
        "load_run": "prime_async.evals.verifiers",
        "load_settings": "prime_async.config",
    },
)
