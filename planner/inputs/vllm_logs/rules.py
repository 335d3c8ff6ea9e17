"""Pages of the codes that reading a log raises, for `cgplan explain`."""

from __future__ import annotations

from ...trace import Rule

LOG_UNREADABLE = Rule(
    "CG986",
    title="A log cannot be read.",
    why="Without the file there is nothing to hold against the plan.",
    example="cgplan logs ./nowhere.log: no such file or directory.",
    instead="Give a file that this user may read, or - and the log on standard input.",
    source="cgplan",
)

LOG_NO_TEXT = Rule(
    "CG987",
    title="A log is not text, or is packed in a way that is not unpacked.",
    why="gzip and zstd are unpacked while they are read; anything else would have to be guessed.",
    example="cgplan logs core.1234: binary data.",
    instead="Unpack it first, or give the text that vLLM wrote to its output.",
    source="cgplan",
)

ZSTD_MISSING = Rule(
    "CG988",
    title="A log is packed with zstd, and Python has nothing to unpack it.",
    why="Python unpacks zstd itself from 3.14; before, a package does.",
    example="cgplan logs server.log.zst under Python 3.12.",
    instead="pip install zstandard, or: zstd -dc server.log.zst | cgplan logs -",
    source="cgplan",
)
