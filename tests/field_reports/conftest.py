"""Field-report checks use the platforms behind the fault proxy, and the sandboxes' double."""

from tests.faults.conftest import embedded, setting
from tests.sandboxes.conftest import box, client, double

__all__ = ["box", "client", "double", "embedded", "setting"]
