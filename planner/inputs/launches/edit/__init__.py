"""From changed tokens and settings back to the text of the file."""
