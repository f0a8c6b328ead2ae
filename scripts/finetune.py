"""Train a model, where torch is: bash scripts/finetune.sh, which finds that Python, says how."""

from labs.training.finetune import main

if __name__ == "__main__":
    main()
