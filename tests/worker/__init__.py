"""Tests of Python workers."""
