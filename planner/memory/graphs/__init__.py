"""What CUDA graphs take of one GPU's memory, and what vLLM estimates for them."""
