"""Schedules that tuning recorded: their file, and which one a problem gets."""
