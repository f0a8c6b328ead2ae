"""Measure how far test-time compute takes a small reasoning model. The package does not import
torch."""
