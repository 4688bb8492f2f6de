"""What public calls are given: one argument per name, the same for every rule and every fault.

The things they name are those of :class:`tests.faults.everything.Everything`. Files are in the home
of the test, and so arguments are made when a call is.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prime_async import (
    BackgroundJob,
    BuildImageRequest,
    CreateSandboxRequest,
    ImageUpdateItem,
    ImageUpdatePatch,
    ImageUpdateSource,
    LanRule,
    UpdateImagesRequest,
)
from prime_async.traces.batches import digest_of
from tests.official_stub import EVALUATION
from tests.traces.records import line, trace

__all__ = ["JOB", "SANDBOX", "arguments_of"]

SANDBOX = "sbx0"
_BOX = CreateSandboxRequest(name="n", docker_image="python:3.11")
JOB = BackgroundJob.of(SANDBOX, "0000abcd")

_RUN = Path(__file__).parents[1] / "data" / "verifiers_run" / "gsm8k--gpt-4o-mini" / "example"
_KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()
_RECORD = trace("trace-1", run="run-1")
_RENAME = ImageUpdateItem(
    source=ImageUpdateSource(reference="mine/n:t"), set=ImageUpdatePatch(name="other")
)


_BY_NAME: dict[str, Any] = {
    "evaluation_id": EVALUATION,
    "name": "n",
    "run_id": "run-1",
    "samples": [{"example_id": 1}],
    "environment_ids": ["env-1"],
    "inference_model": "m",
    "eval_config": {},
    "method": "GET",
    "path": "/evaluations/",
    "endpoint": "/traces",
    "sandbox_id": SANDBOX,
    "sandbox_ids": [SANDBOX],
    "command": "true",
    "job": JOB,
    "jobs": [JOB],
    "checkpoint_ids": ["ckpt-1"],
    "checkpoint_id": "ckpt-1",
    "network_id": "net-1",
    "exposure_id": "exp-1",
    "session_id": "ssh-1",
    "build_id": "build-1",
    "port": 8000,
    "public_key": _KEY,
    "deny": ["example.com"],
    "rules": [LanRule(from_="*", to="*")],
    "file_bytes": b"bytes",
    "image_name": "n",
    "source_image": "python:3.11",
    "trace_id": "trace-1",
    "episode_id": "episode-1",
    "group_by": "model_id",
    "query": "needle",
    "lines": [line(_RECORD)],
    "records": [_RECORD],
    "data": line(_RECORD),
    "body": line(_RECORD),
    "digest": digest_of([line(_RECORD)]),
}
"""By the name of the parameter."""

_OF_CALL: dict[str, dict[str, Any]] = {
    "AsyncEvalsClient.push_run": {"path": _RUN, "evaluation_id": EVALUATION},
    "AsyncSandboxClient.create": {"request": _BOX},
    "AsyncSandboxClient.sandbox": {"request": _BOX},
    "AsyncVolumes.create": {"name": "new"},
    "AsyncImageClient.start_build": {"build_id": "build-2"},
    "AsyncImageClient.initiate_build": {"request": BuildImageRequest(source_image="python:3.11")},
    "AsyncImageClient.transfer_image": {"source_image": "python:3.11"},
    "AsyncImageClient.update_images": {"request": UpdateImagesRequest(updates=[_RENAME])},
}
"""Of single calls, where the names alone do not suit them."""


def arguments_of(call: str, parameters: Iterable[str]) -> dict[str, Any]:
    """Return what a call is given.

    Args:
        call: its class and name.
        parameters: what it takes.
    """
    if call in _OF_CALL:
        return _OF_CALL[call]
    known = _BY_NAME | _files(Path.home(), call)
    return {name: known[name] for name in parameters if name in known}


def _files(home: Path, call: str) -> dict[str, Any]:
    """Write what is sent, and name where to put what is fetched."""
    tree = home / "tree"
    tree.mkdir(exist_ok=True)
    (tree / "Dockerfile").write_text("FROM scratch\n", "utf-8")
    sent = home / "sent.jsonl"
    sent.write_bytes(line(_RECORD))
    there = home / "there"
    names: dict[str, Any] = {
        "dest": home / "fetched",
        "local_path": tree if call.endswith("upload_tree") else home / "fetched-tree",
        "local_file_path": sent if call.endswith("upload_file") else home / "fetched",
    }
    if call.startswith(("AsyncImageClient", "AsyncTracesClient")):
        names["path"] = tree if "Image" in call else sent
    there.mkdir(exist_ok=True)
    (there / "file").write_bytes(b"there")
    target = there if call.endswith(("tree", "list_files")) else there / "file"
    return {**names, "file_path": str(target)}
