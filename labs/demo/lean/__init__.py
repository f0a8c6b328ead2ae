"""The embedded Lean policy and its lemmas: how they were made and trained."""
