"""Transports of the tests: quick repeats, closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from prime_async.transport import RetryBudget, RetryPolicy, Transport
from tests.stub import Stub

QUICK = RetryPolicy(first_delay=0.001, max_delay=0.002)


@pytest.fixture
async def transport(stub: Stub) -> AsyncIterator[Transport]:
    """A transport to the stub, with a key and a budget of its own."""
    made = Transport(base_url=stub.url, api_key="key-1", retry=QUICK, budget=RetryBudget())
    yield made
    await made.aclose()
