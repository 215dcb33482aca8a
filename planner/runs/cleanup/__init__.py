"""Finding and ending what runs have left, by its labels, with or without a journal."""
