"""The verbs of the engine: each a function of a session and a set of things, one transaction's worth of change.

A verb never waits for anything but its session. What it did is told by its result and by `session.changes`.
"""
