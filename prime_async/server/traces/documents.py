"""The parts of a trace and of an episode that the server reads; everything else is skipped.

Only what is said here is decoded, which is several times faster than decoding all of it: most of a
rollout is token ids. Values are of any type: what an odd one means is decided by
:mod:`prime_async.server.traces.projection`, and the document itself is kept as it was sent.
"""

from __future__ import annotations

from typing import Any

import msgspec

from prime_async.server.traces.windows import WINDOW_BYTES, Windows, in_windows

__all__ = [
    "CallDocument",
    "EpisodeDocument",
    "NodeDocument",
    "TraceDocument",
    "decode_episode",
    "decode_trace",
]


class NodeDocument(msgspec.Struct, gc=False):
    """One message of the graph."""

    parent: Any = None
    message: Any = None
    sampled: Any = None
    timestamp: Any = None


class CallDocument(msgspec.Struct, gc=False):
    """One call of a model."""

    node: Any = None
    model: Any = None
    endpoint: Any = None
    finish_reason: Any = None
    usage: Any = None
    time: Any = None
    error: Any = None


class TraceDocument(msgspec.Struct, gc=False):
    """A trace as far as the server reads it; ``traces`` is there to tell that it is an episode."""

    id: Any = None
    timing: Any = None
    run: Any = None
    agent: Any = None
    task: Any = None
    episode: Any = None
    nodes: list[NodeDocument] | None = None
    calls: list[CallDocument] | None = None
    rewards: Any = None
    metrics: Any = None
    stop_condition: Any = None
    ok: Any = None
    errors: Any = None
    tools: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    traces: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class EpisodeDocument(msgspec.Struct, gc=False):
    """The envelope of an episode, its traces as the JSON texts they are."""

    id: Any = None
    env: Any = None
    run: Any = None
    ok: Any = None
    outcome: Any = None
    errors: Any = None
    traces: list[msgspec.Raw] | None = None


_trace = msgspec.json.Decoder(TraceDocument)
_nodes = msgspec.json.Decoder(list[NodeDocument])
_episode = msgspec.json.Decoder(EpisodeDocument)
_members = msgspec.json.Decoder(list[msgspec.Raw])
_mark = msgspec.json.Decoder(NodeDocument)
_object = msgspec.json.Decoder(dict[str, Any])


def decode_trace(text: bytes | msgspec.Raw, *, window: int = WINDOW_BYTES) -> TraceDocument:
    """Decode a trace, however odd its values are.

    Raises:
        msgspec.ValidationError: it is JSON, but no object.
        msgspec.DecodeError, RecursionError: it is no JSON, or nested too deeply.
    """
    windows = in_windows(text, "nodes", _nodes.decode, window=window)
    if windows is not None:
        document = _trace_around(windows)
        if document is not None:
            return document
    try:
        return _trace.decode(text)
    except msgspec.ValidationError:
        return _lenient(_object.decode(text))


def _trace_around(windows: Windows) -> TraceDocument | None:
    """The trace whose nodes were taken out; None when it was not those of the trace."""
    try:
        document = _trace.decode(windows.rest)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not document.nodes or document.nodes[0].parent != windows.mark:
        return None
    document.nodes[:1] = windows.elements
    return document


def decode_episode(text: bytes, *, window: int = WINDOW_BYTES) -> EpisodeDocument:
    """Decode an episode's envelope; raises as :func:`decode_trace` does, and ValidationError also
    when ``traces`` is no list.
    """
    windows = in_windows(text, "traces", _members.decode, window=window)
    if windows is not None:
        document = _episode_around(windows)
        if document is not None:
            return document
    return _episode.decode(text)


def _episode_around(windows: Windows) -> EpisodeDocument | None:
    """The episode whose traces were taken out; None when it was not those of the episode."""
    try:
        document = _episode.decode(windows.rest)
        if not document.traces or _mark.decode(document.traces[0]).parent != windows.mark:
            return None
    except (msgspec.DecodeError, RecursionError):
        return None
    document.traces[:1] = windows.elements
    return document


def _lenient(found: dict[str, Any]) -> TraceDocument:
    """What can be understood of a trace whose nodes or calls are not lists of objects."""
    plain = {name: found[name] for name in TraceDocument.__struct_fields__ if name in found}
    for name in ("tools", "traces"):
        if name in plain:
            plain[name] = msgspec.Raw(msgspec.json.encode(plain[name]))
    nodes = [_part(NodeDocument, one) for one in _listed(plain.pop("nodes", None))]
    calls = [_part(CallDocument, one) for one in _listed(plain.pop("calls", None))]
    return TraceDocument(**plain, nodes=nodes, calls=calls)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _part(model: type[Any], value: Any) -> Any:
    known = value if isinstance(value, dict) else {}
    return model(**{name: known[name] for name in model.__struct_fields__ if name in known})
