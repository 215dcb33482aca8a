"""Slurm's commands over processes of this machine."""
