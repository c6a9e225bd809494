"""Perdure runs tasks that outlive crashes, restarts and failing services."""

__version__ = "0.1.0"
