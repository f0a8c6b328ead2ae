"""Train models, and convert them to GGUF and back. Only the modules loop, network and sft import
torch."""
