"""The commands and their flags. Each loads what it needs when it runs: starting is most of what a command takes."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from perdure import __version__
from perdure.cli import batches, tasks
from perdure.cli.options import ConfigFlag, DatabaseFlag, JsonFlag, fail, load_settings
from perdure.cli.preview import preview
from perdure.cli.retries import retries
from perdure.cli.submitting import submit
from perdure.config import ConfigurationError, new_instance_id, render_settings
from perdure.domain.errors import PerdureError
from perdure.worker import DEFAULT_CONCURRENCY, DEFAULT_PROCESSES

app = typer.Typer(
    name="perdure", help="A durable task engine.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
config_app = typer.Typer(help="The effective configuration.", no_args_is_help=True)
app.add_typer(tasks.app, name="task")
app.add_typer(batches.app, name="batch")
app.command("submit")(submit)
app.command("retries")(retries)
app.command("preview")(preview)
app.add_typer(config_app, name="config")


@app.command()
def serve(
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    host_url: Annotated[str | None, typer.Option(help="URL under which receivers call back.")] = None,
    instance_id: Annotated[str | None, typer.Option(help="Name of this instance; must be unique.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes to run (PostgreSQL only).")] = None,
    only: Annotated[str | None, typer.Option(help="Claim only these: kinds=etl,mail.")] = None,
    namespaces: Annotated[str | None, typer.Option(help="Claim only tasks of these namespaces.")] = None,
    no_api: Annotated[bool, typer.Option("--no-api", help="Run the engine without the HTTP API.")] = False,
    no_engine: Annotated[bool, typer.Option("--no-engine", help="Serve the HTTP API without running tasks.")] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="auto, human or json.")] = None,
) -> None:
    """Take tasks over HTTP and run them."""
    flags: dict[str, object] = {
        "server.database_url": database_url,
        "server.host": host,
        "server.port": port,
        "server.host_url": host_url,
        "server.instance_id": instance_id,
        "server.workers": workers,
        "server.kinds": _only_kinds(only),
        "server.namespaces": namespaces,
        "server.api": False if no_api else None,
        "server.engine": False if no_engine else None,
        "log.level": log_level,
        "log.format": log_format,
    }
    settings = load_settings(flags, config)
    from perdure.cli.serving import serve_forever

    sys.exit(serve_forever(settings))


@app.command()
def worker(
    program: Annotated[str, typer.Argument(help="Where the tasks are: module:name of a Perdure application.")],
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Most tasks at a time.")] = DEFAULT_CONCURRENCY,
    processes: Annotated[int, typer.Option(min=1, help="Processes to run, each with that many tasks.")] = 1,
    cpu_processes: Annotated[
        int, typer.Option(min=1, help="Processes for tasks that ask for one of their own.")
    ] = DEFAULT_PROCESSES,
    namespaces: Annotated[str | None, typer.Option(help="Take only tasks of these namespaces.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="auto, human or json.")] = None,
) -> None:
    """Run the tasks of a Python program."""
    from perdure.cli.worker import NoSuchApp, find_app, work_forever

    flags: dict[str, object] = {
        "server.database_url": database_url,
        "server.namespaces": namespaces,
        "log.level": log_level,
        "log.format": log_format,
    }
    try:
        settings = find_app(program).settings(flags, config)
    except NoSuchApp as error:
        fail(str(error))
    except ConfigurationError as error:
        fail("The configuration has problems:", *(f"  - {problem}" for problem in error.problems))
    sys.exit(work_forever(program, settings, concurrency, cpu_processes, processes))


@app.command()
def migrate(config: ConfigFlag = None, database_url: DatabaseFlag = None) -> None:
    """Bring the database to the schema of this version. `serve` does it too."""
    settings = load_settings({"server.database_url": database_url}, config)

    async def run() -> None:
        from perdure.assemble import make_store

        store = make_store(settings, new_instance_id())
        try:
            await store.open()
        finally:
            await store.close()

    try:
        asyncio.run(run())
    except PerdureError as error:
        fail(f"{error}")
    print("The database is up to date.")


@config_app.command("show")
def show_config(config: ConfigFlag = None, as_json: JsonFlag = False) -> None:
    """Print every setting, its value and where it came from; secrets are masked."""
    rows = render_settings(load_settings({}, config))
    if as_json:
        print(json.dumps([{"name": name, "value": value, "source": source} for name, value, source in rows]))
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for name, value, source in rows:
        table.add_row(name, str(value), source)
    Console(soft_wrap=True).print(table, markup=False)


@app.command()
def version() -> None:
    """Print the version."""
    print(f"perdure {__version__}")


def _only_kinds(only: str | None) -> str | None:
    if only is None:
        return None
    name, _, kinds = only.partition("=")
    if name != "kinds" or not kinds:
        fail(f"--only {only!r} is not understood; write --only kinds=etl,mail")
    return kinds


def main() -> None:
    app()
