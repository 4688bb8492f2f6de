"""One push of a result run as the command line tells it: what came of it, and how to go on."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prime_async.errors import OversizedSamplesError, PartialPushError, PrimeError
from prime_async_cli.failures import CommandError
from prime_async_cli.progress import Bar, progress
from prime_async_cli.session import Session

if TYPE_CHECKING:
    from prime_async.evals import AsyncEvalsClient, PushedRun, PushReceipt

__all__ = ["Delivery", "deliver"]

_SHOWN = 10


@dataclass(slots=True)
class Delivery:
    """What became of one folder or file.

    Attributes:
        path: the folder or file.
        evaluation_id: where the samples are, once that is known.
        receipt: what the push did, once it ran.
        pushed: all of it, once it went through.
        error: why it did not work out, or None.
    """

    path: Path
    evaluation_id: str | None = None
    receipt: PushReceipt | None = None
    pushed: PushedRun | None = None
    error: BaseException | None = field(default=None, repr=False)

    @property
    def complete(self) -> bool:
        """Everything is on the platform."""
        return self.error is None

    @property
    def finalized(self) -> bool:
        """The evaluation is closed."""
        return self.pushed is not None and self.pushed.finalized

    @property
    def viewer_url(self) -> str | None:
        """The page that shows it."""
        return self.pushed.viewer_url if self.pushed else None


async def deliver(
    session: Session, client: AsyncEvalsClient, path: Path, arguments: Mapping[str, Any]
) -> Delivery:
    """Push one folder; what goes wrong is kept in what is returned."""
    delivery = Delivery(path)
    again = _Again(session, path, arguments)
    with progress(session.output) as bar:

        def known(evaluation_id: str, samples: int) -> None:
            delivery.evaluation_id = evaluation_id
            bar.begin(f"pushing {path}", samples)
            _next(session, delivery, f"go on with `{again.push('--resume')}`")

        try:
            delivery.pushed = await client.push_run(
                path, progress_callback=bar.advance, on_evaluation=known, **arguments
            )
        except Exception as error:  # reported by the caller, beside the receipt
            _note(session, delivery, bar, again, error)
        else:
            delivery.receipt = delivery.pushed.receipt
            session.next_step = None
            if not delivery.receipt.complete:
                delivery.error = _refused(delivery, delivery.receipt)
    return delivery


class _Again:
    """Writes the command lines that go on, with the options that still count."""

    def __init__(self, session: Session, path: Path, arguments: Mapping[str, Any]) -> None:
        self._program = session.program()
        self._push = [*self._program, "eval", "push", str(path)]
        for name in arguments["trim"]:
            self._push += ["--trim", name]
        if arguments["skip_oversized"]:
            self._push += ["--skip"]
        if not arguments["finalize"]:
            self._push += ["--no-finalize"]
        self._metrics: list[str] = []
        if arguments["metrics"] is not None:
            self._metrics = ["--metrics", json.dumps(arguments["metrics"])]

    def push(self, *more: str) -> str:
        """Return the push, with more words."""
        return shlex.join([*self._push, *self._metrics, *more])

    def finalize(self, evaluation_id: str) -> str:
        """Return what closes the evaluation."""
        return shlex.join([*self._program, "eval", "finalize", evaluation_id, *self._metrics])


def _next(session: Session, delivery: Delivery, what: str) -> None:
    """From here on a failure leaves an evaluation behind: say which, and what to do."""
    session.facts = {"evaluation_id": delivery.evaluation_id, "path": str(delivery.path)}
    session.next_step = f"evaluation {delivery.evaluation_id} is not complete; {what}"


def _note(session: Session, delivery: Delivery, bar: Bar, again: _Again, error: Exception) -> None:
    delivery.error = error
    if isinstance(error, PartialPushError):
        delivery.receipt = error.receipt
    token = delivery.receipt.resume_token if delivery.receipt is not None else None
    if delivery.evaluation_id is None:
        _speak_of_options(error)
    elif token is not None:
        _next(session, delivery, f"go on with `{again.push('--resume', token)}`")
    elif bar.done == bar.total:
        close = f"close it with `{again.finalize(delivery.evaluation_id)}`"
        _next(session, delivery, f"all samples are stored: {close}")
    else:
        into = again.push("--eval-id", delivery.evaluation_id)
        _next(session, delivery, f"go on with `{into}`")


def _speak_of_options(error: Exception) -> None:
    """Let hints name options where the core names arguments."""
    if isinstance(error, OversizedSamplesError):
        error.hint = "nothing was created; --trim FIELD shortens them, --skip leaves them out"
    elif isinstance(error, PrimeError) and error.hint:
        error.hint = re.sub(r"evaluation_id='([^']*)'", _as_option, error.hint)


def _as_option(named: re.Match[str]) -> str:
    return f"--eval-id {shlex.quote(named[1])}"


def _refused(delivery: Delivery, receipt: PushReceipt) -> CommandError:
    lines = [f"sample {each.index}: {each.reason}" for each in receipt.refused[:_SHOWN]]
    if receipt.samples_skipped > len(lines):
        lines.append(f"and {receipt.samples_skipped - len(lines)} more")
    state = "finalized" if delivery.finalized else "not finalized"
    return CommandError(
        f"{receipt.samples_skipped} of {receipt.samples_total} samples were refused; "
        f"{receipt.samples_pushed} are stored\n" + "\n".join(lines),
        hint=f"evaluation {delivery.evaluation_id} is {state}",
        evaluation_id=delivery.evaluation_id,
    )
