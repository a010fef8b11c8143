"""The sub-commands of `gathernest`, one module each."""
