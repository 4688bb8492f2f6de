"""Measurements: ours beside the official packages and a bare floor, in one run on one machine."""
