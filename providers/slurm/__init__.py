"""Slurm: the person's own cluster. Nothing is rented; Slurm queues, starts and ends the jobs."""
