"""A model behind the chat API of OpenAI: it adds two numbers, with a tool when they are large."""

from __future__ import annotations

import asyncio
import json
import queue
import re
import threading
from types import TracebackType
from typing import Any, Self

from aiohttp import web

__all__ = ["Model"]

USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 3,
    "total_tokens": 12,
    "prompt_tokens_details": {"cached_tokens": 4},
}


class Model:
    """Serves in a thread. ``url`` ends in ``/v1``; ``asked`` counts requests.

    It refuses negative numbers, as an API refuses a prompt it does not like.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.padding = ""
        self._ready: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._ready.get(timeout=30)}/v1"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(30)

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._ready.put(runner.addresses[0][1])
        await self._end.wait()
        await runner.cleanup()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        body = await request.json()
        message = self._answer(body["messages"], bool(body.get("tools")))
        if message is None:
            error = {"message": "no negative numbers", "type": "invalid_request_error"}
            return web.json_response({"error": error}, status=400)
        if body.get("stream"):
            return await _streamed(request, message)
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return web.json_response({**_frame("chat.completion", choice), "usage": USAGE})

    def _answer(self, messages: list[dict[str, Any]], tools: bool) -> dict[str, Any] | None:
        last = messages[-1]
        if last["role"] == "tool":
            return {"role": "assistant", "content": str(last["content"]) + self.padding}
        asked = next(one["content"] for one in messages if one["role"] == "user")
        text = asked if isinstance(asked, str) else asked[0]["text"]
        a, b = (int(number) for number in re.findall(r"-?\d+", text)[:2])
        if a < 0 or b < 0:
            return None
        if not tools or max(a, b) < 10:
            return {"role": "assistant", "content": str(a + b) + self.padding}
        arguments = json.dumps({"a": a, "b": b})
        call = {"id": "call_1", "type": "function"}
        call["function"] = {"name": "add", "arguments": arguments}  # type: ignore[assignment]
        return {
            "role": "assistant",
            "content": None,
            "reasoning_content": "añadir",
            "tool_calls": [call],
        }


def _frame(kind: str, choice: dict[str, Any]) -> dict[str, Any]:
    return {"id": "c1", "object": kind, "created": 1, "model": "tiny-2026", "choices": [choice]}


async def _streamed(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    parts: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    parts += [{"content": letter} for letter in message["content"]]
    frames = [
        _frame("chat.completion.chunk", {"index": 0, "delta": part, "finish_reason": None})
        for part in parts
    ]
    ended = _frame("chat.completion.chunk", {"index": 0, "delta": {}, "finish_reason": "stop"})
    for frame in (*frames, {**ended, "usage": USAGE}):
        await response.write(f"data: {json.dumps(frame)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response
