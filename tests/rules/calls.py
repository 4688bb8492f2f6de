"""Every public call of the clients, with arguments that suit it, as the classes have them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prime_async import AsyncAPIClient, AsyncEvalsClient
from tests.faces import Face
from tests.official_stub import EVALUATION

__all__ = ["CALLS", "NO_DEADLINE", "PublicCall"]

_ARGUMENTS: dict[str, Any] = {
    "evaluation_id": EVALUATION,
    "name": "n",
    "run_id": "r",
    "samples": [{"example_id": 1}],
    "environment_ids": ["env-1"],
    "inference_model": "m",
    "eval_config": {},
    "method": "GET",
    "path": "/evaluations/",
}
"""What calls are given, by the name of the argument."""

_RUN = Path(__file__).parents[1] / "data" / "verifiers_run" / "gsm8k--gpt-4o-mini" / "example"
_OWN_ARGUMENTS: dict[str, dict[str, Any]] = {
    "push_run": {"path": _RUN, "evaluation_id": EVALUATION},
}
"""What single calls are given, where the names alone do not suit them."""

NO_DEADLINE = {
    "aclose": "it waits for nobody: rule 1 shows what becomes of the calls under way",
    "connect": "it sends nothing; starting the embedded platform has limits of its own",
}
"""Public coroutines without ``timeout=``, and why."""


class PublicCall:
    """One method of one client."""

    def __init__(
        self, kind: type, name: str, arguments: dict[str, Any], *, takes_timeout: bool
    ) -> None:
        self.kind = kind
        self.name = name
        self.arguments = arguments
        self.takes_timeout = takes_timeout

    def __repr__(self) -> str:
        return f"{self.kind.__name__}.{self.name}"

    async def make(self, face: Face, **more: Any) -> Any:
        """Carry it out on a client of its own; an iterator is read to its end."""
        async with getattr(face, self.kind.__name__)() as client:
            made = getattr(client, self.name)(**self.arguments, **more)
            if hasattr(made, "__aiter__"):
                return [item async for item in made]
            return await made


def _public_calls(kind: type) -> Iterator[PublicCall]:
    for name, member in inspect.getmembers(kind, inspect.isfunction):
        asynchronous = inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)
        if name.startswith("_") or name in NO_DEADLINE or not asynchronous:
            continue
        taken = inspect.signature(member).parameters
        by_name = {each: _ARGUMENTS[each] for each in taken if each in _ARGUMENTS}
        arguments = _OWN_ARGUMENTS.get(name, by_name)
        yield PublicCall(kind, name, arguments, takes_timeout="timeout" in taken)


CALLS = [*_public_calls(AsyncEvalsClient), *_public_calls(AsyncAPIClient)]
