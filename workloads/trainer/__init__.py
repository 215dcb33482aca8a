"""The trainer that runs in the container: a job as JSON in, progress as JSON lines out, a Keras model at the end."""
