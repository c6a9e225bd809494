"""Tests of the whole: real HTTP, real databases, real receivers, real processes."""
