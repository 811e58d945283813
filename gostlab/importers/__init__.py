"""Importers of recorded paths: a file each, with a FORMAT; base.py has their types."""
