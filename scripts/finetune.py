"""Train a model with torch. scripts/finetune.sh finds its Python and runs this."""

from labs.training.finetune import main

if __name__ == "__main__":
    main()
