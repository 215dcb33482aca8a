"""The gate imports it; what it would compute is known."""
