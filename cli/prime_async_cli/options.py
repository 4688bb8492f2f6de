"""Options and argument types that several commands share: one idea has one name everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asyncclick
from asyncclick import Context, Parameter, ParamType
from asyncclick.core import ParameterSource

__all__ = [
    "ContextName",
    "Described",
    "Identifier",
    "Number",
    "Text",
    "Word",
    "argument",
    "output_option",
    "page_options",
    "refuse_pages",
    "yes_option",
]

Decorator = Callable[[Any], Any]

_LONGEST_ID = 200


class Described(asyncclick.Argument):
    """An argument that the help page explains."""

    def __init__(self, *args: Any, help: str = "", **kwargs: Any) -> None:  # noqa: A002 - asyncclick's word
        super().__init__(*args, **kwargs)
        self.help = help


def argument(name: str, *, help: str, **kwargs: Any) -> Decorator:  # noqa: A002 - asyncclick's word
    """Declare a positional argument with its explanation."""
    return asyncclick.argument(name, cls=Described, help=help, **kwargs)


class Identifier(ParamType[str]):
    """An id of the platform: text that can stand in a path without changing it."""

    name = "id"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:
        text = str(value)
        if not text.strip():
            self.fail("an id cannot be empty", param, ctx)
        if len(text) > _LONGEST_ID:
            self.fail(f"an id has at most {_LONGEST_ID} characters, not {len(text):,}", param, ctx)
        if text in (".", "..") or any(mark in text for mark in "/\\?#%") or not text.isprintable():
            self.fail(f"{text!r} is not an id: no path, no '?', '#' or '%'", param, ctx)
        if " " in text:
            self.fail(f"{text!r} is not an id: it holds a space", param, ctx)
        return text


class Number(ParamType[int]):
    """A whole number within bounds."""

    name = "number"

    def __init__(self, lowest: int, highest: int) -> None:
        self.lowest = lowest
        self.highest = highest

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> int:
        text = str(value)
        number = int(text) if text.isascii() and text.isdecimal() else self.lowest - 1
        if not self.lowest <= number <= self.highest:
            bounds = f"{self.lowest:,} to {self.highest:,}"
            self.fail(f"{text[:100]!r} is not a whole number from {bounds}", param, ctx)
        return number

    def get_metavar(self, param: Parameter, ctx: Context) -> str:
        return "N"


class Text(ParamType[str]):
    """Plain text; bytes that are no UTF-8, which the shell hands over as they are, are refused."""

    name = "text"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:
        text = str(value)
        if any("\ud800" <= character <= "\udfff" for character in text):
            self.fail("it is not valid UTF-8", param, ctx)
        return text


class Word(Text):
    """Text that is not empty, such as a label: an unset variable of the shell is no word."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:
        text = super().convert(value, param, ctx)
        if not text.strip():
            self.fail("it is empty", param, ctx)
        return text


class ContextName(ParamType[str]):
    """The name of a saved context; an unknown one is refused with the nearest."""

    name = "name"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:
        from prime_async.config import ConfigStore

        text = str(value)
        known = ConfigStore().contexts()
        if text not in known:
            self.fail(_unknown_context(text, known), param, ctx)
        return text

    def shell_complete(self, ctx: Context, param: Parameter, incomplete: str) -> list[Any]:
        from asyncclick.shell_completion import CompletionItem

        from prime_async.config import ConfigStore

        names = ConfigStore().contexts()
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _unknown_context(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    return f"there is no context {name!r}.{guess} Known: {', '.join(known)}."


def _set_output(ctx: Context, _: Parameter, value: str) -> None:
    if ctx.obj is not None:
        ctx.obj.output.json = value == "json"


def output_option(function: Any) -> Any:
    """``--output/-o table|json``, read from the session."""
    return asyncclick.option(
        "-o",
        "--output",
        type=asyncclick.Choice(["table", "json"]),
        default="table",
        show_default=True,
        callback=_set_output,
        expose_value=False,
        help="A table for people, or one JSON document for programs.",
    )(function)


def yes_option(function: Any) -> Any:
    """``--yes/-y``: do not ask."""
    return asyncclick.option(
        "-y", "--yes", is_flag=True, help="Do not ask; needed where nobody can answer."
    )(function)


def refuse_pages(ctx: Context, why: str) -> None:
    """Refuse ``--page`` and ``--limit`` where they would do nothing."""
    for name in ("page", "limit"):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise asyncclick.UsageError(f"--{name} does nothing here: {why}", ctx)


def page_options(limit: int, most: int) -> Decorator:
    """``--page/-p`` and ``--limit/-n`` (``--num`` as the official command spells it)."""

    def decorate(function: Any) -> Any:
        function = asyncclick.option(
            "-n",
            "--limit",
            "--num",
            "limit",
            type=Number(1, most),
            default=limit,
            show_default=True,
            help=f"Rows of one page, at most {most:,}.",
        )(function)
        return asyncclick.option(
            "-p",
            "--page",
            type=Number(1, 10_000_000),
            default=1,
            show_default=True,
            help="Which page, from 1.",
        )(function)

    return decorate
