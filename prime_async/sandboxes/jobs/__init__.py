"""Background jobs: commands that go on in a sandbox when the caller is gone."""
