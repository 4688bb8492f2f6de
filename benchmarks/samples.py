"""Synthetic rollouts in the shape verifiers writes: about 8 KB of JSON, each different."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

__all__ = ["make_samples", "make_text"]

_TEXT_BYTES = 1 << 20
_TURNS = 6
_TURN_BYTES = 920
_WORDS = r"""
the reward of a step is the sum over its rubric and the model answers in a final box so that we can
check it against "the reference" with {"x": 1} or [1, 2, 3] and f(x) = x\y where that is needed
"""


def make_samples(count: int, *, mark: str = "") -> Iterator[dict[str, Any]]:
    """Yield ``count`` samples: a dialogue with tool calls, scores, timings, token counts.

    Args:
        count: how many.
        mark: put in front of every text; one character beyond ASCII changes how Python stores it.

    The text is cut from one megabyte of words: cutting is a copy, so a list of samples holds all of
    its text, but making 20,000 of them takes about a second.
    """
    draw = random.Random(7)
    text = make_text(draw)

    def cut(size: int) -> str:
        at = draw.randrange(len(text) - size)
        return mark + text[at : at + size]

    for index in range(count):
        yield {
            "example_id": index,
            "sample_id": f"{draw.getrandbits(64):016x}",
            "rollout_number": index % 8,
            "task": "bench",
            "prompt": [
                {"role": "system", "content": "Reason step by step; put the answer in a box."},
                {"role": "user", "content": cut(_TURN_BYTES // 2)},
            ],
            "completion": [
                message for turn in range(_TURNS) for message in _turn(turn, cut(_TURN_BYTES))
            ],
            "answer": str(index),
            "reward": draw.random(),
            "correct": index % 7 > 3,
            "metrics": {f"rubric_{number}": draw.random() for number in range(6)},
            "timing": {"generation_ms": draw.random() * 1e4, "scoring_ms": draw.random() * 1e2},
            "token_usage": {"input_tokens": 1931 + index, "output_tokens": 1024 + index % 512},
            "is_completed": True,
            "is_truncated": False,
            "stop_condition": "max_turns_reached",
            "info": {"source": "synthetic", "index": index, "difficulty": index % 5},
        }


def _turn(number: int, text: str) -> list[dict[str, Any]]:
    half = len(text) // 2
    call = {"name": "search", "arguments": f'{{"query": "{number}", "limit": 10}}'}
    return [
        {
            "role": "assistant",
            "content": text[:half],
            "tool_calls": [{"id": f"call_{number}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"call_{number}", "content": text[half:]},
    ]


def make_text(draw: random.Random) -> str:
    """Return a megabyte of words to cut texts from."""
    vocabulary = _WORDS.split()
    words: list[str] = []
    size = 0
    while size < _TEXT_BYTES:
        word = draw.choice(vocabulary) + ("\n" if draw.random() < 0.05 else " ")
        words.append(word)
        size += len(word)
    return "".join(words)
