"""What kinds say of themselves, read without running them, by Python's own library alone."""
