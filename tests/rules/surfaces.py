"""One way to ask all three faces the same things, and one form for what they answer.

The Python faces are called as users call them; the command line is run in this process, on a thread
of its own, so that the loop of the test, where the platform may live, stays free. All of them are
configured by the environment.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prime_async.errors import PartialPushError, PrimeError
from prime_async.evals import AsyncEvalsClient, PushReceipt
from prime_async.evals.sources import Samples
from tests.cli.harness import Ran
from tests.evals.pushing import numbered, write_jsonl
from tests.faces import Face
from tests.official_stub import EVALUATION, OfficialStub
from tests.stub import Answer

__all__ = ["CommandSurface", "Outcome", "PythonSurface", "Surface", "leave_on_disk"]

_FACTS = ("status", "code", "request_id", "retry_after", "field", "index")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call.

    Attributes:
        value: what it returned: an object of the core, or the JSON document of the command.
        kind: class of the error, None when there was none.
        said: everything that was said about the error.
        hint: what to do next, None when nothing was said.
        facts: what programs are told about the error.
        receipt: the account of a push, as plain values.
        error: the exception itself; the command has none.
        exit_code: what the command ended with.
    """

    value: Any = None
    kind: str | None = None
    said: str = ""
    hint: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    receipt: dict[str, Any] | None = None
    error: PrimeError | None = None
    exit_code: int = 0

    @property
    def ok(self) -> bool:
        """It did what it was asked for, and said so."""
        return self.kind is None and self.exit_code == 0


class Surface:
    """A face, asked in one language.

    Attributes:
        name: "async", "sync" or "command".
        folder: where files for it are written.
    """

    name: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def create(self, name: str, **described: Any) -> Outcome:
        """Create an evaluation of the environment ``env``."""
        raise NotImplementedError

    async def get(self, evaluation_id: str) -> Outcome:
        """Read an evaluation."""
        raise NotImplementedError

    async def list_them(self) -> Outcome:
        """Read a page of evaluations."""
        raise NotImplementedError

    async def update(self, evaluation_id: str) -> Outcome:
        """Rename an evaluation."""
        raise NotImplementedError

    async def page(self, evaluation_id: str) -> Outcome:
        """Read a page of samples."""
        raise NotImplementedError

    async def finalize(self, evaluation_id: str, metrics: Mapping[str, Any]) -> Outcome:
        """Close an evaluation."""
        raise NotImplementedError

    async def delete(self, evaluation_id: str) -> Outcome:
        """Delete an evaluation."""
        raise NotImplementedError

    async def push(self, evaluation_id: str, samples: list[Any]) -> Outcome:
        """Push samples: a list where there is Python, a JSONL file where there is not."""
        raise NotImplementedError

    async def push_file(self, evaluation_id: str, path: Path) -> Outcome:
        """Push a JSONL file."""
        raise NotImplementedError

    async def resume(self, evaluation_id: str, samples: list[Any], token: str) -> Outcome:
        """Go on with a push of the same samples."""
        raise NotImplementedError

    async def sync(self) -> Outcome:
        """Deliver what is kept on disk."""
        raise NotImplementedError

    def calls(self) -> dict[str, Callable[[], Awaitable[Outcome]]]:
        """One call of every kind, by name."""
        return {
            "create": lambda: self.create("n"),
            "get": lambda: self.get(EVALUATION),
            "list": self.list_them,
            "update": lambda: self.update(EVALUATION),
            "page": lambda: self.page(EVALUATION),
            "finalize": lambda: self.finalize(EVALUATION, {"accuracy": 1.0}),
            "delete": lambda: self.delete(EVALUATION),
            "push": lambda: self.push(EVALUATION, [{"example_id": 0}]),
        }


class PythonSurface(Surface):
    """The async client, or the sync one in its clothes."""

    def __init__(self, face: Face, folder: Path) -> None:
        super().__init__(folder)
        self.face = face
        self.name = face.name

    async def create(self, name: str, **described: Any) -> Outcome:
        return await self._call("create_evaluation", name, dataset="env", **described)

    async def get(self, evaluation_id: str) -> Outcome:
        return await self._call("get_evaluation", evaluation_id)

    async def list_them(self) -> Outcome:
        return await self._call("list_evaluations")

    async def update(self, evaluation_id: str) -> Outcome:
        return await self._call("update_evaluation", evaluation_id, name="new")

    async def page(self, evaluation_id: str) -> Outcome:
        return await self._call("get_samples", evaluation_id)

    async def finalize(self, evaluation_id: str, metrics: Mapping[str, Any]) -> Outcome:
        return await self._call("finalize_evaluation", evaluation_id, metrics=metrics)

    async def delete(self, evaluation_id: str) -> Outcome:
        return await self._call("delete_evaluation", evaluation_id)

    async def push(self, evaluation_id: str, samples: Samples, **options: Any) -> Outcome:
        return await self._call("push_samples", evaluation_id, samples, **options)

    async def push_file(self, evaluation_id: str, path: Path) -> Outcome:
        return await self._call("push_samples", evaluation_id, path)

    async def resume(self, evaluation_id: str, samples: list[Any], token: str) -> Outcome:
        return await self._call("push_samples", evaluation_id, samples, resume=token)

    async def sync(self) -> Outcome:
        return await self._call("sync_pushes")

    async def _call(self, method: str, *args: Any, **options: Any) -> Outcome:
        try:
            async with self.face.AsyncEvalsClient() as client:
                value = await getattr(client, method)(*args, **options)
        except PrimeError as error:
            return _explained(error)
        return Outcome(value, receipt=_plain(value))


def _explained(error: PrimeError) -> Outcome:
    facts = {name: getattr(error, name, None) for name in _FACTS}
    return Outcome(
        kind=type(error).__name__,
        said=_everything(error),
        hint=error.hint,
        facts={name: value for name, value in facts.items() if value is not None},
        receipt=_plain(getattr(error, "receipt", None)),
        error=error,
    )


def _plain(receipt: object) -> dict[str, Any] | None:
    """A receipt as a program reads it that is not written in Python."""
    if not isinstance(receipt, PushReceipt):
        return None
    plain: dict[str, Any] = json.loads(msgspec.json.encode(receipt.to_dict()))
    return plain


def _everything(error: BaseException) -> str:
    cause = error.__cause__
    return f"{error}; {_everything(cause)}" if cause is not None else str(error)


class CommandSurface(Surface):
    """The command line, in its JSON mode."""

    name = "command"

    def __init__(self, run: Callable[..., Ran], folder: Path) -> None:
        super().__init__(folder)
        self._run = run

    async def create(self, name: str, **described: Any) -> Outcome:
        words = [f"--{option}={json.dumps(value)}" for option, value in described.items()]
        return await self.run("eval", "create", "--name", name, "--env", "env", *words)

    async def get(self, evaluation_id: str) -> Outcome:
        return await self.run("eval", "get", evaluation_id)

    async def list_them(self) -> Outcome:
        return await self.run("eval", "list")

    async def update(self, evaluation_id: str) -> Outcome:
        return await self.run("eval", "update", evaluation_id, "--name", "new")

    async def page(self, evaluation_id: str) -> Outcome:
        return await self.run("eval", "samples", evaluation_id)

    async def finalize(self, evaluation_id: str, metrics: Mapping[str, Any]) -> Outcome:
        return await self.run("eval", "finalize", evaluation_id, "--metrics", json.dumps(metrics))

    async def delete(self, evaluation_id: str) -> Outcome:
        return await self.run("eval", "delete", evaluation_id, "--yes")

    async def push(self, evaluation_id: str, samples: list[Any]) -> Outcome:
        return await self.push_file(evaluation_id, self._written(samples))

    async def push_file(self, evaluation_id: str, path: Path) -> Outcome:
        words = ["--eval-id", evaluation_id, "--env", "env", "--no-finalize"]
        return await self.run("eval", "push", str(path), *words)

    async def resume(self, evaluation_id: str, samples: list[Any], token: str) -> Outcome:
        path = str(self._written(samples))
        return await self.run("eval", "push", path, "--resume", token, "--no-finalize")

    async def sync(self) -> Outcome:
        return await self.run("eval", "sync")

    async def run(self, *words: str) -> Outcome:
        """Run a command line as a program does."""
        return outcome_of(await self.read(*words, "--output", "json"))

    async def read(self, *words: str) -> Ran:
        """Run a command line as a person does."""
        return await asyncio.to_thread(self._run, *words)

    def _written(self, samples: list[Any]) -> Path:
        return write_jsonl(self.folder / "samples.jsonl", samples)


def outcome_of(ran: Ran) -> Outcome:
    """Read what a command said."""
    value = json.loads(ran.out) if ran.out else None
    receipt = value.get("receipt") if isinstance(value, dict) else None
    if ran.code == 0:
        return Outcome(value, receipt=receipt)
    error = json.loads(ran.err.splitlines()[-1])["error"]
    # What a person reads is the same, on more lines.
    said = [str(error[name]) for name in ("message", "where", "why", "hint") if name in error]
    return Outcome(
        value,
        kind=error["type"],
        said="; ".join(said),
        hint=error.get("hint"),
        facts={name: error[name] for name in _FACTS if name in error},
        receipt=receipt,
        exit_code=ran.code,
    )


async def leave_on_disk(stub: OfficialStub, count: int = 3) -> None:
    """Push from a generator to a platform that refuses it: the samples are kept in the spool."""
    accept = stub.push
    stub.route("POST", ".*/samples", Answer(403, json={"detail": "no"}))
    async with AsyncEvalsClient() as client:
        with pytest.raises(PartialPushError) as caught:
            await client.push_samples(EVALUATION, iter(numbered(count)))
    assert caught.value.receipt.spooled == count
    stub.route("POST", ".*/samples", accept)
    stub.requests.clear()
