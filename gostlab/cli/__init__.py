"""The verbs of the core: what can be asked of the lab."""
