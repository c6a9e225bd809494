"""Python workers: they claim tasks of the kinds they know, run functions, and report."""

DEFAULT_CONCURRENCY = 100
DEFAULT_PROCESSES = 2
