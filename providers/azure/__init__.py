"""Microsoft Azure as a provider."""
