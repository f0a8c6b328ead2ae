"""Ask a model about problems and their solutions, to write marking schemes (schemes.py) or find
faults (filter.py)."""
