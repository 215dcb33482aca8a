"""`python -m tests.doubles.google`: the server in a process of its own."""

from tests.doubles import quick_headers
from tests.doubles.google.server import main

quick_headers.install()
main()
