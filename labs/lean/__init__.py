"""Lean 4: theorems, the Lean that checks them, sessions that show goals, and the acceptance of proofs."""
