"""A bridge of its own for each test, closed at its end."""

from collections.abc import Iterator

import pytest

from prime_sync._bridge import Bridge


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    """A bridge apart from the one the sync clients share."""
    made = Bridge()
    yield made
    made.close()
