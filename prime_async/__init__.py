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
        BadRequestError as BadRequestError,
    )
    from prime_async.errors import (
        ConfigError as ConfigError,
    )
    from prime_async.errors import (
        ConflictError as ConflictError,
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
        InvalidEvaluationError as InvalidEvaluationError,
    )
    from prime_async.errors import (
        InvalidSampleError as InvalidSampleError,
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
        ProtocolError as ProtocolError,
    )
    from prime_async.errors import (
        RateLimitError as RateLimitError,
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
    "OversizedLine",
    "OversizedSamplesError",
    "PartialPushError",
    "PayloadTooLargeError",
    "PaymentRequiredError",
    "PrimeError",
    "ProtocolError",
    "PushReceipt",
    "PushedRun",
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
        "OversizedLine": "prime_async.evals.files",
        "OversizedSamplesError": "prime_async.errors",
        "PartialPushError": "prime_async.errors",
        "PayloadTooLargeError": "prime_async.errors",
        "PaymentRequiredError": "prime_async.errors",
        "PrimeError": "prime_async.errors",
        "ProtocolError": "prime_async.errors",
        "PushReceipt": "prime_async.evals.receipts",
        "PushedRun": "prime_async.evals.runs",
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
