"""Traces: the client, its models, batches and errors."""

from prime_async._lazy import lazy_exports

TYPE_CHECKING = False  # see _lazy.py
if TYPE_CHECKING:
    from prime_async.errors import (
        PrimeTracesError as PrimeTracesError,
    )
    from prime_async.runs.opening import (
        init as init,
    )
    from prime_async.runs.run import (
        AsyncRun as AsyncRun,
    )
    from prime_async.traces.api import (
        AsyncTracesAPIClient as AsyncTracesAPIClient,
    )
    from prime_async.traces.batches import (
        DEFAULT_TARGET_BATCH_BYTES as DEFAULT_TARGET_BATCH_BYTES,
    )
    from prime_async.traces.batches import (
        MAX_BATCH_BYTES as MAX_BATCH_BYTES,
    )
    from prime_async.traces.batches import (
        MAX_BATCH_LINES as MAX_BATCH_LINES,
    )
    from prime_async.traces.batches import (
        Batch as Batch,
    )
    from prime_async.traces.batches import (
        iter_batches as iter_batches,
    )
    from prime_async.traces.batching import (
        aiter_batches as aiter_batches,
    )
    from prime_async.traces.bulk import (
        AsyncTracesBulkReader as AsyncTracesBulkReader,
    )
    from prime_async.traces.client import (
        AsyncTracesClient as AsyncTracesClient,
    )
    from prime_async.traces.codes import (
        ErrorCode as ErrorCode,
    )
    from prime_async.traces.codes import (
        LineFormat as LineFormat,
    )
    from prime_async.traces.codes import (
        RunType as RunType,
    )
    from prime_async.traces.codes import (
        SearchField as SearchField,
    )
    from prime_async.traces.compression import (
        EncodedBody as EncodedBody,
    )
    from prime_async.traces.compression import (
        compress_batch as compress_batch,
    )
    from prime_async.traces.connection import (
        AsyncTracesConnection as AsyncTracesConnection,
    )
    from prime_async.traces.encoding import (
        EncodedRecord as EncodedRecord,
    )
    from prime_async.traces.encoding import (
        SupportsToRecord as SupportsToRecord,
    )
    from prime_async.traces.encoding import (
        TraceRecord as TraceRecord,
    )
    from prime_async.traces.encoding import (
        encode_record as encode_record,
    )
    from prime_async.traces.errors import (
        AmbiguousDeleteError as AmbiguousDeleteError,
    )
    from prime_async.traces.errors import (
        APIConnectionError as APIConnectionError,
    )
    from prime_async.traces.errors import (
        APIError as APIError,
    )
    from prime_async.traces.errors import (
        APITimeoutError as APITimeoutError,
    )
    from prime_async.traces.errors import (
        ForbiddenError as ForbiddenError,
    )
    from prime_async.traces.errors import (
        LineFormatConflictError as LineFormatConflictError,
    )
    from prime_async.traces.errors import (
        MethodNotAllowedError as MethodNotAllowedError,
    )
    from prime_async.traces.errors import (
        NotFoundError as NotFoundError,
    )
    from prime_async.traces.errors import (
        PayloadTooLargeError as PayloadTooLargeError,
    )
    from prime_async.traces.errors import (
        PaymentRequiredError as PaymentRequiredError,
    )
    from prime_async.traces.errors import (
        ProtocolError as ProtocolError,
    )
    from prime_async.traces.errors import (
        RateLimitError as RateLimitError,
    )
    from prime_async.traces.errors import (
        RetryableAPIError as RetryableAPIError,
    )
    from prime_async.traces.errors import (
        ServerError as ServerError,
    )
    from prime_async.traces.errors import (
        ServiceBusyError as ServiceBusyError,
    )
    from prime_async.traces.errors import (
        TraceNotIndexedError as TraceNotIndexedError,
    )
    from prime_async.traces.errors import (
        TracesConfigError as TracesConfigError,
    )
    from prime_async.traces.errors import (
        TracesLocalError as TracesLocalError,
    )
    from prime_async.traces.errors import (
        TracesSpoolError as TracesSpoolError,
    )
    from prime_async.traces.errors import (
        TracesUsageError as TracesUsageError,
    )
    from prime_async.traces.errors import (
        TracesValueError as TracesValueError,
    )
    from prime_async.traces.errors import (
        TracesWrongLoopError as TracesWrongLoopError,
    )
    from prime_async.traces.errors import (
        TraceTooLargeError as TraceTooLargeError,
    )
    from prime_async.traces.errors import (
        TransportError as TransportError,
    )
    from prime_async.traces.errors import (
        UnauthorizedError as UnauthorizedError,
    )
    from prime_async.traces.errors import (
        ValidationError as ValidationError,
    )
    from prime_async.traces.errors import (
        ValidationRejectedError as ValidationRejectedError,
    )
    from prime_async.traces.filters import (
        EpisodeFilters as EpisodeFilters,
    )
    from prime_async.traces.filters import (
        NodeFilters as NodeFilters,
    )
    from prime_async.traces.filters import (
        RunFilters as RunFilters,
    )
    from prime_async.traces.filters import (
        SearchFilters as SearchFilters,
    )
    from prime_async.traces.filters import (
        TraceFilters as TraceFilters,
    )
    from prime_async.traces.grouping import (
        AsyncTraceRunsReader as AsyncTraceRunsReader,
    )
    from prime_async.traces.lines import (
        MAX_LINE_BYTES as MAX_LINE_BYTES,
    )
    from prime_async.traces.lines import (
        read_jsonl_lines as read_jsonl_lines,
    )
    from prime_async.traces.models import (
        EpisodeDetail as EpisodeDetail,
    )
    from prime_async.traces.models import (
        EpisodeError as EpisodeError,
    )
    from prime_async.traces.models import (
        EpisodeListPage as EpisodeListPage,
    )
    from prime_async.traces.models import (
        EpisodeSummary as EpisodeSummary,
    )
    from prime_async.traces.models import (
        EpisodeTraceAggregate as EpisodeTraceAggregate,
    )
    from prime_async.traces.models import (
        Execution as Execution,
    )
    from prime_async.traces.models import (
        ModelInfo as ModelInfo,
    )
    from prime_async.traces.models import (
        NodeMessage as NodeMessage,
    )
    from prime_async.traces.models import (
        RunListPage as RunListPage,
    )
    from prime_async.traces.models import (
        RunStep as RunStep,
    )
    from prime_async.traces.models import (
        RunStepList as RunStepList,
    )
    from prime_async.traces.models import (
        RunSummary as RunSummary,
    )
    from prime_async.traces.models import (
        Score as Score,
    )
    from prime_async.traces.models import (
        TraceActivity as TraceActivity,
    )
    from prime_async.traces.models import (
        TraceAggregate as TraceAggregate,
    )
    from prime_async.traces.models import (
        TraceCall as TraceCall,
    )
    from prime_async.traces.models import (
        TraceCallPage as TraceCallPage,
    )
    from prime_async.traces.models import (
        TraceGroup as TraceGroup,
    )
    from prime_async.traces.models import (
        TraceListPage as TraceListPage,
    )
    from prime_async.traces.models import (
        TraceNode as TraceNode,
    )
    from prime_async.traces.models import (
        TraceNodePage as TraceNodePage,
    )
    from prime_async.traces.models import (
        TraceSearchCoverage as TraceSearchCoverage,
    )
    from prime_async.traces.models import (
        TraceSearchMatch as TraceSearchMatch,
    )
    from prime_async.traces.models import (
        TraceSearchPage as TraceSearchPage,
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
        FailedBatch as FailedBatch,
    )
    from prime_async.traces.receipts import (
        PartialUpload as PartialUpload,
    )
    from prime_async.traces.receipts import (
        RefusedLine as RefusedLine,
    )
    from prime_async.traces.receipts import (
        UploadReceipts as UploadReceipts,
    )
    from prime_async.traces.receipts import (
        partial_upload as partial_upload,
    )

__all__ = [
    "APIConnectionError",
    "APIError",
    "APITimeoutError",
    "AmbiguousDeleteError",
    "AsyncRun",
    "AsyncTraceRunsReader",
    "AsyncTracesAPIClient",
    "AsyncTracesBulkReader",
    "AsyncTracesClient",
    "AsyncTracesConnection",
    "AsyncTracesReader",
    "Batch",
    "DEFAULT_TARGET_BATCH_BYTES",
    "EncodedBody",
    "EncodedRecord",
    "EpisodeDetail",
    "EpisodeError",
    "EpisodeFilters",
    "EpisodeListPage",
    "EpisodeSummary",
    "EpisodeTraceAggregate",
    "ErrorCode",
    "Execution",
    "FailedBatch",
    "ForbiddenError",
    "LineFormat",
    "LineFormatConflictError",
    "MAX_BATCH_BYTES",
    "MAX_BATCH_LINES",
    "MAX_LINE_BYTES",
    "MethodNotAllowedError",
    "ModelInfo",
    "NodeFilters",
    "NodeMessage",
    "NotFoundError",
    "PartialUpload",
    "PayloadTooLargeError",
    "PaymentRequiredError",
    "PrimeTracesError",
    "ProtocolError",
    "RateLimitError",
    "RefusedLine",
    "RetryableAPIError",
    "RunFilters",
    "RunListPage",
    "RunStep",
    "RunStepList",
    "RunSummary",
    "RunType",
    "Score",
    "SearchField",
    "SearchFilters",
    "ServerError",
    "ServiceBusyError",
    "SupportsToRecord",
    "TraceActivity",
    "TraceAggregate",
    "TraceCall",
    "TraceCallPage",
    "TraceFilters",
    "TraceGroup",
    "TraceListPage",
    "TraceNode",
    "TraceNodePage",
    "TraceNotIndexedError",
    "TraceRecord",
    "TraceSearchCoverage",
    "TraceSearchMatch",
    "TraceSearchPage",
    "TraceSummary",
    "TraceTooLargeError",
    "TracesConfigError",
    "TracesLocalError",
    "TracesSpoolError",
    "TracesUsageError",
    "TracesValueError",
    "TracesWrongLoopError",
    "TransportError",
    "UnauthorizedError",
    "UploadReceipt",
    "UploadReceipts",
    "ValidationError",
    "ValidationRejectedError",
    "aiter_batches",
    "compress_batch",
    "encode_record",
    "init",
    "iter_batches",
    "partial_upload",
    "read_jsonl_lines",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "APIConnectionError": "prime_async.traces.errors",
        "APIError": "prime_async.traces.errors",
        "APITimeoutError": "prime_async.traces.errors",
        "AmbiguousDeleteError": "prime_async.traces.errors",
        "AsyncRun": "prime_async.runs.run",
        "AsyncTraceRunsReader": "prime_async.traces.grouping",
        "AsyncTracesAPIClient": "prime_async.traces.api",
        "AsyncTracesBulkReader": "prime_async.traces.bulk",
        "AsyncTracesClient": "prime_async.traces.client",
        "AsyncTracesConnection": "prime_async.traces.connection",
        "AsyncTracesReader": "prime_async.traces.reading",
        "Batch": "prime_async.traces.batches",
        "DEFAULT_TARGET_BATCH_BYTES": "prime_async.traces.batches",
        "EncodedBody": "prime_async.traces.compression",
        "EncodedRecord": "prime_async.traces.encoding",
        "EpisodeDetail": "prime_async.traces.models",
        "EpisodeError": "prime_async.traces.models",
        "EpisodeFilters": "prime_async.traces.filters",
        "EpisodeListPage": "prime_async.traces.models",
        "EpisodeSummary": "prime_async.traces.models",
        "EpisodeTraceAggregate": "prime_async.traces.models",
        "ErrorCode": "prime_async.traces.codes",
        "Execution": "prime_async.traces.models",
        "FailedBatch": "prime_async.traces.receipts",
        "ForbiddenError": "prime_async.traces.errors",
        "LineFormat": "prime_async.traces.codes",
        "LineFormatConflictError": "prime_async.traces.errors",
        "MAX_BATCH_BYTES": "prime_async.traces.batches",
        "MAX_BATCH_LINES": "prime_async.traces.batches",
        "MAX_LINE_BYTES": "prime_async.traces.lines",
        "MethodNotAllowedError": "prime_async.traces.errors",
        "ModelInfo": "prime_async.traces.models",
        "NodeFilters": "prime_async.traces.filters",
        "NodeMessage": "prime_async.traces.models",
        "NotFoundError": "prime_async.traces.errors",
        "PartialUpload": "prime_async.traces.receipts",
        "PayloadTooLargeError": "prime_async.traces.errors",
        "PaymentRequiredError": "prime_async.traces.errors",
        "PrimeTracesError": "prime_async.errors",
        "ProtocolError": "prime_async.traces.errors",
        "RateLimitError": "prime_async.traces.errors",
        "RefusedLine": "prime_async.traces.receipts",
        "RetryableAPIError": "prime_async.traces.errors",
        "RunFilters": "prime_async.traces.filters",
        "RunListPage": "prime_async.traces.models",
        "RunStep": "prime_async.traces.models",
        "RunStepList": "prime_async.traces.models",
        "RunSummary": "prime_async.traces.models",
        "RunType": "prime_async.traces.codes",
        "Score": "prime_async.traces.models",
        "SearchField": "prime_async.traces.codes",
        "SearchFilters": "prime_async.traces.filters",
        "ServerError": "prime_async.traces.errors",
        "ServiceBusyError": "prime_async.traces.errors",
        "SupportsToRecord": "prime_async.traces.encoding",
        "TraceActivity": "prime_async.traces.models",
        "TraceAggregate": "prime_async.traces.models",
        "TraceCall": "prime_async.traces.models",
        "TraceCallPage": "prime_async.traces.models",
        "TraceFilters": "prime_async.traces.filters",
        "TraceGroup": "prime_async.traces.models",
        "TraceListPage": "prime_async.traces.models",
        "TraceNode": "prime_async.traces.models",
        "TraceNodePage": "prime_async.traces.models",
        "TraceNotIndexedError": "prime_async.traces.errors",
        "TraceRecord": "prime_async.traces.encoding",
        "TraceSearchCoverage": "prime_async.traces.models",
        "TraceSearchMatch": "prime_async.traces.models",
        "TraceSearchPage": "prime_async.traces.models",
        "TraceSummary": "prime_async.traces.models",
        "TraceTooLargeError": "prime_async.traces.errors",
        "TracesConfigError": "prime_async.traces.errors",
        "TracesLocalError": "prime_async.traces.errors",
        "TracesSpoolError": "prime_async.traces.errors",
        "TracesUsageError": "prime_async.traces.errors",
        "TracesValueError": "prime_async.traces.errors",
        "TracesWrongLoopError": "prime_async.traces.errors",
        "TransportError": "prime_async.traces.errors",
        "UnauthorizedError": "prime_async.traces.errors",
        "UploadReceipt": "prime_async.traces.models",
        "UploadReceipts": "prime_async.traces.receipts",
        "ValidationError": "prime_async.traces.errors",
        "ValidationRejectedError": "prime_async.traces.errors",
        "aiter_batches": "prime_async.traces.batching",
        "compress_batch": "prime_async.traces.compression",
        "encode_record": "prime_async.traces.encoding",
        "init": "prime_async.runs.opening",
        "iter_batches": "prime_async.traces.batches",
        "partial_upload": "prime_async.traces.receipts",
        "read_jsonl_lines": "prime_async.traces.lines",
    },
)
