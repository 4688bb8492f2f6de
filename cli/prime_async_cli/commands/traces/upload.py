"""``traces upload``: a file to the platform, batch by batch, with a truthful account."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.commands.traces.options import Pair, pairs
from prime_async_cli.failures import CommandError
from prime_async_cli.options import argument, output_option
from prime_async_cli.progress import transfer_progress
from prime_async_cli.session import Session, pass_session
from prime_async_cli.text import counted
from prime_async_cli.value_types import FilePath

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prime_async.sandboxes import TransferProgress
    from prime_async.traces import Batch, RefusedLine, UploadReceipt, UploadReceipts

__all__ = ["upload"]

_MOST_NAMED = 10


@command(
    "upload",
    examples="""
    prime-async traces upload traces.jsonl
    prime-async traces upload traces.jsonl -c source=nightly -c branch=main
    prime-async traces upload episodes.jsonl --episodes
    """,
)
@argument(
    "path",
    type=FilePath(there=True),
    metavar="FILE",
    help="A file with one JSON document per line.",
)
@asyncclick.option("--episodes", is_flag=True, help="Each line is an episode with its traces.")
@asyncclick.option(
    "-c",
    "--upload-context",
    type=Pair(),
    multiple=True,
    metavar="KEY=VALUE",
    help="What is said of every line, to find them by; may be given again.",
)
@asyncclick.option("--no-compress", is_flag=True, help="Send the lines as they are.")
@output_option
@pass_session
async def upload(
    session: Session,
    path: Path,
    episodes: bool,
    upload_context: tuple[tuple[str, str], ...],
    no_compress: bool,
) -> int:
    """Upload a file of traces or episodes.

    Safe to repeat: what is stored already is stored once. The exit code is 1 when a line or a batch
    was refused; all others are stored then, as far as the account says.

    JSON: {"receipts": [{"upload_id", "status", "replayed"}], "num_batches", "refused":
    [{"line_number", "error"}]}.
    """
    said = pairs(upload_context)
    account = _Account(session, path)
    try:
        with transfer_progress(session.output, f"uploading {path.name}") as draw:
            account.draw = draw
            receipts = await _send(session, account, said, episodes=episodes, plain=no_compress)
    except Exception as error:
        account.close_failed(error)
        raise
    account.close(receipts)
    return 0


async def _send(
    session: Session, account: _Account, said: dict[str, str] | None, *, episodes: bool, plain: bool
) -> UploadReceipts:
    from prime_async.localfiles import LocalFile
    from prime_async.traces import LineFormat

    account.total = (await LocalFile.at(account.path)).size
    async with session.traces() as client:
        return await client.upload_file(
            account.path,
            line_format=LineFormat.EPISODE if episodes else LineFormat.TRACE,
            context=said,
            compress=not plain,
            on_batch=account.add,
            on_error="skip",
        )


class _Account:
    """Says of each batch what became of it, and of the whole at the end."""

    def __init__(self, session: Session, path: Path) -> None:
        self.path = path
        self.total: int | None = None
        self.draw: Callable[[TransferProgress], None] | None = None
        self._session = session
        self._done = 0
        self._batches = 0
        self._held: list[str] = []

    def add(self, batch: Batch, receipt: UploadReceipt) -> None:
        """A batch is stored. While a bar is drawn, its line waits for the end of the bar."""
        self._batches += 1
        self._done += batch.size
        state = "stored before" if receipt.replayed else receipt.status
        lines = f"lines {batch.first_line_number}-{batch.last_line_number}"
        line = f"{receipt.upload_id}  {state}  {lines}  {batch.size:,} bytes"
        if self.draw is not None:
            from prime_async.sandboxes import TransferProgress

            self.draw(TransferProgress(self._done, self.total))
            self._held.append(line)
        elif not self._session.output.json:
            self._session.output.text(line)

    def close(self, receipts: UploadReceipts) -> None:
        """Say what was stored.

        Raises:
            CommandError: not everything was.
        """
        self._release()
        output = self._session.output
        if output.json:
            output.document(_document(receipts, receipts.refused))
        else:
            batches = "1 batch" if self._batches == 1 else f"{self._batches:,} batches"
            output.note(f"{batches}, {self._done:,} bytes")
        _refuse(receipts.refused)

    def close_failed(self, error: Exception) -> None:
        """Say what was stored before the upload failed, and how to go on."""
        from prime_async.traces import partial_upload

        self._release()
        if getattr(error, "bad_lines", None):
            self._session.about = str(self.path)
        upload = partial_upload(error)
        if upload is None or not upload.receipts:
            return
        if self._session.output.json:
            self._session.output.document(_document(upload.receipts, upload.refused))
        self._session.facts["num_batches"] = len(upload.receipts)
        self._session.next_step = "run it again: what is stored already is stored once"

    def _release(self) -> None:
        held, self._held = self._held, []
        for line in held:
            self._session.output.text(line)


def _document(receipts: Sequence[UploadReceipt], refused: Sequence[RefusedLine]) -> dict[str, Any]:
    return {
        "receipts": [
            {"upload_id": each.upload_id, "status": each.status, "replayed": each.replayed}
            for each in receipts
        ],
        "num_batches": len(receipts),
        "refused": [
            {"line_number": each.line_number, "error": each.error.message} for each in refused
        ],
    }


def _refuse(refused: Sequence[RefusedLine]) -> None:
    if not refused:
        return
    named = [each.error.message for each in refused[:_MOST_NAMED]]
    more = len(refused) - len(named)
    raise CommandError(
        f"{counted(len(refused), 'line')} not sent\n"
        + "\n".join([*named, *([f"and {more:,} more"] if more else [])]),
        lines=[each.line_number for each in refused[:1000]],
    )
