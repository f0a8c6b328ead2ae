"""qed-rsa: how far test-time compute takes a small reasoning model. Importing this package never needs torch."""

from core import errors as errors  # first of all imports: from here on Ctrl-C is one word
