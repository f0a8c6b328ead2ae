"""qed-rsa: how far test-time compute takes a small reasoning model. Importing this package never needs torch."""
