"""The tuner: candidates raced against each other, and the records of the winners."""
