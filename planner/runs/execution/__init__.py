"""Carrying out what was decided: the executor and the steps that it takes through a provider."""
