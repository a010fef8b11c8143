"""What `gathernest run` and `warm` share about models: inputs at random, and the same model in other runtimes."""
