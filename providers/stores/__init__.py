"""Run directories in object storage: what the stores of every vendor have in common."""
