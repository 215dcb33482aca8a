"""Fits the throughput model to the measurements and holds it against folds of them: `python -m scripts.fit`."""

import os

# Matrices of a few hundred rows: threads of the linear algebra only get in each other's way, and in the workers'.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
