"""What stands beside the core: each folder is an extension that the core does not import (docs/adr/0060-extensions.md).

An extension is found by its entry point in pyproject.toml, as one of another package is.
"""
