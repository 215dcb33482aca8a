"""What to do: estimate, choose, launch, and the command that says so."""

__version__ = "0.1.0"
