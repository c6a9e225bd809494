"""What is said when PostgreSQL is away, or does not let us in: what is wrong, and what to do."""

from __future__ import annotations

import asyncpg

from perdure.config.problems import mask_password

#: The database is not there, or not right now, or not for us.
GONE = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.QueryCanceledError,
    asyncpg.ReadOnlySQLTransactionError,
)


def explain(url: str, error: BaseException) -> str:
    """A sentence or two for the operator, without the password."""
    database = f"The database {mask_password(url)}"
    reason = str(error) or type(error).__name__
    match error:
        case asyncpg.InvalidPasswordError():
            return f"{database} refuses the role or its password: {reason}. Correct them in server.database_url."
        case asyncpg.InvalidAuthorizationSpecificationError():
            return (
                f"{database} does not admit the role: {reason}. Name another one in server.database_url, or let an "
                "administrator of the database create or admit it."
            )
        case asyncpg.InvalidCatalogNameError():
            return f"{database} cannot be opened: {reason}. Create it, or name another one in server.database_url."
        case asyncpg.InsufficientPrivilegeError():
            return (
                f"{database} does not give the role enough rights: {reason}. It must be allowed to connect, and to "
                "create and use tables in its schema."
            )
        case _:
            return f"{database} does not answer: {reason}"


def describe_unreadable(url: str) -> str:
    """The same for an address that makes no sense."""
    return (
        f"The address {mask_password(url)} is not understood. Write postgresql://role:password@host:port/database, "
        "with %-escapes for special characters in the role and the password."
    )
