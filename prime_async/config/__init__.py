"""Where every setting comes from: arguments, environment, contexts and ``~/.prime/config.json``.

The files are those of the official command, so a login made there works here and the other way
round. ``load_settings`` only reads; ``ConfigStore`` is the one that writes.
"""

from prime_async.config.contexts import LOCAL, PRODUCTION
from prime_async.config.files import PrimePaths, home_directory
from prime_async.config.settings import Settings, load_settings
from prime_async.config.store import ConfigStore

__all__ = [
    "ConfigStore",
    "LOCAL",
    "PRODUCTION",
    "PrimePaths",
    "Settings",
    "home_directory",
    "load_settings",
]
