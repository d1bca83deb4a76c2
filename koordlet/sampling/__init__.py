"""Measuring: counters into rates, rates into rings, rings into averages and percentiles."""
