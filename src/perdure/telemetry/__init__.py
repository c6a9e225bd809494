"""What operators see from outside: metrics and logs. Listens to the engine; nothing depends on it."""
