"""What to do: estimate, choose, launch, and the command that says so."""
