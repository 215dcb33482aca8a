"""What a run has cost and measured, once it has ended."""
