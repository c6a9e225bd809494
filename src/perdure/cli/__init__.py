"""The command line: for servers `perdure serve`, `migrate`, `config show`; for people `task`, `batch`, `submit`,
`retries`, `preview`, `version`.
"""

from perdure.cli.main import main

__all__ = ["main"]
