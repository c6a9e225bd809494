"""Tests of the engine: real databases, a real receiver, and time that moves when it is told to."""
