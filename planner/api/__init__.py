"""What `import trainplan` gives, and what the command `plan` shares with it: from a job file to its plan, its launch
and its runs. Nothing here draws for a terminal."""

PUBLIC = {
    "Job": "job",
    "Lever": "plan",
    "Offer": "plan",
    "Plan": "plan",
    "Run": "run",
    "RunStatus": "run",
    "estimate": "plan",
    "launch": "run",
    "runs": "run",
}
"""The names of the Python API, and the modules of this package that they are in. tests/golden/api.txt has their
signatures: it changes with the version of trainplan alone."""
ERRORS = (
    "TrainplanError", "BadInputError", "DeclinedError", "LimitReachedError", "NoCapacityError", "NothingLeftError",
    "RefusedError", "TeardownUnverifiedError", "ThisMachineError", "TrainingFailedError", "UnknownRunError",
)  # fmt: skip
"""The errors that it raises, of trainplan.planner.errors."""
