"""Traces as rollouts leave them, and uploads of them as the wire has it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.server.wire import Reply, Wire

NOW = 1_800_000_000.0
"""What the clock of the tests says at first."""

BOUNDARY = "border"


def trace(trace_id: str, **fields: Any) -> dict[str, Any]:
    """A short rollout: a question, an answer with a tool call, what the tool said."""
    record: dict[str, Any] = {
        "id": trace_id,
        "timing": {"start": NOW - 60, "scoring": {"start": NOW - 41, "end": NOW - 40}},
        "run": {"id": "run-1", "type": "train", "work": {"type": "train", "step": 3}},
        "agent": {
            "name": "solver",
            "config": {
                "model": "small",
                "client": {"base_url": "https://api.pinference.ai/api/v1"},
            },
        },
        "task": {"type": "qa", "data": {"name": "sum-1"}, "key": "k", "hash": "h"},
        "tools": [{"name": "calc", "description": "Adds", "parameters": {}}],
        "nodes": [
            {"parent": None, "message": {"role": "user", "content": "2+2?"}, "sampled": False},
            {
                "parent": 0,
                "message": {
                    "role": "assistant",
                    "content": "Let me see",
                    "reasoning_content": "adding is easy",
                    "tool_calls": [{"id": "c", "name": "calc", "arguments": '{"a": 2}'}],
                },
                "sampled": True,
                "timestamp": NOW - 50,
                "token_ids": [1, 2, 3],
            },
            {
                "parent": 1,
                "message": {
                    "role": "tool",
                    "content": [{"type": "text", "text": "four"}],
                    "tool_call_id": "c",
                },
                "sampled": False,
            },
        ],
        "calls": [
            {
                "node": 1,
                "model": "small",
                "endpoint": "chat",
                "finish_reason": "tool_calls",
                "usage": {"prompt_tokens": 10, "cached_input_tokens": 20, "completion_tokens": 5},
                "time": {"start": NOW - 55, "end": NOW - 50},
            }
        ],
        "rewards": {"right": {"score": 0.5, "weight": 2.0}, "short": {"score": 0.25}, "x": None},
        "metrics": {"turns": 1.0, "unknown": None},
        "stop_condition": "done",
        "ok": True,
        "errors": [],
    }
    return {**record, **fields}


def episode(episode_id: str, traces: Sequence[Mapping[str, Any]], **fields: Any) -> dict[str, Any]:
    """An episode of traces."""
    record = {
        "id": episode_id,
        "env": {"id": "env-1"},
        "run": {"id": "run-1"},
        "ok": True,
        "errors": [],
        "traces": list(traces),
    }
    return {**record, **fields}


def lines(*records: Mapping[str, Any]) -> bytes:
    """Records as lines, spelled as the official client spells them."""
    return b"".join(
        json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        for record in records
    )


def key_of(data: bytes) -> str:
    """The key of an upload."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def form(
    data: bytes,
    *,
    metadata: Any = None,
    encoding: str | None = None,
) -> bytes:
    """The body of an upload; ``data`` is what the part holds, encoded already."""
    told = {"schema_version": 1} if metadata is None else metadata
    text = told if isinstance(told, bytes) else json.dumps(told).encode()
    coded = b"" if encoding is None else f"Content-Encoding: {encoding}\r\n".encode()
    return b"".join(
        (
            b"--border\r\n",
            b'Content-Disposition: form-data; name="metadata"\r\n',
            b"Content-Type: application/json\r\n\r\n",
            text,
            b"\r\n--border\r\n",
            b'Content-Disposition: form-data; name="traces"; filename="traces.jsonl"\r\n',
            b"Content-Type: application/x-ndjson\r\n",
            coded,
            b"\r\n",
            data,
            b"\r\n--border--\r\n",
        )
    )


async def send(
    wire: Wire,
    data: bytes,
    *,
    episodes: bool = False,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> Reply:
    """Upload lines, compressed; ``body`` and ``headers`` replace what would be sent."""
    if body is None:
        coded = gzip.compress(data, 1)
        body = form(coded, encoding="gzip", **options)
    told = {
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
        "Idempotency-Key": key_of(data),
        **({"X-Prime-Line-Format": "episode"} if episodes else {}),
        **(headers or {}),
    }
    return await wire.send("POST", "/traces", data=io.BytesIO(body), headers=told)


async def store(wire: Wire, *records: Mapping[str, Any], **options: Any) -> str:
    """Upload records that are expected to be stored, and return the upload's id."""
    reply = await send(wire, lines(*records), **options)
    assert reply.status == 201, reply
    upload_id: str = reply.json["upload_id"]
    return upload_id


async def ids(
    wire: Wire, path: str = "/traces", name: str = "trace_id", **params: Any
) -> list[str]:
    """The ids on a page."""
    reply = await wire.get(path, params=params)
    assert reply.status == 200, reply
    return [item[name] for item in reply.json["items"]]
