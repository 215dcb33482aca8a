"""Fits the throughput model to the measurements and holds it against folds of them: `python -m scripts.fit`."""
