"""Other flags beside the sizes: the graph mode, max_num_seqs, the largest size, each with its own best list."""
