"""What users write: the notebooks of examples/, the programs of docs/api.md, and programs that launch at clouds."""
