"""`LocalAddress`: how to reach the running platform."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["LocalAddress"]


@dataclass(frozen=True, slots=True)
class LocalAddress:
    """How to reach the embedded platform.

    Attributes:
        base_url: its address on this machine, as any client takes it.
        unix_socket: path of its socket, or None where there are none.
        api_key: the key it takes; never shown by ``repr``.
        started: True when this call started it, False when it was running.
        notes: sentences the user should see: another port than before, a new version started.
    """

    base_url: str
    unix_socket: str | None
    api_key: str = field(repr=False)
    started: bool = field(default=False, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    def environment(self) -> dict[str, str]:
        """Return the variables that make any client, the official ones too, talk to it."""
        return {
            "PRIME_API_BASE_URL": self.base_url,
            "PRIME_API_KEY": self.api_key,
            "PRIME_TRACES_URL": self.base_url,
        }
