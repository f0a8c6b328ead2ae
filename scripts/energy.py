"""Train the energy of proof search, where torch is: bash scripts/energy.sh, which finds that Python, says how."""

from labs.lean.energy_training import main

if __name__ == "__main__":
    main()
