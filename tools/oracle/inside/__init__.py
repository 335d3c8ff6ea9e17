"""The half of the oracle that runs in the release's own environment and imports vLLM."""
