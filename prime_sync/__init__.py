"""Sync facade."""
