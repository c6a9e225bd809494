"""Perdure from Python: functions become task kinds, calls of them become tasks."""
