"""The one home of the version number; read by the build and by `prime-async --version`."""

__version__ = "0.1.0"
