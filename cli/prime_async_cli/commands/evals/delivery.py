"""One push of a result run as the command line tells it: what came of it, and how to go on."""

from __future__ import annotations

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
    with progress(session.output, f"checking {path}") as bar:

        def known(evaluation_id: str, samples: int) -> None:
            delivery.evaluation_id = evaluation_id
            bar.begin(f"pushing {path}", samples)
            _next(session, delivery, f"go on with `{_again(path)} --resume`")

        try:
            delivery.pushed = await client.push_run(
                path, progress_callback=bar.advance, on_evaluation=known, **arguments
            )
        except Exception as error:  # reported by the caller, beside the receipt
            _note(session, delivery, bar, error)
        else:
            delivery.receipt = delivery.pushed.receipt
            session.next_step = None
            if not delivery.receipt.complete:
                delivery.error = _refused(delivery, delivery.receipt)
    return delivery


def _again(path: Path) -> str:
    return f"prime-async eval push {shlex.quote(str(path))}"


def _next(session: Session, delivery: Delivery, what: str) -> None:
    """From here on a failure leaves an evaluation behind: say which, and what to do."""
    session.facts = {"evaluation_id": delivery.evaluation_id, "path": str(delivery.path)}
    session.next_step = f"evaluation {delivery.evaluation_id} is not complete; {what}"


def _note(session: Session, delivery: Delivery, bar: Bar, error: Exception) -> None:
    delivery.error = error
    if isinstance(error, PartialPushError):
        delivery.receipt = error.receipt
    if delivery.evaluation_id is None:
        _speak_of_options(error)
    elif delivery.receipt is not None and delivery.receipt.resume_token:
        token = delivery.receipt.resume_token
        _next(session, delivery, f"go on with `{_again(delivery.path)} --resume {token}`")
    elif bar.done == bar.total:
        evaluation_id = shlex.quote(delivery.evaluation_id)
        close = f"close it with `prime-async eval finalize {evaluation_id}`"
        _next(session, delivery, f"all samples are stored: {close}")
    else:
        into = f"{_again(delivery.path)} --eval-id {shlex.quote(delivery.evaluation_id)}"
        _next(session, delivery, f"go on with `{into}`")


def _speak_of_options(error: Exception) -> None:
    """Let hints name options where the core names arguments."""
    if isinstance(error, OversizedSamplesError):
        error.hint = "nothing was created; --trim FIELD shortens them, --skip leaves them out"
    elif getattr(error, "field", None) == "env":
        assert isinstance(error, PrimeError)
        error.hint = "add --env NAME, --run-id ID or --eval-id ID"
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
