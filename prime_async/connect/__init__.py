"""The Connect protocol, as both of its ends need it: envelopes, failures, headers. No I/O here."""

from prime_async.connect.envelopes import (
    MAX_MESSAGE,
    Decoder,
    Envelope,
    decode_end,
    encode_end,
    encode_envelope,
)
from prime_async.connect.failures import Code, Failure, failure_of_answer
from prime_async.connect.headers import (
    STREAM_TYPE,
    TIMEOUT_HEADER,
    UNARY_TYPE,
    parse_timeout,
    stream_headers,
    unary_headers,
)

__all__ = [
    "Code",
    "Decoder",
    "Envelope",
    "Failure",
    "MAX_MESSAGE",
    "STREAM_TYPE",
    "TIMEOUT_HEADER",
    "UNARY_TYPE",
    "decode_end",
    "encode_end",
    "encode_envelope",
    "failure_of_answer",
    "parse_timeout",
    "stream_headers",
    "unary_headers",
]
