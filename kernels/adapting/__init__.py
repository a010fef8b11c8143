"""Adapting while a program runs: calls that cost a second race other schedules, and what wins is recorded."""
