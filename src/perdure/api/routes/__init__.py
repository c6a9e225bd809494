"""What can be asked over HTTP: one file a subject, each with its part of the table of endpoints."""
