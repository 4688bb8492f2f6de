"""What one run of the command line knows: where it talks to, and how it speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli.output import Output

if TYPE_CHECKING:
    from prime_async.api import AsyncAPIClient
    from prime_async.config import ConfigStore, Settings
    from prime_async.evals import AsyncEvalsClient
    from prime_async.sandboxes import AsyncSandboxClient
    from prime_async.traces import AsyncTracesClient

__all__ = ["Session", "pass_session"]


class Session:
    """State shared by the root command, the command that runs, and the error report.

    Attributes:
        output: where results go.
        context: the name given with ``--context``, or None.
        secrets: values that must not appear in any message.
        next_step: what to do should the command fail or be interrupted from here on.
        about: what the error is about where it does not say so itself, such as a file.
        facts: fields for the JSON form of that error, such as the evaluation that was created.
    """

    def __init__(self) -> None:
        self.output = Output()
        self.context: str | None = None
        self.secrets: set[str] = set()
        self.next_step: str | None = None
        self.about: str | None = None
        self.facts: dict[str, Any] = {}

    def program(self) -> list[str]:
        """Return the words that a command line to be pasted begins with."""
        return ["prime-async", *(("--context", self.context) if self.context else ())]

    def settings(self) -> Settings:
        """Read the configuration that holds for this command.

        Raises:
            ConfigError: a broken file, an unknown context.
        """
        from prime_async.config import load_settings

        settings = load_settings(context=self.context)
        if settings.api_key:
            self.secrets.add(settings.api_key)
        return settings

    def store(self) -> ConfigStore:
        """Open the configuration files for reading and writing."""
        from prime_async.config import ConfigStore

        return ConfigStore()

    def api(self) -> AsyncAPIClient:
        """Make the plain client of this context; use it as a context manager."""
        from prime_async.api import AsyncAPIClient

        self.settings()
        return AsyncAPIClient(context=self.context)

    def evals(self) -> AsyncEvalsClient:
        """Make the evaluations client of this context; use it as a context manager."""
        from prime_async.evals import AsyncEvalsClient

        self.settings()
        return AsyncEvalsClient(context=self.context)

    def sandboxes(self) -> AsyncSandboxClient:
        """Make the sandboxes client of this context; use it as a context manager."""
        from prime_async.sandboxes import AsyncSandboxClient

        self.settings()
        return AsyncSandboxClient(context=self.context)

    def traces(self) -> AsyncTracesClient:
        """Make the traces client of this context; use it as a context manager."""
        from prime_async.traces import AsyncTracesClient

        self.settings()
        return AsyncTracesClient(context=self.context)


pass_session = asyncclick.make_pass_decorator(Session)
