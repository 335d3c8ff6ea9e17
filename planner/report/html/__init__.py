"""`cgplan report`: a deployment as one page of HTML, and the same as Markdown.

A section is a function from data to blocks (blocks.py); page.py and markdown.py write the same blocks, so that both
say the same numbers. Only charts.py needs the library of the extra `report`.
"""
