"""Mutated and hostile input for every way into cgplan: each case ends in an answer or in one clear error."""
