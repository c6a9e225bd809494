"""Python workers: they claim tasks of the kinds they know, run functions, and report."""
