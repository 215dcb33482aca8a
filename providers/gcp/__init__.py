"""Google Cloud as a provider."""
