"""Train the energy of proof search, where torch is: .venv-train/bin/python scripts/energy.py --help"""

from labs.lean.energy_training import main

if __name__ == "__main__":
    main()
