"""Trackers of experiments (MLflow, Weights & Biases, Trackio): runs are written to them from this computer."""
