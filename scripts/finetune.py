"""Train a model: .venv-train/bin/python -m scripts.finetune --help"""

from core.training.finetune import main

if __name__ == "__main__":
    main()
