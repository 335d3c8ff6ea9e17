"""From what each layer keeps to blocks, tokens and concurrency of the KV cache."""
