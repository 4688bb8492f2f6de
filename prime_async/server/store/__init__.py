"""The platform's state: SQLAlchemy Core over SQLite, one writer thread, numbered migrations."""
