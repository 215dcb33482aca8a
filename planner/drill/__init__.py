"""A drill: a few cheap machines on the person's own account, which prove what no double can."""
