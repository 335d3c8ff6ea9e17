"""What each layer of a pipeline stage keeps in the KV cache, as its class and its backend make it."""
