"""Schedules as a language: steps applied to a nest one by one, with loops as handles, rejections that show the nest."""
