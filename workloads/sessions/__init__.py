"""A run at a place that ends its sessions (Google Colab, Kaggle): each session goes on where the last one ended.

`plan export JOB --to colab` and `--to kaggle` write a folder that holds this package as a part of the trainer's wheel.
It runs there on the standard library alone, and starts the trainer as a process of its own (`session.py`). What
outlives a session is in one folder (`kept.py`). What a session took and reached is a record in it, and all records
together are the file that `plan history import` reads (`records.py`). How many sessions a run needs is `needed.py`,
there and in `plan export`.
"""
