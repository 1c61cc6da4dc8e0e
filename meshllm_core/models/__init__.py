"""Model files: what a GGUF says, where it comes from, whether it fits."""
