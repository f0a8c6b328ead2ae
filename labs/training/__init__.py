"""Train models, and convert them between Hugging Face's layout and GGUF. Only the modules that train import torch."""
