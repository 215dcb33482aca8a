"""What is on disk of runs before anything is created for them, and the locks on it."""
