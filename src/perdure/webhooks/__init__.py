"""How the outside is called: one way out, bounded in time, size and number. Knows of no store and no task."""
