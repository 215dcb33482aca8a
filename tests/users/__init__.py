"""What users write: the notebooks of examples/ and the programs of docs/api.md."""
