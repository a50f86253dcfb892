"""Predictions held against measurements of real cards."""
