"""qed-rsa: how far test-time compute takes a small reasoning model. Importing this package never needs torch."""

import os
import sys

# Where a command is starting (python -m core.…, or an experiment's file), Ctrl-C is one word from here on.
_started = getattr(sys, "argv", [""])[0]
if _started == "-m" or os.path.basename(os.path.dirname(os.path.abspath(_started))) == "experiments":
    from core.base import interrupts as interrupts
