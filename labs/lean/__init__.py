"""Search for proofs in Lean 4, check them, and train policies and energies on them."""
