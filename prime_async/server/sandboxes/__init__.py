"""Sandboxes on the embedded platform: their life (`fleet.py`), their commands, their gateway."""
