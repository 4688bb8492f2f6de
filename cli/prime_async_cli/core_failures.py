"""What the errors of the core say, in the one form of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prime_async import errors
from prime_async_cli.failures import FAILED, USAGE, Failure

__all__ = ["explain_core"]

_HINTS: tuple[tuple[type[errors.PrimeError], str], ...] = (
    (errors.EvaluationNotFoundError, "`prime-async eval list` shows the ids"),
    (errors.SandboxNotFoundError, "`prime-async sandbox list` shows the ids"),
    (errors.SandboxFileNotFoundError, "`prime-async sandbox files ID FOLDER` shows what is there"),
    (errors.SandboxNotRunningError, "`prime-async sandbox list --all` shows what became of it"),
    (
        errors.UnauthorizedError,
        "`prime-async config view` shows which key is used and where it is from",
    ),
    (errors.ForbiddenError, "`prime-async whoami` shows what this key may do"),
    (errors.PaymentRequiredError, "add credit to the account or choose another team"),
    (errors.RateLimitError, "wait, then run the command again"),
    (errors.APITimeoutError, "the platform may be busy: run the command again"),
    (errors.APIConnectionError, "check the address with `prime-async config view`"),
    (errors.ServerError, "run it again; if it stays, report the request id"),
    (errors.LocalPlatformError, "`prime-async local logs` shows what the platform says"),
)
_IN_OPTIONS = {
    "env": "add --env NAME, --run-id ID or --eval-id ID",
    "environments": "add --env NAME, --dataset NAME or --run-id ID",
}
"""Hints where the core speaks of its arguments, by the argument at fault."""

_OPTIONS = {
    "network_allowlist": "--network-allow",
    "network_denylist": "--network-deny",
    "gpu_count": "--gpu-count",
    "gpu_type": "--gpu-type",
    "docker_image": "IMAGE",
    "checkpoint_id": "--checkpoint",
    "environments[0]": "--env",
    "file_path": "REMOTE",
    "job_id": "--job-id",
    "push_id": "--push-id",
}
"""What the command line calls the arguments that messages of the core name."""

_BY_CODE = {
    "team_not_found": "`prime-async config view` shows the team in use and where it is from; "
    "`prime-async config remove-team-id` acts for yourself",
    "volume_not_found": "`prime-async sandbox volumes list` shows the names",
    "checkpoint_not_found": "`prime-async sandbox checkpoint list SANDBOX` shows the ids",
    "exposure_not_found": "`prime-async sandbox expose list` shows the ids",
    "trace_not_found": "`prime-async traces list` shows the ids",
    "episode_not_found": "`prime-async traces list --episodes` shows the ids",
    "run_not_found": "`prime-async runs list` shows the ids",
    "search_limit_exceeded": "narrow the search, such as with --run-step or --role",
}
"""Hints where the platform says more than a status."""

_NO_KEY = (
    "set PRIME_API_KEY, or store one with `prime-async config set-api-key`; without an account: "
    "`prime-async local start`"
)
_LONGEST_REASON = 600
_DISK_FULL = 507


def explain_core(error: BaseException) -> Failure | None:
    """Say what is known about an error of the core; None when it is not one."""
    if not isinstance(error, errors.PrimeError):
        return None
    code = _code(error)
    failure = Failure(
        type(error).__name__,
        _with_options(_what(error)) if code == USAGE else _what(error),
        why=_why(error),
        hint=_hint(error),
        code=code,
    )
    if isinstance(error, errors.APIError) and error.url is not None:
        failure.where = _request(error)
    place = getattr(error, "path", None)
    if isinstance(place, Path):
        failure.where = _place(place, error)
    failure.details = _details(error)
    return failure


def _what(error: errors.PrimeError) -> str:
    """The message without the request, which stands under "where"."""
    message = error.message
    if isinstance(error, errors.APIError) and error.url is not None:
        for said in (
            f"HTTP {error.status} for {error.method} {error.url}",
            f"{error.method} {error.url}",
        ):
            rest = message.removeprefix(said).lstrip(": ")
            if rest and len(rest) < len(message):
                return rest
    return message


def _with_options(message: str) -> str:
    """Speak of options where the core speaks of arguments."""
    for name, option in _OPTIONS.items():
        message = message.replace(name, option)
    return message


def _code(error: errors.PrimeError) -> int:
    """A bad argument is a usage error; a bad sample was found in a file, a refusal came back."""
    from_the_platform = getattr(error, "status", None) is not None
    if isinstance(error, errors.UsageError) and not from_the_platform:
        in_a_file = isinstance(error, (errors.InvalidSampleError, errors.ValueEncodingError))
        return FAILED if in_a_file else USAGE
    return FAILED


def _hint(error: errors.PrimeError) -> str | None:
    if getattr(error, "status", None) == _DISK_FULL:
        return "make room on that disk, then run it again; a sandbox has --disk-size-gb"
    if isinstance(error, errors.UnauthorizedError) and error.status is None:
        return _NO_KEY
    if error.hint:
        return _IN_OPTIONS.get(getattr(error, "field", None) or "", error.hint)
    code = getattr(error, "code", None)
    if code in _BY_CODE:
        return _BY_CODE[code]
    for kind, hint in _HINTS:
        if isinstance(error, kind):
            return hint
    return None


def _request(error: errors.APIError) -> str:
    known = []
    if error.status is not None:
        known.append(f"HTTP {error.status}")
    if error.request_id:
        known.append(f"request {error.request_id}")
    answer = f" ({', '.join(known)})" if known else ""
    return f"{error.method or 'GET'} {error.url}{answer}"


def _place(path: Path, error: errors.PrimeError) -> str:
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    parts = [str(path), *(str(number) for number in (line, column) if number is not None)]
    return ":".join(parts)


def _why(error: errors.PrimeError) -> str | None:
    """The refused fields, or the cause in its own words where the message does not hold them."""
    if isinstance(error, errors.ValidationError) and error.errors:
        refused = [_refused_field(entry) for entry in error.errors[:20]]
        return None if all(each in error.message for each in refused) else "\n".join(refused)
    detail = getattr(error, "detail", None)
    if isinstance(detail, str) and detail and detail not in error.message:
        return _bounded(detail)
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.strerror and cause.strerror not in error.message:
        return cause.strerror
    return None


def _refused_field(entry: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in entry.get("loc", ()) if part != "body")
    return f"{where or 'body'}: {entry.get('msg', 'refused')}"


def _bounded(text: str) -> str:
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + "..."


def _details(error: errors.PrimeError) -> dict[str, Any]:
    names: tuple[str, ...] = (
        "status",
        "code",
        "request_id",
        "retry_after",
        "field",
        "index",
        "line",
        "column",
    )
    names += ("sandbox_id", "error_type", "checkpoint_id", "network_id", "build_id")
    details = {name: getattr(error, name, None) for name in names}
    if isinstance(error, errors.ValidationError) and error.errors:
        details["errors"] = error.errors
    if getattr(error, "ambiguous", False):
        details["ambiguous"] = True
    if isinstance(error, errors.OversizedSamplesError):
        details["oversized"] = [
            {"line": each.line, "index": each.index, "size": each.size} for each in error.oversized
        ]
    place = getattr(error, "path", None)
    if place is not None:
        details["path"] = str(place)
    return details
