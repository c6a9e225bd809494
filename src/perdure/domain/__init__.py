"""What things mean: pure rules of tasks, batches and retries. Standard library only."""
