"""The drawings: one file each, whose name is its word; see analysis.draw.registry."""
