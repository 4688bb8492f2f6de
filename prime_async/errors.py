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

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from prime_async.evals.files import OversizedLine
    from prime_async.evals.receipts import PushReceipt
    from prime_async.sandboxes.jobs.models import BackgroundJob, BackgroundJobStatus
    from prime_async.traces.receipts import PartialUpload, UploadReceipt

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


class PrimeError(Exception):
    """Root of the tree.

    Attributes:
        hint: one sentence on what to do next, or None.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ConfigError(PrimeError):
    """A configuration file or setting cannot be used.

    Attributes:
        path: the file at fault, or None when the fault is in an environment variable or argument.
        line, column: 1-based place in the file where it is known.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path | None = None,
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.line = line
        self.column = column


class UsageError(PrimeError, ValueError):
    """An argument is wrong; raised before any request or other side effect.

    Attributes:
        field: name of the argument, or None.
    """

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        PrimeError.__init__(self, message, hint=hint)
        self.field = field


class ValueEncodingError(UsageError, TypeError):
    """A value has no entry in the value table (docs/values.md), or refers to itself.

    Attributes:
        path: where the value sits, such as ``samples[7].info.logits``.
        value_type: name of its type.
    """

    def __init__(
        self, message: str, *, path: str, value_type: str, hint: str | None = None
    ) -> None:
        super().__init__(message, field=path, hint=hint)
        self.path = path
        self.value_type = value_type


class WrongLoopError(PrimeError, RuntimeError):
    """A client belongs to one event loop and was used from another that is alive as well."""


class SpoolError(PrimeError, OSError):
    """The local spool cannot be read, written or locked.

    Attributes:
        path: the segment or folder at fault.
    """

    def __init__(self, message: str, *, path: Path, hint: str | None = None) -> None:
        PrimeError.__init__(self, message, hint=hint)
        self.path = path


class LocalPlatformError(PrimeError):
    """The embedded platform cannot be started, stopped or reached."""


class APIError(PrimeError):
    """A request to the platform failed.

    Attributes:
        status: HTTP status, or None when no answer arrived (``status_code`` is the same value).
        code: the platform's machine-readable error code, or None.
        detail: the ``detail`` of the answer as sent (text, list or object), at most 4 KiB of text.
        details: what the answer says for programs beside its code, or None.
        request_id: the platform's id of the request, for support.
        method, url: the request; the URL carries no credentials.
        retry_after: seconds the platform asked to wait, or None.
        ambiguous: True when the request may have been carried out although it failed here.
        retryable: True when the same request may well succeed later.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        detail: Any = None,
        details: Any = None,
        request_id: str | None = None,
        method: str | None = None,
        url: str | None = None,
        retry_after: float | None = None,
        ambiguous: bool = False,
        retryable: bool = False,
        hint: str | None = None,
    ) -> None:
        PrimeError.__init__(self, message, hint=hint)
        self.status = status
        self.code = code
        self.detail = detail
        self.details = details
        self.request_id = request_id
        self.method = method
        self.url = url
        self.retry_after = retry_after
        self.ambiguous = ambiguous
        self.retryable = retryable

    @property
    def status_code(self) -> int | None:
        """The HTTP status under the name the official clients use."""
        return self.status


class TransportError(APIError):
    """No usable answer arrived: connection, TLS, name resolution or time."""


class APIConnectionError(TransportError):
    """The connection was refused, reset or could not be made."""


class APITimeoutError(TransportError, TimeoutError):
    """A limit ended the call.

    Attributes:
        budget: which limit: ``"connect"``, ``"total"``, ``"idle"`` or ``"close"``.
        seconds: its value.
    """

    def __init__(
        self, message: str, *, budget: str = "total", seconds: float = 0.0, **kwargs: Any
    ) -> None:
        APIError.__init__(self, message, **kwargs)
        self.budget = budget
        self.seconds = seconds


class ProtocolError(APIError):
    """The answer arrived but is not what the wire promises (not JSON, wrong shape, cut short)."""


class BadRequestError(APIError):
    """HTTP 400."""


class UnauthorizedError(APIError):
    """HTTP 401, or no API key is configured."""


class PaymentRequiredError(APIError):
    """HTTP 402: the account or team has no credit left."""


class ForbiddenError(APIError):
    """HTTP 403."""


class NotFoundError(APIError):
    """HTTP 404."""


class MethodNotAllowedError(APIError):
    """HTTP 405."""


class ConflictError(APIError):
    """HTTP 409."""


class PayloadTooLargeError(APIError):
    """HTTP 413."""


class ValidationError(APIError):
    """HTTP 422: the platform refused fields of the request.

    Attributes:
        errors: the entries as sent: ``{"loc": [...], "msg": str, "type": str}``.
    """

    @property
    def errors(self) -> list[dict[str, Any]]:
        if not isinstance(self.detail, list):
            return []
        return [entry for entry in self.detail if isinstance(entry, dict)]


class RateLimitError(APIError):
    """HTTP 429."""


class ServerError(APIError):
    """HTTP 5xx."""


class NotImplementedByPlatformError(ServerError):
    """HTTP 501: this platform does not have what was asked for; another one may."""


class EvalsAPIError(APIError):
    """Base of the errors particular to evaluations."""


class EnvironmentNotFoundError(EvalsAPIError, NotFoundError):
    """No environment has this id or owner/name."""


class EvaluationNotFoundError(EvalsAPIError, NotFoundError):
    """No evaluation has this id, or it belongs to another account or team."""


class InvalidEvaluationError(EvalsAPIError, UsageError):
    """The evaluation cannot be created from these arguments."""

    def __init__(self, message: str, *, field: str | None = None, **kwargs: Any) -> None:
        APIError.__init__(self, message, **kwargs)
        self.field = field


class InvalidSampleError(EvalsAPIError, UsageError):
    """A sample is not a JSON object, or a source of samples cannot be read.

    Attributes:
        index: position of the sample in the input, from 0, or None.
    """

    def __init__(
        self, message: str, *, index: int | None = None, field: str | None = None, **kwargs: Any
    ) -> None:
        APIError.__init__(self, message, **kwargs)
        self.index = index
        self.field = field


class OversizedSamplesError(InvalidSampleError):
    """Samples of a file are larger than a request may be; raised before anything is created.

    Attributes:
        oversized: each of them: line from 1, sample index from 0, size in bytes.
    """

    def __init__(
        self, message: str, *, oversized: tuple[OversizedLine, ...], **kwargs: Any
    ) -> None:
        super().__init__(message, **kwargs)
        self.oversized = oversized


class PartialPushError(EvalsAPIError):
    """Some samples were not delivered.

    Attributes:
        receipt: the :class:`~prime_async.evals.PushReceipt`: stored, refused, unknown and
            undelivered ranges, the spool path and the token that resumes the push.
    """

    def __init__(self, message: str, *, receipt: PushReceipt, **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.receipt = receipt


class PrimeTracesError(PrimeError):
    """Base of everything that the traces client, a run, its flush and its finish raise.

    Each child is also the error of this tree that says the same: ``except NotFoundError`` and
    ``except PrimeTracesError`` both catch an unknown trace.

    Attributes:
        upload: what an upload had achieved when it failed, or None when the call was none.
    """

    upload: PartialUpload | None = None

    @property
    def receipts(self) -> tuple[UploadReceipt, ...]:
        """The receipts of the batches that were committed before an upload failed, in order."""
        return () if self.upload is None else self.upload.receipts


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


class CommandTimeoutError(PrimeError, RuntimeError, TimeoutError):
    """A command in a sandbox did not end in time; it was told to end.

    Attributes:
        sandbox_id, command, timeout: what ran where, and the seconds it had.
        stdout, stderr: what it had written by then.
        elapsed: seconds since it was started.
    """

    def __init__(
        self,
        sandbox_id: str,
        command: str,
        timeout: float,
        *,
        stdout: str = "",
        stderr: str = "",
        elapsed: float | None = None,
        hint: str | None = None,
    ) -> None:
        shown = command if len(command) <= 50 else f"{command[:50]}…"
        PrimeError.__init__(
            self,
            f"command {shown!r} in sandbox {sandbox_id} timed out after {timeout:g} s",
            hint=hint,
        )
        self.sandbox_id = sandbox_id
        self.command = command
        self.timeout = timeout
        self.stdout = stdout
        self.stderr = stderr
        self.elapsed = timeout if elapsed is None else elapsed


class BackgroundJobTimeoutError(CommandTimeoutError):
    """A background job did not end in time.

    Attributes:
        job: its handle.
        killed: whether it was ended; False when it was to go on, or could not be reached.
        stdout, stderr: the end of what it had written by then.
    """

    def __init__(
        self, job: BackgroundJob, command: str, timeout: float, *, killed: bool, **kwargs: Any
    ) -> None:
        super().__init__(job.sandbox_id, command, timeout, **kwargs)
        self.job = job
        self.killed = killed


class BackgroundJobsTimeoutError(PrimeError, RuntimeError, TimeoutError):
    """Some of the background jobs that were waited for have not ended in time; they go on.

    Attributes:
        statuses: what is known of those that have ended, where it was not handed out before.
        pending: the handles of the others.
    """

    def __init__(
        self,
        statuses: list[BackgroundJobStatus],
        pending: list[BackgroundJob],
        total: int,
        timeout: float,
        *,
        hint: str | None = None,
    ) -> None:
        PrimeError.__init__(
            self,
            f"{len(pending)} of {total} background jobs have not ended within {timeout:g} s",
            hint=hint,
        )
        self.statuses = statuses
        self.pending = pending


class _TransferTimeoutError(PrimeError, RuntimeError, TimeoutError):
    _does = "the transfer of"

    def __init__(
        self, sandbox_id: str, file_path: str, timeout: float, *, hint: str | None = None
    ) -> None:
        PrimeError.__init__(
            self,
            f"{self._does} {file_path!r} in sandbox {sandbox_id} timed out after {timeout:g} s",
            hint=hint,
        )
        self.sandbox_id = sandbox_id
        self.file_path = file_path
        self.timeout = timeout


class UploadTimeoutError(_TransferTimeoutError):
    """An upload to a sandbox did not end in time.

    Attributes:
        sandbox_id, file_path, timeout: where to, and the seconds it had.
    """

    _does = "the upload of"


class DownloadTimeoutError(_TransferTimeoutError):
    """A download from a sandbox did not end in time.

    Attributes:
        sandbox_id, file_path, timeout: where from, and the seconds it had.
    """

    _does = "the download of"


_BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    402: PaymentRequiredError,
    403: ForbiddenError,
    404: NotFoundError,
    405: MethodNotAllowedError,
    409: ConflictError,
    413: PayloadTooLargeError,
    422: ValidationError,
    429: RateLimitError,
    501: NotImplementedByPlatformError,
}


def error_class_for_status(status: int) -> type[APIError]:
    """Return the class that stands for an HTTP status."""
    return _BY_STATUS.get(status, ServerError if status >= 500 else APIError)
