"""Performance tracking: did a change make gathers slower, and why; the sub-commands of `gathernest bench`."""
