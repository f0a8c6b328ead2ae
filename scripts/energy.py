"""Train the energy of proof search, where torch is (labs/lean/energy_training.py says how)."""

from labs.lean.energy_training import main

if __name__ == "__main__":
    main()
