"""Measure how far test-time compute takes a small reasoning model. Importing this package does not need torch."""
