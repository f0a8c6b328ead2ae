"""Ask a model about problems with solutions: for marking schemes (schemes.py), or for faults (filter.py)."""
