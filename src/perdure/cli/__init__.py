"""The command line: `perdure serve`, `migrate`, `preview`, `config show`, `version`."""

from perdure.cli.main import main

__all__ = ["main"]
