"""The spawner: one small process per server that starts sandboxes and commands and reports ends.

It is the only part that forks. It holds no state that matters: keepers outlive it, and a new one is
told about them by pid and start time. Only the standard library is imported here, so that the
process stays small and starts fast.
"""
