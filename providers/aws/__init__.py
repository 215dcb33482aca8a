"""Amazon Web Services as a provider."""
