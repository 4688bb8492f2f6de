"""Runtimes: what runs sandboxes. `protocol.py` is the contract, `docs/isolation.md` what holds."""
