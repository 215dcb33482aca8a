"""Writes a kept model in other formats, checks the files against it, and opens them (see
trainplan.workloads.exported)."""
