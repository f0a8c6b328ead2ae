"""Lean 4: what a theorem is, which Lean checks it, sessions that show goals, and what counts as proved."""
