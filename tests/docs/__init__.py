"""The documentation, held to its word."""
