"""Fits the simulator's timing to published measurements of real cards, and says how well."""
