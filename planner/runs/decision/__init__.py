"""What to do next with a run: pure functions of what is recorded and what was seen."""
