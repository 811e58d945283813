"""The drawings: one file each, whose name is its word; see gostlab.analysis.plotting.plot."""
