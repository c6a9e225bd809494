"""The HTTP API: `build_app` makes the application that a server runs."""

from perdure.api.app import build_app

__all__ = ["build_app"]
