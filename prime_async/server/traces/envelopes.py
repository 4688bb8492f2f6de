"""The envelope of an episode as it is read back: its traces are the ids of its traces."""

from __future__ import annotations

import msgspec

from prime_async.server.traces.documents import decode_trace

__all__ = ["with_member_ids"]

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_members = msgspec.json.Decoder(list[msgspec.Raw])


def with_member_ids(episode: bytes) -> bytes:
    """A stored episode with the ids of its traces in their place; the rest as it was sent."""
    fields = _fields.decode(episode)
    ids = [decode_trace(member).id for member in _members.decode(fields["traces"])]
    fields["traces"] = msgspec.Raw(msgspec.json.encode(ids))
    return msgspec.json.encode(fields)
