"""The only place that speaks HTTP: sessions, deadlines, retries, proxies, certificates, streams."""

from prime_async.transport.absence import Absence, is_unanswered
from prime_async.transport.addresses import path_segment
from prime_async.transport.body import Body, BytesBody, StreamedBody
from prime_async.transport.client import (
    DEFAULT_TIMEOUT,
    IDEMPOTENCY,
    WIRE_KEY,
    Transport,
)
from prime_async.transport.deadlines import check_timeout, deadline, time_left
from prime_async.transport.policy import Replay, RetryBudget, RetryPolicy
from prime_async.transport.responses import Response
from prime_async.transport.sessions import running_loop
from prime_async.transport.streams import StreamedResponse

__all__ = [
    "Absence",
    "Body",
    "BytesBody",
    "DEFAULT_TIMEOUT",
    "IDEMPOTENCY",
    "Replay",
    "Response",
    "RetryBudget",
    "RetryPolicy",
    "StreamedBody",
    "StreamedResponse",
    "Transport",
    "WIRE_KEY",
    "check_timeout",
    "deadline",
    "is_unanswered",
    "path_segment",
    "running_loop",
    "time_left",
]
