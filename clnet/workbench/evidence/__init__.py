"""What is there, and the checks that prove it."""
