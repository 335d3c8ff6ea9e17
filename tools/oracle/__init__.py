"""The oracle: what vLLM's own configuration code answers, asked on a machine without a GPU."""
