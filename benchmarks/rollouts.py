"""Synthetic traces as a trainer uploads them: texts, token ids, masks and log probabilities."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.samples import make_text

__all__ = ["LARGE", "SMALL", "make_rollouts"]

LARGE = 27
"""Turns of a rollout of about 0.56 MiB."""

SMALL = 3
"""Turns of a rollout of about 65 KB."""

_PROMPT_TOKENS = 160
_SAMPLED_TOKENS = 560
_BYTES_PER_TOKEN = 4
_VOCABULARY = 151_936
_CUTS = 64
"""Lists of tokens and log probabilities to choose from: making them takes longer than all else."""


def make_rollouts(count: int, turns: int = LARGE, *, first: int = 0) -> Iterator[dict[str, Any]]:
    """Yield ``count`` traces that begin now; gzip makes about half of them.

    Args:
        count: how many.
        turns: model turns in each.
        first: number of the first one, which names it.
    """
    draw = random.Random(11 + first)
    text = make_text(draw)
    sampled = [_sampled(draw) for _ in range(_CUTS)]
    prompts = [_tokens(draw, _PROMPT_TOKENS) for _ in range(_CUTS)]
    began = time.time() - 600
    for index in range(first, first + count):
        nodes: list[dict[str, Any]] = []
        for turn in range(turns):
            nodes.append(_answer(text, draw, began + turn, draw.choice(sampled)))
            nodes.append(_tool(text, draw, began + turn, draw.choice(prompts)))
        for place, node in enumerate(nodes):
            node["parent"] = place - 1 if place else None
        yield _trace(index, nodes, began, draw)


def _trace(index: int, nodes: list[Any], began: float, draw: random.Random) -> dict[str, Any]:
    return {
        "id": f"{draw.getrandbits(128):032x}",
        "task": {"type": "bench", "data": {"idx": index, "name": f"bench-{index}"}},
        "agent": {"name": "solver", "config": {"model": "bench", "sampling": {"temperature": 1.0}}},
        "tools": [],
        "nodes": nodes,
        "calls": [
            {"node": place, "model": "bench", "finish_reason": "tool_calls"}
            for place in range(0, len(nodes), 2)
        ],
        "rewards": {"correct": {"score": draw.random(), "weight": 1.0}},
        "metrics": {f"rubric_{number}": draw.random() for number in range(6)},
        "info": {"example_id": index},
        "is_completed": True,
        "ok": True,
        "stop_condition": "max_turns",
        "errors": [],
        "timing": {"start": began, "scoring": {"start": began + 60, "end": began + 61}},
    }


def _answer(text: str, draw: random.Random, at: float, drawn: dict[str, Any]) -> dict[str, Any]:
    content = _cut(text, draw, _SAMPLED_TOKENS)
    message = {"role": "assistant", "content": content, "reasoning_content": None}
    return {"message": message, "sampled": True, "timestamp": at, **drawn}


def _tool(text: str, draw: random.Random, at: float, tokens: list[int]) -> dict[str, Any]:
    content = _cut(text, draw, _PROMPT_TOKENS)
    return {
        "message": {"role": "tool", "tool_call_id": f"call_{at}", "content": content},
        "sampled": False,
        "timestamp": at,
        "token_ids": tokens,
        "mask": [False] * len(tokens),
        "logprobs": [],
    }


def _sampled(draw: random.Random) -> dict[str, Any]:
    return {
        "token_ids": _tokens(draw, _SAMPLED_TOKENS),
        "mask": [True] * _SAMPLED_TOKENS,
        "logprobs": [_logprob(draw) for _ in range(_SAMPLED_TOKENS)],
    }


def _logprob(draw: random.Random) -> float:
    """Most tokens of a model are nearly certain."""
    return math.log1p(-min(draw.expovariate(6.0), 0.999999))


def _tokens(draw: random.Random, number: int) -> list[int]:
    return [int(_VOCABULARY ** draw.random()) for _ in range(number)]


def _cut(text: str, draw: random.Random, tokens: int) -> str:
    at = draw.randrange(len(text) - tokens * _BYTES_PER_TOKEN)
    return text[at : at + tokens * _BYTES_PER_TOKEN]
