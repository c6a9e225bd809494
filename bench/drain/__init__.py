"""How fast queued work is drained, beside PgQueuer and a bare asyncpg loop."""
