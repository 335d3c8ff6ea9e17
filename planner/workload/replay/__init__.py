"""Steps held against a Resolution: what they run in, what is padding, what missed, and why."""
