"""The search for tuned numbers."""
