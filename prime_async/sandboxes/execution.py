"""`AsyncSandboxCommands`: running commands and processes in sandboxes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from prime_async.errors import UsageError
from prime_async.sandboxes.attachment import Attachment
from prime_async.sandboxes.command_stream import AsyncCommandStream
from prime_async.sandboxes.commands import CommandOptions
from prime_async.sandboxes.control import AsyncSandboxControl
from prime_async.sandboxes.models import CommandResponse
from prime_async.sandboxes.processes import AsyncSandboxProcess, terminal_size
from prime_async.sandboxes.running import OnOutput, execute, open_stream
from prime_async.sandboxes.wire import Session
from prime_async.transport import check_timeout, deadline, path_segment

__all__ = ["AsyncSandboxCommands"]

OPEN_SECONDS = 60.0
"""Seconds a process has to start."""


class AsyncSandboxCommands(AsyncSandboxControl):
    """Runs commands and processes; the second part of :class:`AsyncSandboxClient`."""

    async def execute_command(
        self,
        sandbox_id: str,
        command: str,
        working_dir: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        user: str | None = None,
        *,
        output: OnOutput | None = None,
        max_output_bytes: int | None = None,
    ) -> CommandResponse:
        """Run a shell command and return what it wrote and its exit code.

        Cancelled, or out of time, it ends the command and everything it started in its session;
        what it had written is on the exception (:func:`partial_output`).

        Args:
            sandbox_id: where.
            command: for ``bash -c``; any text but NUL.
            working_dir: where in the sandbox; by default its own.
            env: variables besides the sandbox's.
            timeout: seconds the command may take; default 300, 0 and ``math.inf`` unlimited.
            user: whom to run it as; by default the sandbox's own.
            output: called with each line as it is written. In a container, which answers all at
                once, it is called at the end.
            max_output_bytes: bytes of each stream that are kept, default 64 MiB; beyond, the
                beginning is left out and the result says so.

        Raises:
            UsageError: an argument is wrong; before anything is sent.
            CommandTimeoutError: its time was over.
            SandboxNotRunningError: the sandbox has ended; the child of its reason. With the
                ``error_type`` ``SANDBOX_NOT_FOUND`` there is none of this id.
            APIError: it could not be run; ``.ambiguous`` when it may have been.
        """
        path_segment(sandbox_id, "sandbox_id")
        options = CommandOptions.checked(command, working_dir, env, timeout, user, max_output_bytes)
        return await execute(self._gateway, sandbox_id, options, output)

    def stream_command(
        self,
        sandbox_id: str,
        command: str,
        working_dir: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        user: str | None = None,
        *,
        max_output_bytes: int | None = None,
    ) -> AbstractAsyncContextManager[AsyncCommandStream]:
        """Run a shell command for a block, in which its lines are read as they are written.

        Leaving the block early ends the command and everything it started. Arguments and errors as
        :meth:`execute_command`.
        """
        path_segment(sandbox_id, "sandbox_id")
        options = CommandOptions.checked(command, working_dir, env, timeout, user, max_output_bytes)
        return open_stream(self._gateway, sandbox_id, options)

    async def open_process(
        self,
        sandbox_id: str,
        command: str,
        working_dir: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        *,
        pty: tuple[int, int] | None = None,
        timeout: float | None = None,
    ) -> AsyncSandboxProcess:
        """Start a shell command that runs beside the caller, and return it once it runs.

        Args:
            sandbox_id: a virtual machine; containers have no processes.
            command, working_dir, env, user: as :meth:`execute_command`.
            pty: run it on a terminal of so many columns and rows.
            timeout: seconds it has to start; default 60. It may run for a day.

        Raises:
            UsageError, SandboxNotRunningError: as :meth:`execute_command`.
            APIError: it could not be started.
        """
        path_segment(sandbox_id, "sandbox_id")
        spec = CommandOptions.checked(command, working_dir, env, None, user).spec()
        size = None if pty is None else terminal_size(pty)
        with deadline(check_timeout(timeout, OPEN_SECONDS), "starting a process"):
            attachment = await Attachment.start(self._gateway, sandbox_id, spec, size)
        return AsyncSandboxProcess(self._gateway, attachment, pty=size is not None)

    async def attach_process(
        self,
        sandbox_id: str,
        session_id: str | None = None,
        *,
        pid: int | None = None,
        pty: bool = False,
        timeout: float | None = None,
    ) -> AsyncSandboxProcess:
        """Attach to a process that runs; what it wrote before is not repeated.

        Args:
            sandbox_id: where it runs.
            session_id: its name (:attr:`AsyncSandboxProcess.session_id`), or None with `pid`.
            pid: its process id in the sandbox.
            pty: whether it runs on a terminal.
            timeout: seconds in all; default 60.

        Raises:
            UsageError: not exactly one of `session_id` and `pid`.
            APIError: there is no such process (``code`` is ``not_found``).
        """
        path_segment(sandbox_id, "sandbox_id")
        if (session_id is None) == (pid is None):
            raise UsageError("exactly one of session_id and pid is needed", field="session_id")
        session = Session(session_uuid=session_id, pid=pid)
        with deadline(check_timeout(timeout, OPEN_SECONDS), "attaching to a process"):
            attachment = await Attachment.attach(self._gateway, sandbox_id, session)
        return AsyncSandboxProcess(self._gateway, attachment, pty=pty)
