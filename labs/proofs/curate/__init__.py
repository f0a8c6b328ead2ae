"""Ask a model about the solved problems of a file: for marking schemes (schemes.py), or for faults (filter.py)."""
