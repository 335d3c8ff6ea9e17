"""Where one GPU's memory goes: weights, the peak of the profile run, what lies outside torch, and what is left."""
