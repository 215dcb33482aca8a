"""Know what training a CNN will cost, everywhere it could run, before you pay for it."""
