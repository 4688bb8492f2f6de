"""A traces service that keeps what it is sent and refuses as told, on the stub of the tests."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from email.parser import BytesParser
from typing import Any

from backports import zstd

from tests.stub import Answer, Request, Stub

__all__ = ["Receiver", "Upload", "committed", "refusal", "upload_in"]


@dataclass(frozen=True)
class Upload:
    """One request as the service reads it."""

    key: str
    lines: bytes
    metadata: dict[str, Any]
    encoding: str | None
    line_format: str | None
    parts: dict[str, Any]

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.lines).hexdigest()


def upload_in(request: Request) -> Upload:
    """Take the form of an upload apart, with the parser of mail that the standard library has."""
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    message = BytesParser().parsebytes(head + request.body)
    parts = {
        part.get_param("name", header="Content-Disposition"): part for part in message.get_payload()
    }
    sent = parts["traces"].get_payload(decode=True)
    encoding = parts["traces"]["Content-Encoding"]
    if encoding == "gzip":
        sent = zlib.decompress(sent, 31)
    elif encoding == "zstd":
        sent = zstd.decompress(sent)
    return Upload(
        key=request.headers["Idempotency-Key"],
        lines=sent,
        metadata=json.loads(parts["metadata"].get_payload(decode=True)),
        encoding=encoding,
        line_format=request.headers.get("X-Prime-Line-Format"),
        parts=parts,
    )


def committed(request: Request, **headers: str) -> Answer:
    """Answer as the service does when every line is stored."""
    digest = request.headers["Idempotency-Key"].removeprefix("sha256:")
    return Answer(201, headers=headers, json={"upload_id": digest, "status": "committed"})


def refusal(status: int, code: str | None = None, **headers: str) -> Answer:
    """Answer with an error of the service."""
    error = {"message": "refused"} | ({"code": code} if code else {})
    return Answer(
        status, headers={k.replace("_", "-"): v for k, v in headers.items()}, json={"error": error}
    )


class Receiver:
    """Commits every upload on a stub, but those whose lines hold a word it is told to refuse."""

    def __init__(self, stub: Stub, *, features: str = "") -> None:
        self.stub = stub
        self.uploads: list[Upload] = []
        self.refusing: dict[bytes, Answer] = {}
        self._headers = {"X-Prime-Features": features} if features else {}
        stub.route("POST", "/api/v1/traces", self._take)

    def _take(self, request: Request) -> Answer:
        upload = upload_in(request)
        for word, answer in self.refusing.items():
            if word in upload.lines:
                return answer
        self.uploads.append(upload)
        return committed(request, **self._headers)
