"""Fits the model of operators (planner/throughput/operators.py) to the measurements of every network."""
