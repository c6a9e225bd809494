"""What tests stand on: a real PostgreSQL, a real HTTP receiver."""
