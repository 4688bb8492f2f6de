"""Commands and groups: asyncclick's, with lazy loading and the options that every command takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import asyncclick
from asyncclick import Context, HelpFormatter, Option, Parameter

from prime_async_cli import streams
from prime_async_cli.driver import enter_loop

__all__ = ["Command", "Entry", "Group", "command"]

_EVERYWHERE = ("plain", "context", "help")


def _set_plain(ctx: Context, _: Parameter, value: bool) -> None:
    if value and ctx.obj is not None:
        ctx.obj.output.plain = True


def _set_context(ctx: Context, _: Parameter, value: str | None) -> None:
    if value is not None and ctx.obj is not None:
        ctx.obj.context = value


def _show_help(ctx: Context, _: Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        streams.write(ctx.get_help() + "\n")
        raise asyncclick.exceptions.Exit(0)


def _options_everywhere(*, root: bool) -> list[Parameter]:
    from prime_async_cli.options import ContextName

    names = ["-c", "--context"] if root else ["--context"]
    return [
        Option(
            names,
            type=ContextName(),
            callback=_set_context,
            expose_value=False,
            help="Talk to this saved context ('local' and 'production' are built in).",
        ),
        Option(
            ["--plain"],
            is_flag=True,
            callback=_set_plain,
            expose_value=False,
            help="No colours, no fitting to the screen: text for scripts and agents.",
        ),
        Option(
            ["-h", "--help"],
            is_flag=True,
            is_eager=True,
            callback=_show_help,
            expose_value=False,
            help="Show this help and leave.",
        ),
    ]


def _check_text(params: list[Parameter]) -> None:
    """Let every option and argument of no particular type be text that can be written as JSON."""
    from prime_async_cli.options import Text

    for param in params:
        if param.type is asyncclick.STRING:
            param.type = Text()


class Command(asyncclick.Command):
    """A command. An ``async def`` callback runs under an event loop, a ``def`` one without."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        kwargs["add_help_option"] = False  # ours is in every command's list
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.params = [*self.params, *_options_everywhere(root=False)]
        _check_text(self.params)
        callback = self.callback
        self.needs_loop = callback is not None and inspect.iscoroutinefunction(
            inspect.unwrap(callback)
        )

    async def invoke(self, ctx: Context) -> Any:
        if self.needs_loop:
            await enter_loop()
            from prime_async_cli.logbook import attach

            attach(ctx.obj)
        return await super().invoke(ctx)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        super().format_help(ctx, formatter)
        _write_examples(self.examples, formatter)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        _write_arguments(self, ctx, formatter)
        _write_options(self, ctx, formatter)


class Entry(NamedTuple):
    """A command that is known but not loaded.

    Attributes:
        target: ``module:attribute`` below ``prime_async_cli.commands``.
        short: one line for the help of its group.
        section: the heading it stands under.
        alias_of: set on second names, which the help leaves out.
    """

    target: str
    short: str
    section: str = "Commands"
    alias_of: str | None = None


class Group(asyncclick.Group):
    """A group whose commands are imported when they are used, not when they are listed."""

    def __init__(
        self, name: str, entries: Mapping[str, Entry], *, root: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(name, add_help_option=False, **kwargs)
        self.entries = dict(entries)
        self.params = [*self.params, *_options_everywhere(root=root)]

    def list_commands(self, ctx: Context) -> list[str]:
        return [name for name, entry in self.entries.items() if entry.alias_of is None]

    def get_command(self, ctx: Context, cmd_name: str) -> asyncclick.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        loaded: asyncclick.Command = getattr(
            import_module(f"prime_async_cli.commands.{module}"), attribute
        )
        return loaded

    async def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, asyncclick.Command | None, list[str]]:
        if args and args[0] not in self.entries and not ctx.resilient_parsing:
            raise asyncclick.NoSuchCommand(args[0], possibilities=self.entries, ctx=ctx)
        return await super().resolve_command(ctx, args)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        _write_options(self, ctx, formatter)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            entry = self.entries[name]
            sections.setdefault(entry.section, []).append((name, entry.short))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: Context, incomplete: str) -> list[Any]:
        from asyncclick.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=self.entries[name].short)
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return names + asyncclick.Command.shell_complete(self, ctx, incomplete)


def _write_arguments(command: asyncclick.Command, ctx: Context, formatter: HelpFormatter) -> None:
    rows = [
        (param.make_metavar(ctx), getattr(param, "help", None) or "")
        for param in command.get_params(ctx)
        if isinstance(param, asyncclick.Argument)
    ]
    if rows:
        with formatter.section("Arguments"):
            formatter.write_dl(rows)


def _write_options(command: asyncclick.Command, ctx: Context, formatter: HelpFormatter) -> None:
    own: list[tuple[str, str]] = []
    everywhere: list[tuple[str, str]] = []
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx) if isinstance(param, Option) else None
        if record is not None:
            (everywhere if param.name in _EVERYWHERE else own).append(record)
    for title, rows in (("Options", own), ("Options of every command", everywhere)):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def _write_examples(examples: str, formatter: HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples"):
            for line in inspect.cleandoc(examples).splitlines():
                formatter.write(f"  {line}\n" if line else "\n")


def command(
    name: str, *, examples: str = "", **kwargs: Any
) -> Callable[[Callable[..., Any]], Command]:
    """Declare a command; its docstring is its help."""
    declare: Callable[[Callable[..., Any]], Command] = asyncclick.command(
        name, cls=Command, examples=examples, **kwargs
    )
    return declare
