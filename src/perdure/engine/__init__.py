"""What happens when: commands, the group-committing writer, loops, wake-ups."""
