"""How the code is laid out: which room imports which, and what stands in two places."""
