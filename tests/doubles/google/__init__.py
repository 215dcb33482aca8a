"""Google's APIs on loopback: one server, a module for each API, each exchange held against Google's own description."""
