"""The `meshllm` command: one writer to stdout, one to stderr."""
