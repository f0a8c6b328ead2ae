"""Train the energy model of proof search with torch. labs/lean/energy_training.py explains the
training."""

from labs.lean.energy_training import main

if __name__ == "__main__":
    main()
