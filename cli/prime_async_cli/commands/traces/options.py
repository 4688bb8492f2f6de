"""What lists of traces are narrowed by, the same words in every command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import asyncclick
from asyncclick import Context, Parameter, ParamType

from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.options import Identifier, Number, Text
from prime_async_cli.value_types import Real

__all__ = ["Moment", "Pair", "chosen", "cursor_option", "filter_options", "pairs"]

Decorator = Callable[[Any], Any]

_LARGEST = 2**53


class Pair(ParamType[tuple[str, str]]):
    """``KEY=VALUE``."""

    name = "pair"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, found, content = Text().convert(value, param, ctx).partition("=")
        if not key or not found:
            self.fail(f"{str(value)[:100]!r} is not KEY=VALUE", param, ctx)
        return key, content


class Moment(ParamType[str]):
    """A moment in ISO 8601; without a zone it is UTC."""

    name = "time"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:
        from datetime import datetime

        text = str(value)
        try:
            datetime.fromisoformat(text)
        except ValueError:
            hint = "such as 2026-01-31 or 2026-01-31T12:00:00Z"
            self.fail(f"{text[:100]!r} is not a moment in ISO 8601, {hint}", param, ctx)
        return text


def _text(*names: str, help: str, **more: Any) -> Decorator:  # noqa: A002 - asyncclick's word
    return asyncclick.option(*names, metavar=more.pop("metavar", "TEXT"), help=help, **more)


_FILTERS: dict[str, Decorator] = {
    "run_id": _text("-r", "--run-id", metavar="ID", help="Only those of this run."),
    "upload_id": _text(
        "--upload-id",
        multiple=True,
        metavar="ID",
        help="Only what this batch brought, see its receipt; may be given again.",
    ),
    "upload_context": asyncclick.option(
        "-c",
        "--upload-context",
        type=Pair(),
        multiple=True,
        metavar="KEY=VALUE",
        help="Only those uploaded with this context; may be given again.",
    ),
    "episode_id": asyncclick.option(
        "--episode-id", type=Identifier(), help="Only the traces of this episode."
    ),
    "environment_id": _text(
        "-e", "--env", "--environment-id", "environment_id", help="Only this environment."
    ),
    "task_id": _text("--task-id", help="Only this task."),
    "model_id": _text("--model-id", help="Only this model."),
    "outcome": _text("--outcome", help="Only this stop condition or outcome."),
    "has_error": asyncclick.option(
        "--has-error/--no-has-error", default=None, help="Only with, or only without an error."
    ),
    "reward_min": asyncclick.option("--reward-min", type=Real(), help="Rewards from this one on."),
    "reward_max": asyncclick.option("--reward-max", type=Real(), help="Rewards up to this one."),
    "run_step": asyncclick.option(
        "--run-step", type=Number(0, _LARGEST), help="Only those of this training step."
    ),
    "run_type": asyncclick.option(
        "--run-type",
        type=asyncclick.Choice(["eval", "train", "unknown"]),
        multiple=True,
        help="Only runs of this type; may be given again.",
    ),
    "created_after": asyncclick.option(
        "--created-after", type=Moment(), help="Only what began at or after this moment."
    ),
    "created_before": asyncclick.option(
        "--created-before", type=Moment(), help="Only what began before this moment."
    ),
    "sort": asyncclick.option(
        "--sort",
        type=asyncclick.Choice(["created_at", "reward", "duration_ms"]),
        help="Newest first (default), best reward first, or longest first.",
    ),
}

_SPELLED = {"upload_context": "-c", "environment_id": "--env"}


def filter_options(*names: str) -> Decorator:
    """Declare options of lists, in this order."""

    def decorate(function: Any) -> Any:
        for name in reversed(names):
            function = _FILTERS[name](function)
        return function

    return decorate


def cursor_option(function: Any) -> Any:
    """``--cursor``: go on where a page ended."""
    return asyncclick.option(
        "--cursor", metavar="TEXT", help="Go on where the page before ended; it says how."
    )(function)


def pairs(given: tuple[tuple[str, str], ...]) -> dict[str, str] | None:
    """Return pairs of the command line as a mapping, or None for none.

    Raises:
        CommandError: a key stands there twice.
    """
    found = dict(given)
    if len(found) < len(given):
        raise CommandError("-c names the same key twice", code=USAGE)
    return found or None


def chosen(given: Mapping[str, Any], allowed: tuple[str, ...], what: str) -> dict[str, Any]:
    """Return the filters that are set, as the client calls them.

    Raises:
        CommandError: one of them does not go with what is listed.
    """
    told = {name: value for name, value in given.items() if value not in (None, ())}
    for name in told:
        if name not in allowed:
            spelled = _SPELLED.get(name, "--" + name.replace("_", "-"))
            raise CommandError(f"{spelled} does not go with {what}", code=USAGE)
    context = pairs(told.pop("upload_context", ()))
    filters = {name: list(v) if isinstance(v, tuple) else v for name, v in told.items()}
    return filters if context is None else {**filters, "context": context}
