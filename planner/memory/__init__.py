"""The memory of one GPU: what each layer keeps in the KV cache, and how many blocks of it fit."""
