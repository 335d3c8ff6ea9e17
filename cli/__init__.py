"""The command line: each command parses, calls one function of cgplan, and prints."""
