"""Ask a model to write a marking scheme for each row of a problem file (schemes.py), or to find faults (filter.py)."""
