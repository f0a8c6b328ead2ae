"""Ask a model about each row of a problem file: for a marking scheme (schemes.py), or for its faults (filter.py)."""
