"""The loops: one file each, each with `run_once`."""
