"""Train the energy of proof search with torch (see labs/lean/energy_training.py)."""

from labs.lean.energy_training import main

if __name__ == "__main__":
    main()
