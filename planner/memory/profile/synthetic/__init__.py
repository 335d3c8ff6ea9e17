"""A decoder made from a model's shape, with random weights."""
