"""Train models, and convert them between Hugging Face's layout and GGUF. Only loop, network and sft import torch."""
