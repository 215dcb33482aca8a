"""This machine as a provider: containers where Docker or Podman answers, processes where neither does."""
