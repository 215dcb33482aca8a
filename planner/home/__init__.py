"""The home folder: which client it makes this computer, and that nobody else reads it."""
