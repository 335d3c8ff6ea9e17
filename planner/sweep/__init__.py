"""Grids of deployments: read, planned in parallel, kept as records, and the best of them.

`grid` and `options` say what a grid holds, `evaluate` what becomes of one deployment, `local` and `on_ray` where the
work is done, `pareto` which records are best. `grid_file` and `record_file` alone read and write files.
"""
