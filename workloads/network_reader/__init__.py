"""Reads a network out of a person's own file, in a process of its own: `python -m trainplan.workloads.network_reader`.

A Python file can do anything, so it runs where it can do little (`confinement.py`, ADR 43). TensorFlow, JAX, PyTorch,
Keras and onnx are imported here and in the trainer alone.
"""
