"""Shell commands and scripts: which vLLM servers they start."""
