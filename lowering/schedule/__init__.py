"""Schedules, and their choice: shapes of nests, machine model, prediction, heuristics, candidates."""
