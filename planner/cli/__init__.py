"""The command `plan`: one file per command; each parses, builds, calls and renders, and decides nothing."""
