"""Splitting, tiling, placing and lowering: from steps to tasks."""
