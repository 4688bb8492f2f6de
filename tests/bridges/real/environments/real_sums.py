"""An environment of verifiers 0.4: three sums, a tool that adds, and a harness inside the process.

A harness may be any program that reaches its model through verifiers; this one is a loop, because a
process for each rollout would cost seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import verifiers.v1 as vf
from verifiers.v1.harness import Harness, HarnessConfig
from verifiers.v1.runtimes import ProgramResult

__all__ = ["SumsHarness", "SumsTaskset"]

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}


class SumsData(vf.TaskData):
    """A row: two numbers and their sum."""

    a: int
    b: int
    answer: str


class SumsTask(vf.Task[SumsData]):
    """Asks for a sum."""

    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        """Whether the last answer is the sum."""
        return float(trace.last_reply == self.data.answer)

    @vf.reward(weight=0.25)
    async def short(self, trace: vf.Trace) -> float:
        """Whether it says little."""
        return float(len(trace.last_reply) < 10)

    @vf.metric
    async def turns(self, trace: vf.Trace) -> float:
        """How often the model was asked."""
        trace.info["judged"] = {"by": "turns", "naïve": True}
        return float(trace.num_turns)


class SumsTaskset(vf.Taskset[SumsTask]):
    """Three sums; the second is asked with a tool, the third makes the model fail."""

    def load(self) -> Iterator[SumsTask]:
        """Yield the rows."""
        for a, b in ((1, 2), (30, 12), (-1, 0)):
            yield SumsTask(
                SumsData(
                    name=f"sum-{a}-{b}",
                    prompt=f"How much is {a} + {b}? ¿Cuánto?",
                    system_prompt="Answer with a number.",
                    a=a,
                    b=b,
                    answer=str(a + b),
                ),
                self.config.task,
            )


class SumsHarness(Harness[HarnessConfig]):
    """Talks until the model calls no tool any more."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: Any,
    ) -> ProgramResult:
        """Ask, answer tools, ask again."""
        system, prompt = self.resolve_prompt(data)
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": system},
            {"role": "user", "content": prompt},
        ]
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(base_url=endpoint, headers=headers, timeout=30) as client:
            while True:
                body = {"model": ctx.model, "messages": messages, "tools": [ADD]}
                answered = await client.post("/chat/completions", json=body)
                if answered.status_code != 200:
                    return ProgramResult(exit_code=1, stdout="", stderr=answered.text)
                said = answered.json()["choices"][0]["message"]
                messages.append(said)
                calls = said.get("tool_calls") or []
                if not calls:
                    return ProgramResult(exit_code=0, stdout="", stderr="")
                for call in calls:
                    told = json.loads(call["function"]["arguments"])
                    total = str(told["a"] + told["b"])
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": total})
