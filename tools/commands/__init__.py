"""The sub-commands of `gathernest`, one a module."""
