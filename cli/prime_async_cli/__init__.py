"""The ``prime-async`` command: parse, call the core, show the result."""
