"""What runs beside the container on a rented machine: standard library only, Python 3.8 and newer."""
