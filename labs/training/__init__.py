"""Models trained (network, loop, encode and sft import torch and are loaded where it trains), and converted between
Hugging Face's layout and GGUF without it."""
