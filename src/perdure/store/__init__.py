"""What is remembered: SQL, connections, migrations, and the verbs of the engine."""
