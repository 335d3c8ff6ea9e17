"""The on-device half: captures CUDA graphs on a GPU and measures what they take and what they gain.

`descriptors`, `sampling`, `extrapolate`, `speed` and `record` are arithmetic; `device`, `measure` and the engines drive
the GPU and import torch when they are called.
"""
