"""A platform that answers what runs ask for, remembers it, and misbehaves as told.

It stands for the hosted service where a test needs faults at exact moments; lives against the
embedded platform are in `test_platform.py`.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from dataclasses import dataclass, field
from typing import Any

from tests.stub import Answer, Request, Stub

__all__ = ["BATCHING", "SIGNATURE", "PlatformDouble", "Upload"]

SIGNATURE = "X-Amz-Credential=k%2F20261201%2Fs3&X-Amz-Signature=5ec2e7"
"""What a store checks: letter by letter."""

BATCHING = "idempotency,sample-ranges,run-metrics-batch,run-leases"


@dataclass(slots=True)
class Upload:
    """A batch of traces as it arrived."""

    digest: str
    line_format: str
    context: dict[str, str]
    lines: list[dict[str, Any]]


@dataclass
class PlatformDouble:
    """The state behind a `Stub`.

    Attributes:
        uploads: batches that were stored, by digest: each once.
        posts: how many uploads were asked for.
        faults: answers for the next uploads, in place of storing; None stores.
        down: answer every upload with 503.
        poison: ids of traces for whose sake a batch is refused.
        rows: metric rows, in order of arrival.
        created, endings: bodies of creations, and of what ends runs.
        files: what was PUT at presigned addresses, by key.
        confirmed: step and key of each file that is listed: each once.
    """

    stub: Stub
    features: str = BATCHING
    uploads: dict[str, Upload] = field(default_factory=dict)
    posts: int = 0
    faults: list[Answer | None] = field(default_factory=list)
    down: bool = False
    poison: set[str] = field(default_factory=set)
    rows: list[dict[str, Any]] = field(default_factory=list)
    created: list[dict[str, Any]] = field(default_factory=list)
    endings: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    distributions: list[dict[str, Any]] = field(default_factory=list)
    leases: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    confirmed: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        route = self.stub.route
        route("POST", "/api/v1/environmentshub/resolve", self._answer({"data": {"id": "env-1"}}))
        route("GET", "/api/v1/environmentshub/.*", self._answer({"data": {"id": "env-2"}}))
        route("POST", "/api/v1/evaluations/", self._create_eval)
        route("POST", "/api/v1/rft/external-runs", self._create_train)
        route("POST", "/api/v1/traces", self._upload)
        route("POST", "/api/v1/rft/metrics", self._metrics)
        route("POST", "/api/v1/evaluations/ev-1/metric-rows", self._metrics)
        route("POST", "/api/v1/rft/distributions", self._distributions)
        route("POST", "/api/v1/evaluations/ev-1/distributions", self._distributions)
        route("POST", "/api/v1/evaluations/ev-1/samples", self._samples)
        route("POST", "/api/v1/rft/samples", self._samples)
        route("POST", "/api/v1/runs/.*/lease", self._lease)
        route("POST", "/api/v1/rft/samples/presign", self._presign)
        route("PUT", "/store/.*", self._put)
        route("POST", "/api/v1/rft/samples/confirm", self._confirm)
        for method, path in (
            ("POST", "/api/v1/evaluations/ev-1/finalize"),
            ("PUT", "/api/v1/evaluations/ev-1"),
            ("POST", "/api/v1/rft/finalize"),
            ("PUT", "/api/v1/rft/external-runs/tr-1/status"),
        ):
            route(method, path, self._end)

    @property
    def records(self) -> list[dict[str, Any]]:
        """Every stored line, in order of arrival."""
        return [line for upload in self.uploads.values() for line in upload.lines]

    @property
    def ids(self) -> list[Any]:
        """The ids of every stored line."""
        return [line.get("id") for line in self.records]

    def _answer(self, body: dict[str, Any], status: int = 200) -> Answer:
        return Answer(status, headers={"X-Prime-Features": self.features}, json=body)

    def _create_eval(self, request: Request) -> Answer:
        self.created.append(request.json())
        self.leases.append(request.headers.get("X-Prime-Run-Lease", ""))
        return self._answer({"evaluation_id": "ev-1", "name": request.json()["name"]}, 201)

    def _create_train(self, request: Request) -> Answer:
        self.created.append(request.json())
        self.leases.append(request.headers.get("X-Prime-Run-Lease", ""))
        return self._answer({"run": {"id": "tr-1", "status": "RUNNING", "name": "made"}}, 201)

    def _upload(self, request: Request) -> Answer:
        self.posts += 1
        if self.faults:
            fault = self.faults.pop(0)
            if fault is not None:
                return fault
        if self.down:
            return Answer(503, json={"error": {"code": "ingest_unavailable", "message": "down"}})
        upload = _parse(request)
        known = upload.digest in self.uploads
        bad = sorted(self.poison & {line.get("id") for line in upload.lines})
        if bad:
            message = f"line of {bad[0]} is no trace"
            return self._answer({"error": {"code": "invalid_trace", "message": message}}, 400)
        self.uploads.setdefault(upload.digest, upload)
        body = {"upload_id": upload.digest, "status": "committed"}
        return self._answer({**body, "replayed": True} if known else body, 201)

    def _metrics(self, request: Request) -> Answer:
        body = request.json()
        self.rows += body.get("rows") or [body["metrics"]]
        return self._answer({"stored": 1})

    def _distributions(self, request: Request) -> Answer:
        self.distributions.append(request.json())
        return self._answer({"stored": 1})

    def _samples(self, request: Request) -> Answer:
        self.samples += request.json()["samples"]
        return self._answer({"samples_added": len(request.json()["samples"])})

    def _presign(self, request: Request) -> Answer:
        key = f"runs/tr-1/{request.json()['step']}/{request.number}"
        url = f"{self.stub.url}/store/{key}?{SIGNATURE}"
        return self._answer({"data": {"presignedUrl": url, "s3Key": key}})

    def _put(self, request: Request) -> Answer:
        if "Authorization" in request.headers or not request.target.endswith(f"?{SIGNATURE}"):
            return Answer(403, body=b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        assert request.headers["Content-Type"] == "application/parquet"
        self.files[request.path.removeprefix("/store/")] = request.body
        return Answer(200)

    def _confirm(self, request: Request) -> Answer:
        body = request.json()
        found = (body["step"], body["s3_key"])
        if body["s3_key"] not in self.files:
            return self._answer({"error": {"code": "not_uploaded", "message": "not there"}}, 409)
        if found not in self.confirmed:
            self.confirmed.append(found)
        return self._answer({"success": True})

    def _end(self, request: Request) -> Answer:
        self.endings.append((f"{request.method} {request.path}", request.json()))
        return self._answer({"evaluation_id": "ev-1"})

    def _lease(self, request: Request) -> Answer:
        self.leases.append(request.path)
        return self._answer({"run_id": "r", "expires_at": "", "seconds": 90})


def _parse(request: Request) -> Upload:
    boundary = re.search(r"boundary=(\S+)", request.headers["Content-Type"])
    assert boundary is not None
    mark = b"--" + boundary[1].strip('"').encode()
    parts = {}
    for part in request.body.split(mark)[1:-1]:
        head, _, body = part.partition(b"\r\n\r\n")
        name = re.search(rb'name="(\w+)"', head)
        assert name is not None
        parts[name[1].decode()] = (head, body[:-2])
    head, data = parts["traces"]
    if b"gzip" in head:
        data = zlib.decompress(data, 31)
    digest = hashlib.sha256(data).hexdigest()
    assert request.headers["Idempotency-Key"] == f"sha256:{digest}"
    return Upload(
        digest,
        request.headers.get("X-Prime-Line-Format", "trace"),
        json.loads(parts["metadata"][1]).get("context", {}),
        [json.loads(line) for line in data.splitlines()],
    )
