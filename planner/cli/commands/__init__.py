"""One module for each command. Nothing imports a command: what two of them share stands one folder up."""
