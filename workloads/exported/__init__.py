"""What an exported model is: the export.json beside its file, and what a Coral board is known to refuse."""
