"""Train a model with torch. scripts/finetune.sh runs this file with a Python that has torch."""

from labs.training.finetune import main

if __name__ == "__main__":
    main()
