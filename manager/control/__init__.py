"""Watching, scheduling and writing: the part of the manager that has a clock and a network."""
