"""What aiohttp's exceptions mean for a caller: did the request arrive, and may it help to try
again?
"""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp
from aiohttp.client_exceptions import UnixClientConnectorError
from multidict import CIMultiDict, CIMultiDictProxy

from prime_async.errors import APIConnectionError, APIError, APITimeoutError, ProtocolError
from prime_async.transport.network import CA_VARIABLES
from prime_async.transport.policy import RETRYABLE_STATUSES
from prime_async.transport.sessions import CONNECT_TIMEOUT

__all__ = ["Fault", "classify", "without_request"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A request that got no complete answer.

    Attributes:
        what: words for the message.
        arrived: False when it provably never reached the platform.
        retryable: whether another try can end differently.
        kind: class of the error.
    """

    what: str
    arrived: bool
    retryable: bool
    kind: type[APIError] = APIConnectionError
    hint: str | None = None

    def to_error(self, *, method: str, url: str, safe: bool) -> APIError:
        """Make the error; unless the call is safe to repeat, it says that it may have been carried
        out.
        """
        ambiguous = self.arrived and not safe
        error = self.kind(
            f"{method} {url}: {self.what}",
            method=method,
            url=url,
            ambiguous=ambiguous,
            retryable=self.retryable,
            hint="it may have been carried out" if ambiguous and self.hint is None else self.hint,
        )
        if isinstance(error, APITimeoutError):
            error.budget, error.seconds = "connect", CONNECT_TIMEOUT
        return error


def classify(error: Exception) -> Fault | None:
    """Explain an exception of aiohttp; None when it is not one."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return _tls_fault(error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        what = f"no connection within {CONNECT_TIMEOUT:g} s"
        return Fault(what, arrived=False, retryable=True, kind=APITimeoutError)
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        return _proxy_fault(error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return _unreachable(error)
    if isinstance(error, aiohttp.TooManyRedirects):
        return Fault("it redirects without end", arrived=False, retryable=False)
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return Fault(f"not an http address: {_words(error)}", arrived=False, retryable=False)
    if isinstance(error, aiohttp.ClientResponseError):
        what = f"the answer is not proper HTTP: {_words(error)}"
        return Fault(what, arrived=True, retryable=True, kind=ProtocolError)
    if isinstance(error, aiohttp.ClientError | ConnectionError):
        return Fault(_broken(error), arrived=True, retryable=True)
    return None


def _broken(error: Exception) -> str:
    if isinstance(error, aiohttp.ServerDisconnectedError):  # its own words are half an answer
        return "the connection broke: it was closed without an answer"
    what = (
        "answer broke off" if isinstance(error, aiohttp.ClientPayloadError) else "connection broke"
    )
    return f"the {what}: {_words(error)}"


def _proxy_fault(
    error: aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError,
) -> Fault:
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return Fault(f"the proxy cannot be reached: {_words(error)}", arrived=False, retryable=True)
    what = f"the proxy answered {error.status} {error.message}"
    return Fault(what, arrived=False, retryable=error.status in RETRYABLE_STATUSES)


def _unreachable(error: aiohttp.ClientConnectorError) -> Fault:
    if not isinstance(error, UnixClientConnectorError):
        return Fault(f"cannot connect: {_words(error)}", arrived=False, retryable=True)
    what = f"the embedded platform does not answer on {error.path}: {_words(error)}"
    hint = "`prime-async local start` starts it, `prime-async local logs` shows what it said"
    return Fault(what, arrived=False, retryable=True, hint=hint)


def _tls_fault(
    error: aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError,
) -> Fault:
    hint = "does this address speak https?"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        hint = f"for a private certificate authority set one of {', '.join(CA_VARIABLES)}"
    return Fault(f"TLS failed: {_words(error)}", arrived=False, retryable=False, hint=hint)


def without_request(error: BaseException) -> BaseException:
    """Take the request out of an error of aiohttp and of its causes: its headers hold the key.

    They are in an attribute, which ``repr`` shows, and in local variables of aiohttp's frames,
    which crash reporters print.
    """
    known: BaseException | None = error
    while known is not None:
        known.__traceback__ = None
        if isinstance(known, aiohttp.ClientResponseError):
            info = known.request_info
            known.request_info = aiohttp.RequestInfo(
                info.url, info.method, CIMultiDictProxy(CIMultiDict()), info.real_url
            )
            known.history = ()
            known.args = (known.request_info, ())
        known = known.__cause__ or known.__context__
    return error


def _words(error: Exception) -> str:
    reason = getattr(error, "os_error", None) or error
    text = getattr(reason, "strerror", None) or getattr(reason, "message", None) or str(reason)
    return " ".join(str(text or type(error).__name__).split())
