"""Every command under every kind of wrong input: a clear error, no traceback, no secret.

The table is the product of all commands and all kinds. A kind that means nothing to a command (a
bad number where it takes none) is left out for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import asyncclick
import pytest
from _pytest.mark import ParameterSet
from prime_async_cli.app import root
from prime_async_cli.command import Group
from prime_async_cli.options import Number, Text
from prime_async_cli.tree import Node, walk
from prime_async_cli.value_types import Amount, JsonObject, Variable

from prime_async.errors import LocalPlatformError
from tests.cli.harness import CANARY, Ran
from tests.stub import Answer, Stub

LEAVES = [node for node in walk(root) if not isinstance(node.command, Group)]
USES_NETWORK = {"eval", "job", "runs", "sandbox", "traces", "whoami"}


@dataclass(frozen=True)
class Case:
    """One wrong command line, and the world it runs in."""

    arguments: list[str]
    env: dict[str, str | None] = field(default_factory=dict)
    config: str | bytes | None = None
    code: frozenset[int] = frozenset({1, 2})


Kind = Callable[[Node], Iterator[Case]]

USUAL = {("traces", "search"): "needle", ("runs", "compare"): "x1 x2"}
"""What single commands are given, where one id does not suit them."""


MORE = {
    ("eval", "create"): ["--env", "e"],
    ("sandbox", "delete"): ["x1"],
    ("sandbox", "checkpoint", "delete"): ["x1"],
    ("sandbox", "network", "set"): ["--deny-all"],
    ("traces", "delete"): ["x1"],
    **{("job", word): ["x1/0000abcd"] for word in ("cancel", "follow", "status", "wait")},
}
"""What commands need besides what they require: one of several options, or ids."""


def usual(node: Node) -> list[str]:
    """Arguments that would do, as far as parsing goes."""
    arguments = list(node.words)
    for param in node.command.params:
        if isinstance(param, asyncclick.Option) and param.required:
            arguments += [param.opts[-1], "x1"]
        if isinstance(param, asyncclick.Argument) and param.required:
            choices = getattr(param.type, "choices", None)
            name = "production" if param.type.name == "name" else "https://x.example"
            plain = "8000" if param.type.name == "number" else "x1"
            named = name if node.words[0] == "config" else plain
            arguments += choices[:1] if choices else USUAL.get(node.words, named).split()
    return arguments


def takes_id(node: Node) -> bool:
    return any(
        isinstance(param, asyncclick.Argument) and param.type.name == "id"
        for param in node.command.params
    )


def takes_words(node: Node) -> bool:
    return any(param.nargs == -1 for param in node.command.params)


def usage(*more: str, only: Callable[[Node], bool] = lambda _: True) -> Kind:
    def kind(node: Node) -> Iterator[Case]:
        if only(node):
            yield Case([*usual(node), *more], code=frozenset({2}))

    return kind


def positional(value: str) -> Kind:
    """This text where a positional argument belongs, or one too many."""

    def kind(node: Node) -> Iterator[Case]:
        plain = list(node.words)
        required = usual(node)[len(plain) :]
        has_argument = any(isinstance(p, asyncclick.Argument) for p in node.command.params)
        if not has_argument:
            yield Case([*usual(node), value], code=frozenset({2}))
        elif takes_id(node):
            yield Case([*plain, value], code=frozenset({1, 2}))
        else:
            yield Case([*plain, *required[:-1], value], code=frozenset({0, 1, 2}))

    return kind


def numbers(node: Node) -> Iterator[Case]:
    for option in options_of(node, Number, Amount):
        for value in ("abc", "-1", "1e999", "9" * 30, "", "0x10", "nan", "inf"):
            yield Case([*usual(node), option, value], code=frozenset({2}))


def objects(node: Node) -> Iterator[Case]:
    for option in options_of(node, JsonObject):
        for value in (
            "{bad",
            "[1]",
            "3",
            "",
            '{"a": NaN}',
            '{"a": 1e999}',
            "@nosuch.json",
            "@",
            "[" * 100_000,
        ):
            yield Case([*usual(node), option, value], code=frozenset({2}))


def variables(node: Node) -> Iterator[Case]:
    for option in options_of(node, Variable):
        for value in ("", "=", "=x", "A B=x", "1A=x", "NOT_SET_HERE", "A=\udcff", f"-{CANARY}"):
            yield Case([*usual(node), option, value], code=frozenset({2}))


def choices(node: Node) -> Iterator[Case]:
    for option in options_of(node, asyncclick.Choice):
        yield Case([*usual(node), option, "[/x]"], code=frozenset({2}))


def texts(node: Node) -> Iterator[Case]:
    for option in options_of(node, Text):
        for value in ("", "\x1b[31m\x07", "[/x]", "\udcff", "x" * 70_000):
            yield Case([*usual(node), option, value], code=frozenset({0, 1, 2}))


def options_of(node: Node, *types: type) -> Iterator[str]:
    for param in node.command.params:
        is_option = isinstance(param, asyncclick.Option) and not param.is_flag
        if is_option and isinstance(param.type, types):
            yield param.opts[-1]


def value_missing(node: Node) -> Iterator[Case]:
    for param in node.command.params:
        if isinstance(param, asyncclick.Option) and not param.is_flag and param.name != "resume":
            yield Case([*usual(node), param.opts[0]], code=frozenset({2}))


def repeated(node: Node) -> Iterator[Case]:
    yield Case([*usual(node), "--plain", "--plain", "--output"], code=frozenset({2}))


def argument_missing(node: Node) -> Iterator[Case]:
    if len(usual(node)) > len(node.words):
        yield Case(list(node.words), code=frozenset({2}))


def uses_configuration(node: Node) -> bool:
    return node.words[0] in USES_NETWORK or node.words == ("config", "view")


def configured(config: str | bytes | None, **env: str | None) -> Kind:
    def kind(node: Node) -> Iterator[Case]:
        if uses_configuration(node) and node.words != ("eval", "push"):
            needs_platform = node.words[0] in USES_NETWORK and node.words[-1] != "sync"
            code = {1, 2} if needs_platform else {0, 1}
            without = {"PRIME_API_KEY": None, "PRIME_API_BASE_URL": None}
            yield Case(usual(node), {**without, **env}, config, frozenset(code))

    return kind


KINDS: dict[str, Kind] = {
    "unknown option": usage("--nonsense"),
    "unknown short option": usage("-Z"),
    "unknown output mode": usage("--output", "xml", only=lambda n: n.words[0] != "completion"),
    "output mode missing": usage("-o", only=lambda n: n.words[0] != "completion"),
    "too many arguments": usage("a", "b", "c", "d", only=lambda n: not takes_words(n)),
    "unknown context": usage("--context", "typo"),
    "context with a path": usage("--context", "../../etc/passwd"),
    "empty context": usage("--context", ""),
    "flag with a value": usage("--plain=yes"),
    "argument missing": argument_missing,
    "value missing": value_missing,
    "repeated": repeated,
    "empty text": positional(""),
    "a path": positional("../../user/whoami"),
    "a query": positional("x?limit=1#y"),
    "an escape sequence": positional("\x1b[31m\x07\x9b"),
    "markup": positional("[red]x[/x]"),
    "very long": positional("x" * 70_000),
    "a surrogate": positional("\udcff"),
    "a NUL byte": positional("a\0b"),
    "a direction mark": positional("\u202eabc"),
    "spaces": positional("a b\nc"),
    "bad numbers": numbers,
    "bad objects": objects,
    "bad variables": variables,
    "bad choices": choices,
    "odd texts": texts,
    "no key": configured(None),
    "half a config file": configured('{"api_key": "sk-CANARY-123-'),
    "a config file that is a list": configured("[]"),
    "a config file of bytes": configured(b"\xff\xfe\x00"),
    "a config file of wrong types": configured('{"base_url": 7, "api_key": ["sk-CANARY-123-x"]}'),
    "an empty config file": configured(""),
    "an address that is none": configured(None, PRIME_API_KEY=CANARY, PRIME_API_BASE_URL="nope"),
    "a key with a line break": configured(None, PRIME_API_KEY=f"{CANARY}\n{CANARY}"),
    "a context variable that is none": configured(None, PRIME_CONTEXT="typo"),
    "no home": configured(None, HOME=None, USERPROFILE=None),
}
PAIRS = [(node, kind) for node in LEAVES for kind in KINDS if any(KINDS[kind](node))]
assert len(KINDS) >= 25


@pytest.fixture
def no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever gets through parsing must not start a daemon here."""
    from prime_async import local

    async def refuse(**_: object) -> None:
        raise LocalPlatformError("not in this test")

    monkeypatch.setattr(local, "ensure_running", refuse)
    monkeypatch.setattr(local, "stop", refuse)


def some(rows: Iterable[tuple[Node, str]]) -> list[ParameterSet]:
    """Every pair, one in three of them in the default run; each command and each kind is in it."""
    rows = list(rows)
    seen: set[object] = set()
    made = []
    for number, (node, kind) in enumerate(rows):
        first = {node.words, kind} - seen
        seen |= first
        marks = [] if first or number % 3 == 0 else [pytest.mark.slow]
        made.append(pytest.param(node, kind, id=f"{' '.join(node.words)}: {kind}", marks=marks))
    return made


@pytest.mark.usefixtures("platform", "no_daemon")
@pytest.mark.parametrize(("node", "kind"), some(PAIRS))
def test_wrong_input(
    node: Node,
    kind: str,
    inside: Callable[..., Ran],
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The right exit code, words for a person, no traceback, no secret."""
    monkeypatch.chdir(tmp_path)  # `export` writes where it is told
    for case in KINDS[kind](node):
        with monkeypatch.context() as patch:
            prepare(case, home, patch)
            ran = inside(*case.arguments)
            check(ran, case)
            if ran.code and "-o" not in case.arguments and node.words[0] != "completion":
                place = len(node.words)
                words, rest = case.arguments[:place], case.arguments[place:]
                check_json(inside(*words, "-o", "json", *rest), case)


def prepare(case: Case, home: Path, patch: pytest.MonkeyPatch) -> None:
    for name, value in case.env.items():
        if value is None:
            patch.delenv(name, raising=False)
        else:
            patch.setenv(name, value)
    if case.config is not None:
        folder = home / ".prime"
        folder.mkdir(exist_ok=True)
        data = case.config.encode() if isinstance(case.config, str) else case.config
        (folder / "config.json").write_bytes(data)


def check(ran: Ran, case: Case) -> None:
    said = ascii(str(ran))[:3000]  # a lone surrogate in a message would break the test runner
    right_code, is_fault = ran.code in case.code, "fault of prime-async" in ran.err
    assert right_code, f"{ascii(case.arguments)[:500]}: {said}"
    assert not is_fault, f"{ascii(case.arguments)[:500]}: {said}"
    for never in ("Traceback", "CANARY", "\x1b", "\x07", "\u202e"):
        present = never in ran.everything
        assert not present, said
    assert len(ran.err) < 6000, said
    if ran.code:
        begins_well = ran.err.startswith(("error: ", "Usage: ", "{", "warning: "))
        assert begins_well, said


def check_json(ran: Ran, case: Case) -> None:
    """In JSON mode the last line of standard error is the error."""
    if ran.code == 0 or ran.err.startswith("Usage: "):
        return
    error = json.loads(ran.err.splitlines()[-1])["error"]
    assert error["exit_code"] == ran.code
    assert error["message"]
    assert "CANARY" not in ran.everything


ANSWERS: dict[str, Answer] = {
    "an HTML page": Answer(500, headers={"Content-Type": "text/html"}, body=b"<html>" * 5000),
    "broken JSON": Answer(200, body=b'{"evaluations": ['),
    "a list": Answer(200, json=[1, 2]),
    "wrong types": Answer(200, json={"evaluations": 7, "samples": "x", "total": [], "data": 3}),
    "nothing": Answer(200, body=b""),
    "not found": Answer(404, json={"detail": "[/x] \x1b[2J not here"}),
    "no rights": Answer(403, json={"detail": {"deep": ["[red]", None]}}),
    "wrong key": Answer(401, json={"detail": f"bad key {CANARY}"}),
    "no credit": Answer(402, json={}),
    "refused fields": Answer(
        422, json={"detail": [{"loc": ["body", "name"], "msg": "[/x] bad", "type": "t"}, 3, None]}
    ),
    "too large": Answer(413, body=b"too large"),
    "a teapot": Answer(418, json={"detail": "teapot"}),
}
PATIENT = {("job", "wait"): "looks again until its --timeout, as test_job.py shows"}
TALKERS = [
    node
    for node in LEAVES
    if node.words[0] in USES_NETWORK and node.words[-1] != "sync" and node.words not in PATIENT
]


@pytest.mark.parametrize(("node", "what"), some(product(TALKERS, ANSWERS)))
def test_wrong_answers_of_the_platform(
    node: Node,
    what: str,
    stub: Stub,
    inside: Callable[..., Ran],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Exit 1 with words of ours, the platform's detail shown harmlessly, never a key."""
    monkeypatch.setattr("random.random", lambda: 0.0)
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)
    stub.default = ANSWERS[what]
    arguments = usual(node)
    if node.words[-1] == "push":
        file = tmp_path / "x.jsonl"
        file.write_text('{"a": 1}\n', "utf-8")
        arguments += [str(file), "--env", "e"]
    arguments += MORE.get(node.words, [])
    if node.words == ("traces", "upload"):
        file = tmp_path / "x.jsonl"
        file.write_text('{"a": 1}\n', "utf-8")
        arguments[-1] = str(file)
    if node.words == ("traces", "export"):
        arguments[-1] = str(tmp_path / "out.jsonl")
    if node.words == ("sandbox", "upload"):
        arguments[-2] = str(tmp_path)
    if node.words[-1] in ("delete", "update"):
        arguments += ["-y"] if node.words[-1] == "delete" else ["--name", "x"]
    ran = inside(*arguments)
    accepted = what in ("wrong types", "nothing") or node.words[-1] in ("delete", "remove")
    assert ran.code in ({0, 1} if accepted else {1}), ran
    assert "Traceback" not in ran.everything
    assert "fault of prime-async" not in ran.err, ran
    assert "CANARY" not in ran.everything
    assert "\x1b" not in ran.everything
    assert len(ran.err) < 3000


SIMPLE_TALKERS = [  # the others need more words, and go through the same transport
    node
    for node in TALKERS
    if node.words[-1] not in ("push", "create", "update", "delete", "cancel")
]


@pytest.mark.parametrize("node", SIMPLE_TALKERS, ids=lambda node: " ".join(node.words))
def test_a_platform_that_is_not_there(
    node: Node, inside: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit 1, nothing on standard output, the address and what to look at."""
    monkeypatch.setenv("PRIME_API_KEY", CANARY)
    monkeypatch.setenv("PRIME_API_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setattr("random.random", lambda: 1.0)  # full jitter: no pause between the tries
    arguments = usual(node) + MORE.get(node.words, [])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x1").write_text('{"a": 1}\n', "utf-8")
    if node.words == ("sandbox", "upload"):
        arguments[-2] = str(tmp_path)
    ran = inside(*arguments, "-o", "json")
    assert (ran.code, ran.out) == (1, "")
    error = json.loads(ran.err)["error"]
    assert error["type"] == "APIConnectionError"
    assert "127.0.0.1:1" in error["where"] + error["message"]
    assert error["hint"]
