"""The passes, by stage: `registry` lists them all, with the module of each."""
