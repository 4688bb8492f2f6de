"""Field-report checks use the platforms behind the fault proxy too."""

from tests.faults.conftest import embedded, setting

__all__ = ["embedded", "setting"]
