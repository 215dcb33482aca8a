"""`python -m tests.doubles.google`: the server in a process of its own."""

from tests.doubles.google.server import main

main()
