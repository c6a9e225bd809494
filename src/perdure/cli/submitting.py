"""`perdure submit`: tasks from a file or from standard input."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.text import Text

from perdure.cli.options import REFUSED, ConfigFlag, DatabaseFlag, JsonFlag, UrlFlag, fail
from perdure.cli.show import note, print_json, print_table, status_text, untrusted
from perdure.cli.target import Target

STANDARD_INPUT = "-"
SHOWN_TASKS = 50
YAML_SUFFIXES = (".yaml", ".yml")
YAML_TIME = "tag:yaml.org,2002:timestamp"
NO_YAML = "YAML needs PyYAML, which is not installed: pip install 'perdure[yaml]'. JSON needs nothing."


def submit(
    file: Annotated[str, typer.Argument(help="JSON or YAML; - for standard input.", metavar="FILE")],
    name: Annotated[str | None, typer.Option(help="A name for the batch.")] = None,
    namespace: Annotated[str | None, typer.Option(help="The namespace of all its tasks.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key again submits nothing new; else a new one is made.")
    ] = None,
    config: ConfigFlag = None,
    database_url: DatabaseFlag = None,
    url: UrlFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Submit one task, a list of tasks, or a batch {"tasks": [...]} with its name, namespace, context and retry."""
    tasks = read_tasks(file)
    submitted = Target(config, database_url, url, as_json).run(
        lambda client: client.submit(tasks, name=name, namespace=namespace, idempotency_key=idempotency_key),
        creates=True,
        invalid=REFUSED,
    )
    if as_json:
        print_json(submitted)
    elif submitted.batch_id is None:
        print("Nothing was created: there was nothing to submit, or every task is a duplicate.")
    else:
        print(f"batch {submitted.batch_id}")
        print_table(
            ("id", "status", "key", "name"),
            (
                (Text(task.id), status_text(task.status), untrusted(task.key), untrusted(task.name))
                for task in submitted.tasks[:SHOWN_TASKS]
            ),
        )
        if len(submitted.tasks) > SHOWN_TASKS:
            note(f"There are {len(submitted.tasks) - SHOWN_TASKS} more tasks; --json has all of them.")


def read_tasks(file: str) -> Any:
    """What a file holds: a task, tasks or a batch. Ends the command if it cannot be read."""
    what = "Standard input" if file == STANDARD_INPUT else f"The file {file}"
    text = _read_text(file, what)
    suffix = Path(file).suffix.lower()
    # Without a name to go by, the first character tells: YAML that looks like JSON is JSON.
    is_json = suffix not in YAML_SUFFIXES and (suffix == ".json" or text.lstrip()[:1] in ("[", "{", ""))
    value = _read_json(text, what) if is_json else _read_yaml(text, what)
    if not isinstance(value, dict | list):
        fail(f'{what} must hold a task, a list of tasks, or a batch such as {{"tasks": [...]}}.')
    return value


def _read_text(file: str, what: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        fail(f"{what} cannot be read: {error.strerror or error}.")
    except UnicodeDecodeError:
        fail(f"{what} must be UTF-8 text.")


def _read_json(text: str, what: str) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number there")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        fail(f"{what} is not JSON: {str(error)[:200]}.")


def _read_yaml(text: str, what: str) -> Any:
    try:
        yaml = import_module("yaml")
    except ImportError:
        fail(NO_YAML)

    # Times stay the text that they are, as in JSON.
    resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag != YAML_TIME]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    loader = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": resolvers})
    try:
        value = yaml.load(text, loader)
        # Through JSON and back: so that whatever it does not know is found here, with its reason.
        return json.loads(json.dumps(_with_text_keys(value), allow_nan=False))
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        fail(f"{what} is not the YAML that JSON could say: {' '.join(str(error).split())[:300]}.")


def _with_text_keys(value: Any) -> Any:
    """The value, if all of its keys are text: YAML takes `on` for true and 1 for a number, and JSON would agree."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"the key {key!r} is no text; put it into quotes")
        return {key: _with_text_keys(member) for key, member in value.items()}
    return [_with_text_keys(entry) for entry in value] if isinstance(value, list) else value
