"""A simulated cloud, to practise on: it costs nothing, runs in its own time, and fails as clouds fail."""
