"""Where steps are counted: logs, text of /metrics, files of the user's own; each gives a Gathered."""
