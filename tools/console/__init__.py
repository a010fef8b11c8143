"""How the tools talk: the terminal, the options that name a gather, and stages as text."""
