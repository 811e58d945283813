"""What has to be there, fetched or built. It imports Python's own library alone."""
