"""TPUs v2 to v5e, which the Cloud TPU API rents."""
