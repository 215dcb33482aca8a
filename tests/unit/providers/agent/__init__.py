"""The agent of the rented machine."""
