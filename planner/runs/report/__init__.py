"""The report of a run: one document of what it was asked, took, cost and reached; the page is made of it."""
