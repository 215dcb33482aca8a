"""A person's data folder, read without numpy and without a framework: what is in it, and what a run would train on."""
