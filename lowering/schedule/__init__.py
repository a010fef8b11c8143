"""Schedules, and how one is chosen: loop sizes, machine, heuristics, cost model, search space."""
