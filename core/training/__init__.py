"""Weights converted: between Hugging Face's layout and GGUF. torch is never imported here."""
