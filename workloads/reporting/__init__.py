"""What a script of the person's own may import while it runs: this folder is on its path, and holds one module."""
