"""Places that a job is exported to: their own programs read the files, and the notebook runs here."""
