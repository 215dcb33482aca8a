"""What `import trainplan` gives, and what the command `plan` shares with it: from a job file to its plan, its launch
and its runs. Nothing here draws for a terminal."""
