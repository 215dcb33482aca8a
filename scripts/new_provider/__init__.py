"""Write the files of a new provider: `python -m scripts.new_provider NAME`."""
