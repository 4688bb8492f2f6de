"""One family, and one tree: every error of the traces client belongs to both."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import prime_traces
import pytest

import prime_async
from prime_async import errors, traces
from prime_async.errors import PrimeError
from prime_async.traces import AsyncTracesClient, PrimeTracesError
from prime_async.traces.errors import adopted
from tests.stub import Answer, Stub
from tests.traces.receiver import refusal

FAMILY = {
    name: kind
    for name in traces.__all__
    if isinstance(kind := getattr(traces, name), type) and issubclass(kind, PrimeTracesError)
}


def test_the_names_users_of_the_official_client_catch() -> None:
    """Each is here, and a child of what it is a child of there."""
    for name in prime_traces.__all__:
        official: Any = getattr(prime_traces, name)
        if isinstance(official, type) and issubclass(official, prime_traces.PrimeTracesError):
            bases = {base.__name__ for base in official.__mro__} - {"object"}
            assert bases <= {base.__name__ for base in FAMILY[name].__mro__}, name


def test_every_error_is_in_both_trees() -> None:
    """The one of the same name, or of the same status, in ``prime_async.errors``."""
    for name, kind in FAMILY.items():
        assert issubclass(kind, PrimeTracesError), name
        twin = getattr(errors, name, None)
        if twin is not None:
            assert issubclass(kind, twin), name
    assert issubclass(traces.TracesUsageError, ValueError)
    assert issubclass(traces.TracesValueError, TypeError)
    assert issubclass(traces.APITimeoutError, TimeoutError)
    assert issubclass(traces.ValidationRejectedError, errors.BadRequestError)
    assert issubclass(traces.RateLimitError, errors.RateLimitError)
    assert issubclass(traces.ServiceBusyError, errors.ServerError)


@pytest.mark.parametrize(
    ("status", "code", "name"),
    [
        (400, "invalid_trace", "ValidationRejectedError"),
        (401, "unauthenticated", "UnauthorizedError"),
        (402, None, "PaymentRequiredError"),
        (403, "service_not_enabled", "ForbiddenError"),
        (404, "trace_not_found", "NotFoundError"),
        (405, None, "MethodNotAllowedError"),
        (409, "line_format_conflict", "LineFormatConflictError"),
        (409, "trace_not_indexed", "TraceNotIndexedError"),
        (413, None, "PayloadTooLargeError"),
        (418, None, "APIError"),
        (422, None, "ValidationError"),
        (429, "rate_limited", "RateLimitError"),
        (500, None, "ServerError"),
        (502, None, "ServiceBusyError"),
        (503, "storage_unavailable", "ServiceBusyError"),
        (504, None, "ServiceBusyError"),
    ],
)
async def test_every_status_has_its_error(
    client: AsyncTracesClient, stub: Stub, status: int, code: str | None, name: str
) -> None:
    """With status, code, message and address."""
    stub.default = refusal(status, code)
    with pytest.raises(PrimeTracesError) as caught:
        await client.get("t1")
    error = caught.value
    assert type(error) is FAMILY[name]
    assert isinstance(error, traces.APIError)
    assert (error.status, error.status_code, error.code) == (status, status, code)
    assert "refused" in str(error)
    assert isinstance(error, traces.RetryableAPIError) == (status in (429, 502, 503, 504))
    tries = 4 if status in (429, 502, 503, 504) else 1
    assert len(stub.requests) == tries


async def test_retry_after_reaches_the_caller(client: AsyncTracesClient, stub: Stub) -> None:
    """A wait that is too long is not waited for, but told."""
    stub.default = refusal(429, "rate_limited", Retry_After="3600")
    with pytest.raises(traces.RetryableAPIError, match="asks to wait 3600 s") as caught:
        await client.get("t1")
    assert caught.value.retry_after == 3600


@pytest.mark.parametrize(
    "answer", [Answer(body=b"<html>"), Answer(json=[1]), Answer(json={"trace_id": "t"})]
)
async def test_an_answer_that_does_not_fit(
    client: AsyncTracesClient, stub: Stub, answer: Answer
) -> None:
    """Not JSON, no object, a field missing: one typed error."""
    stub.default = answer
    with pytest.raises(traces.ProtocolError) as caught:
        await client.get("t1")
    assert isinstance(caught.value, errors.ProtocolError)


async def test_no_answer_at_all(client: AsyncTracesClient, stub: Stub) -> None:
    """A connection that breaks, and a service that is silent."""
    stub.default = Answer(status=0, end="cut")
    with pytest.raises(traces.TransportError) as caught:
        await client.get("t1")
    assert caught.value.status is None
    stub.default = Answer(end="silent", status=0)
    with pytest.raises(traces.APITimeoutError) as late:
        await client.get("t1", timeout=0.05)
    assert isinstance(late.value, TimeoutError)
    assert late.value.seconds == 0.05


async def test_errors_that_are_none_of_the_service(home: Path, stub: Stub) -> None:
    """Wrong arguments, broken configuration, no key: members of the family as well."""
    with pytest.raises(traces.TracesUsageError) as usage:
        AsyncTracesClient(prime_async.AsyncAPIClient("k", base_url=stub.url), api_key="other")
    assert usage.value.field == "api_key"
    async with AsyncTracesClient(base_url=stub.url) as keyless:
        with pytest.raises(traces.UnauthorizedError, match="no API key"):
            await keyless.get("t1")
        with pytest.raises(traces.TracesUsageError, match="trace_id"):
            await keyless.get("a/b")
    (home / ".prime").mkdir()
    (home / ".prime" / "config.json").write_text("{")
    with pytest.raises(traces.TracesConfigError) as config:
        AsyncTracesClient()
    assert config.value.line == 1


def test_adopted_errors_keep_everything() -> None:
    """Attributes, cause and hint; a member stays the object it is."""
    cause = OSError("disk")
    made = errors.SpoolError("the spool", path=Path("/s"), hint="free space")
    made.__cause__ = cause
    twin = adopted(made)
    assert type(twin) is traces.TracesSpoolError
    assert (str(twin), twin.path, twin.__cause__) == ("the spool (free space)", Path("/s"), cause)
    assert adopted(twin) is twin
    assert type(adopted(PrimeError("x"))) is PrimeTracesError


def test_errors_survive_pickling() -> None:
    """As those that come back from worker processes must."""
    for error in (
        traces.TraceTooLargeError(3, 70, 64),
        traces.NotFoundError("gone", status=404, code="trace_not_found"),
        traces.TracesUsageError("wrong", field="limit"),
    ):
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is type(error)
        assert str(back) == str(error)
        assert back.__dict__ == error.__dict__


def test_an_error_of_no_upload_has_no_receipts() -> None:
    """And says so."""
    error = traces.NotFoundError("gone", status=404)
    assert (error.upload, error.receipts) == (None, ())
