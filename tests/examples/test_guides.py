"""What the guides show works: their Python runs, and every command they name is one."""

from __future__ import annotations

import ast
import asyncio
import inspect
import logging
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from prime_async_cli.app import root
from prime_async_cli.command import Group
from prime_async_cli.tree import Node, walk

import prime_sync.runs
from prime_async.bridges import (
    RolloutLogger,
    RunCallback,
    RunLogHandler,
    RunSpanExporter,
    stream_results,
)
from prime_async.runs import AsyncRun, init
from prime_async.traces import AsyncTracesClient
from tests.platform import ThreadedPlatform
from tests.traces.records import episode, line, trace

ROOT = Path(__file__).parents[2]
GUIDES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RESULTS = ROOT / "tests" / "data" / "verifiers_run" / "gsm8k--gpt-4o-mini" / "example"
ELSEWHERE = {
    "README.md": "test_readme.py",
    "spool.md": "tests/spool/test_docs.py",
    "values.md": "tests/values/test_docs.py",
}
HERE = {"bridges.md": 4, "runs.md": 3, "traces.md": 2}


def blocks(page: str) -> list[str]:
    """Return the Python of a guide; where it chooses a platform, that of the environment counts."""
    text = next(path for path in GUIDES if path.name == page).read_text("utf-8")
    found = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return [
        block.replace('context="local", ', "").replace('context="local"', "") for block in found
    ]


def run_block(code: str, names: dict[str, Any]) -> None:
    """Run it as a notebook would: `await` may stand at the top."""
    compiled = compile(code, "guide", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(compiled, names)
    if inspect.iscoroutine(result):
        asyncio.run(result)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedPlatform]:
    with ThreadedPlatform(tmp_path_factory.mktemp("platform")) as platform:
        yield platform


@pytest.fixture
def place(
    shared: ThreadedPlatform, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Path:
    """A folder with what the guides speak of, and an environment that points at a platform."""
    monkeypatch.setenv("PRIME_API_KEY", shared.key)
    monkeypatch.setenv("PRIME_API_BASE_URL", shared.url)
    monkeypatch.setenv("PRIME_TRACES_URL", shared.url)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(RESULTS, "outputs/evals/gsm8k--gpt-4o-mini/3f9c2a1b")
    shutil.copytree(RESULTS, "outputs/gsm8k--gpt-4o-mini--bash--3f9c2a1b")
    Path("outputs/traces.jsonl").write_bytes(line(trace("guide-1", run="run-7")))
    return tmp_path


def test_every_block_is_run_somewhere() -> None:
    counted = {path.name: len(blocks(path.name)) for path in GUIDES}
    with_python = {name: count for name, count in counted.items() if count}
    assert {name: with_python.pop(name) for name in HERE} == HERE
    assert set(with_python) == set(ELSEWHERE)


@pytest.mark.usefixtures("place")
def test_runs() -> None:
    """The loop of an evaluation, the loop of a training, and what was kept."""
    evaluating, training, delivering = blocks("runs.md")

    async def solve(task: int) -> dict[str, Any]:
        return trace(f"solved-{task}")

    names: dict[str, Any] = {"solve": solve, "train": lambda: [0.5, 0.25]}
    run_block(evaluating + "\nawait evaluate(range(3))\n", names)
    run_block(training, names)
    assert names["run"].receipt.complete
    assert isinstance(names["run"], prime_sync.runs.Run)
    run_block(delivering + "\nawait deliver()\n", names)


@pytest.mark.usefixtures("place")
def test_traces() -> None:
    """Uploading, reading, exporting; then the parts for a sink of one's own."""
    pytest.importorskip("pyarrow")
    client, sink = blocks("traces.md")
    inner = trace("guide-in", run="run-7")
    names: dict[str, Any] = {
        "rollouts": [trace("guide-2", run="run-7")],
        "episodes": [episode("guide-e", inner)],
    }
    run_block(client, names)
    assert names["group"].trace_count
    assert Path("run-7.parquet").stat().st_size

    async def send() -> None:
        async with AsyncTracesClient() as names["client"]:
            code = compile(sink, "guide", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            await eval(code, names)

    names |= {"record": trace("guide-3"), "lines": [line(trace("guide-4"))]}
    names |= {"features": frozenset()}
    asyncio.run(send())
    assert names["receipt"].upload_id


@pytest.mark.usefixtures("place")
def test_bridges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log lines, spans, results and a trainer into runs."""
    from tests.bridges import transformers_double

    monkeypatch.setitem(sys.modules, "transformers", transformers_double)
    trace_sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    lines, spans, results, trainer = blocks("bridges.md")
    names: dict[str, Any] = {
        "logging": logging,
        "log": logging.getLogger("guide"),
        "RunLogHandler": RunLogHandler,
        "provider": trace_sdk.TracerProvider(),
        "BatchSpanProcessor": export.BatchSpanProcessor,
        "RunSpanExporter": RunSpanExporter,
        "RolloutLogger": RolloutLogger,
        "stream_results": stream_results,
        "RunCallback": RunCallback,
        "env": _Environment(),
        **dict.fromkeys(("client", "slot", "context", "semaphore")),
        "episodes": [episode("at-the-end", trace("at-the-end-0"))],
        "model": "tiny",
    }

    async def bridged() -> AsyncRun:
        run = names["run"] = await init(model="tiny", environments=["math"])
        before = logging.getLogger().handlers[:]
        async with run:
            for code in (lines, spans, results):
                flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
                result = eval(compile(code, "guide", "exec", flags=flags), names)
                if result is not None:
                    await result
            names["provider"].shutdown()
        logging.getLogger().handlers[:] = before
        return run

    run = asyncio.run(bridged())
    assert run.receipt is not None
    assert run.receipt.complete
    names |= {
        "Trainer": transformers_double.Trainer,
        "arguments": transformers_double.TrainingArguments(max_steps=2),
        "data": [1, 2],
        "model": transformers_double.GPT2LMHeadModel(transformers_double.GPT2Config()),
    }
    run_block(trainer, names)


class _Environment:
    """Stands for an environment of verifiers."""

    async def evaluate(self, client: None, model: str, *, on_progress: Any) -> dict[str, Any]:
        rollout = {"example_id": 0, "prompt": "1+1", "completion": "2", "reward": 1.0}
        on_progress([rollout], [rollout])
        return {"outputs": [rollout]}

    async def run_slot(self, _slot: None, _context: None, _semaphore: None, done: Any) -> None:
        await done(episode("guide", trace("guide-0")))


NAMED = re.compile(r"(?<![\w/.-])prime-async ((?:[^`\n\\]|\\.)+?)(?=[`\n]|\s\s|$)", re.MULTILINE)
SOURCES = [*sorted((ROOT / "prime_async").rglob("*.py")), *sorted((ROOT / "cli").rglob("*.py"))]


@cache
def nodes() -> dict[tuple[str, ...], Node]:
    found = {node.words: node for node in walk(root)}
    return found | {(*words[:-1], "ls"): found[words] for words in found if words[-1:] == ("list",)}


def wrong_with(text: str) -> str | None:
    """Say what a command line names that is not there; what stands for a value is not looked at."""
    try:
        words = shlex.split(re.split(r" [|>#]|&&", text)[0])
    except ValueError:
        return None  # the end of a sentence
    known = set(nodes()[()].command.params)
    while words[:1] == ["--context"]:
        words = words[2:]
    place: tuple[str, ...] = ()
    while words and (*place, words[0]) in nodes():
        place = (*place, words.pop(0))
    command = nodes()[place].command
    if isinstance(command, Group) and words and re.fullmatch("[a-z][a-z-]+", words[0]):
        return f"no command {' '.join((*place, words[0]))!r}"
    known |= set(command.params)
    options = {name for param in known for name in (*param.opts, *param.secondary_opts)}
    given = words[: words.index("--")] if "--" in words else words
    for word in given:
        name = word.partition("=")[0].rstrip(".,;:)")
        if re.fullmatch("--?[a-z][a-z-]*", name) and name not in options:
            return f"{' '.join(place)} has no option {name}"
    return None


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_the_commands_a_guide_names_are_there(path: Path) -> None:
    text = path.read_text("utf-8")
    code = [*re.findall(r"```(?:sh|console|)\n(.*?)```", text, re.DOTALL)]
    code += re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
    found = [each for part in code for each in NAMED.findall(part)]
    assert [problem for each in found if (problem := wrong_with(each))] == []


def test_the_commands_that_messages_name_are_there() -> None:
    """A next step that does not exist is worse than none."""
    found = [
        each
        for path in SOURCES
        for part in re.findall(r"`(prime-async [^`{}\n]+)`", path.read_text("utf-8"))
        for each in NAMED.findall(part)
    ]
    assert len(found) > 30
    assert [problem for each in found if (problem := wrong_with(each))] == []


def test_what_is_wrong_is_seen() -> None:
    assert wrong_with("eval pull") == "no command 'eval pull'"
    assert wrong_with("eval push DIR --nosuch") == "eval push has no option --nosuch"
    assert wrong_with("--context local sandbox run python:3.11 -- python -c 'print(1)'") is None
