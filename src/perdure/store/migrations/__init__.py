"""The steps from an empty database to the present schema, for each database."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

from perdure.domain.errors import SchemaMismatch
from perdure.store.statements import Dialect


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str


@cache
def load_migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """All steps in order; the last one's version is the schema that this version of perdure works with."""
    ending = f".{dialect.value}.sql"
    found = []
    for file in resources.files(__name__).iterdir():
        if file.name.endswith(ending):
            number, _, name = file.name.removesuffix(ending).partition("_")
            found.append(Migration(int(number), name, file.read_text("utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.version))


def missing(applied: set[int], dialect: Dialect) -> list[Migration]:
    """The steps still to take; refuses a database that a newer version has changed."""
    migrations = load_migrations(dialect)
    known = {migration.version for migration in migrations}
    newer = sorted(applied - known)
    if newer:
        raise SchemaMismatch(
            f"The database has schema version {newer[-1]}, but this perdure knows versions up to {max(known)}. "
            "It was upgraded by a newer perdure: install that version, or use another database."
        )
    return [migration for migration in migrations if migration.version not in applied]
