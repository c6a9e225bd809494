"""The command line: `perdure serve`, `migrate`, `config show`, `version`."""

from perdure.cli.main import main

__all__ = ["main"]
