"""Retries end to end: from a failure to the next attempt, on both databases, by a clock that the tests move."""
