"""What a push did: counts, ranges, refusals, and the token that resumes it."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from prime_async.errors import UsageError
from prime_async.spool import Ranges

__all__ = ["PushReceipt", "RefusedSample", "ResumeToken", "is_push_id"]

_TOKEN_PREFIX = "pr1."  # noqa: S105 - marks what the text is, secures nothing
_PUSH_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TOKEN_SHAPE = tuple[str, str, list[Any], list[Any]]


def is_push_id(value: object) -> bool:
    """Say whether a value can name a push: on the wire, and as a folder of the spool."""
    return isinstance(value, str) and _PUSH_ID.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class RefusedSample:
    """A sample that was not and will not be stored as it is.

    Attributes:
        index: position in the input, from 0.
        reason: why, in words.
        path: the place of the fault, such as ``samples[7].info.logits``.
        status: the platform's status for it (413, 422, 409), or None when it was refused before
            sending.
        size: its bytes on the wire, where size was the reason.
    """

    index: int
    reason: str
    path: str
    status: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class ResumeToken:
    """What is needed to go on with a push.

    Its text goes to ``push_samples(..., resume=)`` or ``eval push --resume``.

    Attributes:
        evaluation_id, push_id: which push.
        stored: samples the platform holds.
        unknown: samples that may have arrived; never sent again blindly.
    """

    evaluation_id: str
    push_id: str
    stored: Ranges = field(default_factory=Ranges)
    unknown: Ranges = field(default_factory=Ranges)

    @property
    def settled(self) -> Ranges:
        """Samples that are not to be sent."""
        return self.stored | self.unknown

    def __str__(self) -> str:
        ranges = [self.stored.to_list(), self.unknown.to_list()]
        data = msgspec.json.encode([self.evaluation_id, self.push_id, *ranges])
        return _TOKEN_PREFIX + base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")

    @classmethod
    def parse(cls, text: str) -> ResumeToken:
        """Read a token back.

        Raises:
            UsageError: it is not a resume token.
        """
        try:
            if not text.startswith(_TOKEN_PREFIX):
                raise ValueError("it does not begin as one")
            data = base64.urlsafe_b64decode(text[len(_TOKEN_PREFIX) :] + "===")
            evaluation_id, push_id, stored, unknown = msgspec.json.decode(data, type=_TOKEN_SHAPE)
            if not is_push_id(push_id):
                raise ValueError("its push has no proper id")
            return cls(evaluation_id, push_id, Ranges.from_list(stored), Ranges.from_list(unknown))
        except (
            AttributeError,
            TypeError,
            ValueError,
            binascii.Error,
            msgspec.MsgspecError,
            UnicodeError,
        ) as error:
            raise UsageError(
                "this is not a resume token",
                field="resume",
                hint="take it from receipt.resume_token or from the output of eval push, whole",
            ) from error


@dataclass(frozen=True, slots=True)
class PushReceipt(Mapping[str, Any]):
    """The outcome of a push.

    A mapping too, with the official keys (``samples_pushed``, ``samples_skipped``) and ours.

    Attributes:
        evaluation_id, push_id: what was pushed where.
        samples_pushed: samples the platform holds now (found there by a resumed push included).
        samples_skipped: samples refused, here or by the platform.
        refused: each of them, with index, path and reason (the first 1,000).
        stored: their input indexes as ranges ``[[start, stop], …]``.
        unknown: sent, but whether they arrived cannot be told; never sent again blindly.
        undelivered: certainly not on the platform, neither spooled nor refused.
        spooled: samples kept on disk at `spool_path`, delivered by ``prime-async eval sync``;
            those in `unknown` are kept there too, and not counted here.
        trimmed: samples that fit only after fields were left out (``trim=``), with the names of the
            fields.
        nonfinite: how often NaN or an infinity was written as null, by place (``reward``,
            ``metrics.<name>``).
        samples_total: samples the input held, or None when that is not known.
        read_all: False when the push ended before the input did.
        bytes_sent, batches, seconds: what it took.
        resume_token: text that resumes the push, or None when nothing is left to do.
    """

    evaluation_id: str
    push_id: str
    samples_pushed: int = 0
    samples_skipped: int = 0
    refused: tuple[RefusedSample, ...] = ()
    stored: tuple[tuple[int, int], ...] = ()
    unknown: tuple[tuple[int, int], ...] = ()
    undelivered: tuple[tuple[int, int], ...] = ()
    spooled: int = 0
    spool_path: Path | None = None
    trimmed: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    nonfinite: Mapping[str, int] = field(default_factory=dict)
    samples_total: int | None = None
    read_all: bool = True
    bytes_sent: int = 0
    batches: int = 0
    seconds: float = 0.0
    resume_token: str | None = None

    @property
    def complete(self) -> bool:
        """True when every sample of the input is on the platform."""
        left = self.samples_skipped or self.unknown or self.undelivered or self.spooled
        return self.read_all and not left

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain JSON values."""
        plain: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return plain

    def __getitem__(self, key: str) -> Any:
        if key in self.__dataclass_fields__:
            return getattr(self, key)
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)

    def __str__(self) -> str:
        """One line that says everything that is not as it should be."""
        noun = "sample" if self.samples_pushed == 1 else "samples"
        parts = [f"{self.samples_pushed} {noun} stored"]
        if self.samples_skipped:
            parts.append(f"{self.samples_skipped} refused")
        if self.trimmed:
            parts.append(f"{len(self.trimmed)} trimmed")
        if self.unknown:
            parts.append(f"{Ranges(self.unknown).total} unknown")
        if self.undelivered:
            parts.append(f"{Ranges(self.undelivered).total} not delivered")
        if self.spooled:
            parts.append(f"{self.spooled} kept in {self.spool_path}")
        if not self.read_all:
            parts.append("the input was not read to its end")
        return ", ".join(parts)
