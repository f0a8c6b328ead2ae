"""Proof search in Lean: a model proposes tactics, Lean checks them, and a best-first search goes on from the best."""
