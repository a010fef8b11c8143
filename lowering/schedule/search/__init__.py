"""The search space of tuning: generators of schedules, a field at a time."""
