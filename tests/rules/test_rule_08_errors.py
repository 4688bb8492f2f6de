"""Rule 8: one tree of errors. What happened, to what, what to do: in words and attributes."""

from __future__ import annotations

import pytest

from prime_async import AsyncRun, AsyncSandboxProcess, errors, traces
from prime_async.errors import PrimeError
from tests.official_stub import EVALUATION, OfficialStub
from tests.rules.calls import ALL_CALLS, TOLD_INSIDE, PublicCall, clients
from tests.rules.handles import HANDLE_CALLS, HandleCall, opened, plain
from tests.rules.surfaces import CommandSurface, PythonSurface, Surface, leave_on_disk
from tests.rules.table import scenario
from tests.stub import NOTHING, Answer

STATUSES = {
    400: errors.BadRequestError,
    401: errors.UnauthorizedError,
    402: errors.PaymentRequiredError,
    403: errors.ForbiddenError,
    404: errors.EvaluationNotFoundError,
    405: errors.MethodNotAllowedError,
    409: errors.ConflictError,
    413: errors.PayloadTooLargeError,
    418: errors.APIError,
    422: errors.ValidationError,
    429: errors.RateLimitError,
    500: errors.ServerError,
    503: errors.ServerError,
}


@scenario(8)
async def test_each_status_is_a_class_with_its_facts(
    surface: Surface, official: OfficialStub
) -> None:
    """Class, status, code and request id; the message names the request and the platform's word."""
    for status, kind in STATUSES.items():
        official.route(
            "GET",
            ".*/evaluations/.*",
            Answer(
                status,
                headers={"X-Request-Id": f"req-{status}"},
                json={"detail": "because", "error": {"code": f"code_{status}"}},
            ),
        )
        outcome = await surface.get(EVALUATION)
        assert outcome.kind == kind.__name__
        assert outcome.facts["status"] == status
        assert outcome.facts["code"] == f"code_{status}"
        assert outcome.facts["request_id"] == f"req-{status}"
        assert "because" in outcome.said
        assert EVALUATION in outcome.said, "it does not say what it happened to"
        if outcome.error is not None:
            assert isinstance(outcome.error, errors.APIError)
            assert outcome.error.status_code == status
        else:
            assert outcome.exit_code == 1


REFUSED = Answer(
    403,
    json={"detail": "because", "error": {"code": "not_yours"}},
    headers={"X-Request-Id": "req-1"},
)


@scenario(8, shows=ALL_CALLS, not_command="its errors are those of the calls, see above")
async def test_every_call_tells_a_refusal(surface: PythonSurface, official: OfficialStub) -> None:
    """One class for a 403, with its facts; whatever traces raise has their family's base too."""
    await leave_on_disk(official)
    official.route("*", ".*", REFUSED)
    async with clients(surface.face) as on:
        for call in ALL_CALLS:
            if call.name in TOLD_INSIDE:
                told = await call.on(on)
                assert "HTTP 403" in repr(told) or call.name == "get_error_context", call
                continue
            with pytest.raises(PrimeError) as caught:
                await call.on(on)
            _assert_refusal(caught.value, call)


REFUSABLE = [
    call
    for call in HANDLE_CALLS
    if call.kind is AsyncSandboxProcess and call.name not in ("aclose", "detach", "wait")
]
TOLD = ("AsyncRun.flush", "AsyncRun.finish", "AsyncRun.fail")


@scenario(8, shows=[*REFUSABLE, *TOLD], not_command="as above")
async def test_calls_of_runs_and_processes_tell_a_refusal(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """The refusal itself; a run that raises brings it out of flush and finish, in its family."""
    runs = [call for call in HANDLE_CALLS if str(call) in TOLD]
    for call in [*REFUSABLE, *runs]:
        async with opened(call.kind, surface.face, official, on_error="raise") as handle:
            official.route("*", ".*", REFUSED)
            if call.kind is AsyncRun:
                await plain(handle.log_trace({"id": "t"}))
            with pytest.raises(PrimeError) as caught:
                await call.on(handle)
            _assert_refusal(caught.value, call)


def _assert_refusal(raised: PrimeError, call: PublicCall | HandleCall) -> None:
    """It is the refusal, with its facts, or has it among its causes."""
    error = _refusal(raised)
    assert error is not None, f"{call}: {raised!r}"
    assert (error.status, error.status_code, error.code) == (403, 403, "not_yours")
    assert error.request_id == "req-1"
    assert "because" in str(raised), call
    assert isinstance(raised, errors.PrimeTracesError) == call.of_traces, call


def _refusal(error: BaseException | None) -> errors.ForbiddenError | None:
    """Find the refusal: the error itself, or what became of one of many."""
    if error is None or isinstance(error, errors.ForbiddenError):
        return error
    failures = getattr(error, "failures", None) or {}
    return next(filter(None, map(_refusal, [error.__cause__, *failures.values()])), None)


FAMILIES = {
    RuntimeError: (
        "BackgroundJobTimeoutError BackgroundJobsTimeoutError CheckpointFailedError "
        "CommandTimeoutError DownloadTimeoutError ImageBuildError LanJoinError "
        "SandboxBulkWaitError SandboxImagePullError SandboxNotRunningError SandboxOOMError "
        "SandboxTimeoutError UploadTimeoutError WrongLoopError"
    ),
    TimeoutError: (
        "APITimeoutError BackgroundJobTimeoutError BackgroundJobsTimeoutError "
        "CommandTimeoutError DownloadTimeoutError LanJoinTimeoutError UploadTimeoutError"
    ),
    ValueError: "UsageError InvalidEvaluationError InvalidSampleError ValueEncodingError",
    OSError: "SpoolError",
}


def test_families_that_except_clauses_know() -> None:
    """Everything is a PrimeError; clauses written for the official packages catch what they did."""
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert not isinstance(kind, type) or issubclass(kind, errors.PrimeError)
    for family, names in FAMILIES.items():
        for name in names.split():
            assert issubclass(getattr(errors, name), family), f"{name} is no {family.__name__}"
    for name in traces.__all__:
        kind = getattr(traces, name)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            assert issubclass(kind, errors.PrimeTracesError), name


@scenario(8)
async def test_refused_fields_are_named(surface: Surface, official: OfficialStub) -> None:
    """A 422 says which field, and why."""
    entry = {"loc": ["body", "name"], "msg": "is too long", "type": "value_error"}
    official.route("PUT", ".*", Answer(422, json={"detail": [entry]}))
    outcome = await surface.update(EVALUATION)
    assert outcome.kind == "ValidationError"
    assert "name" in outcome.said
    assert "is too long" in outcome.said
    if isinstance(outcome.error, errors.ValidationError):
        assert outcome.error.errors == [entry]


@scenario(8)
async def test_what_is_no_answer_is_told_apart(surface: Surface, official: OfficialStub) -> None:
    """Not JSON, of another shape, cut off, no connection: each has its own class, and a request."""
    cases = {
        "ProtocolError": Answer(body=b"<html>"),
        "APIConnectionError": Answer(body=b"{}", length=100, end="cut"),
    }
    for kind, answer in cases.items():
        official.route("GET", ".*/evaluations/.*", answer)
        outcome = await surface.get(EVALUATION)
        assert outcome.kind == kind
        assert f"/api/v1/evaluations/{EVALUATION}" in outcome.said
    official.route("GET", ".*/evaluations/.*", Answer(json={"evaluation_id": [1]}))
    assert "evaluation_id" in (await surface.get(EVALUATION)).said
    official.route("GET", ".*/evaluations/.*", NOTHING)
    assert (await surface.get(EVALUATION)).kind == "APIConnectionError"
    await official.aclose()
    gone = await surface.get(EVALUATION)
    assert gone.kind == "APIConnectionError"
    assert official.url in gone.said


@scenario(8)
async def test_without_a_key_both_ways_out_are_named(
    surface: Surface, official: OfficialStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent; the error names the variable and the embedded platform."""
    monkeypatch.delenv("PRIME_API_KEY")
    outcome = await surface.get(EVALUATION)
    assert outcome.kind == "UnauthorizedError"
    assert "PRIME_API_KEY" in outcome.said
    assert "local" in outcome.said
    assert official.requests == []


@scenario(8)
async def test_a_broken_setting_is_one_error_for_every_call(
    surface: Surface, official: OfficialStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the variable; a push, which has many tasks, raises no group of errors."""
    monkeypatch.setenv("HTTP_PROXY", "socks5://proxy.test:1080")
    for call in (surface.get(EVALUATION), surface.push(EVALUATION, [{"example_id": 0}])):
        outcome = await call
        assert outcome.kind == "ConfigError"
        assert "HTTP_PROXY" in outcome.said
    assert official.requests == []


@scenario(8)
async def test_a_bad_argument_is_refused_before_any_request(
    surface: Surface, official: OfficialStub
) -> None:
    """A usage error: ``ValueError`` in Python, exit code 2 on the command line."""
    outcome = await surface.get("../whoami")
    assert outcome.kind == "UsageError"
    assert "'../whoami' is not an id" in outcome.said
    assert official.requests == []
    if outcome.error is not None:
        assert isinstance(outcome.error, ValueError)
        assert outcome.facts["field"] == "evaluation_id"
    else:
        assert outcome.exit_code == 2


@scenario(8, not_async="an exception is read by programs", not_sync="as on the async face")
async def test_a_person_reads_what_where_and_next(
    surface: CommandSurface, official: OfficialStub
) -> None:
    """Three lines on standard error, nothing on standard output, no traceback; exit code 1."""
    official.route("GET", ".*/evaluations/.*", Answer(404, json={"detail": "Not Found"}))
    ran = await surface.read("eval", "get", EVALUATION)
    assert (ran.code, ran.out) == (1, "")
    what, where, *_, then = ran.err.splitlines()
    assert what.startswith("error: ")
    assert EVALUATION in what
    assert where.startswith("  where: GET http://")
    assert then.startswith("  next:  `prime-async eval list`")
