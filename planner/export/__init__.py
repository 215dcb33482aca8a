"""A job as the files that other programs run."""
