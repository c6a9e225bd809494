"""The examples, run as their users run them."""
