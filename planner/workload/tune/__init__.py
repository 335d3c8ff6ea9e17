"""The choice for a mixture: all of it together, its findings and its document."""
