"""Schedules, and their choice: loop sizes, machine model, heuristics, cost model, search space, traffic."""
