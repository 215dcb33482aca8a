"""What every rented machine shares, whatever its cloud."""
