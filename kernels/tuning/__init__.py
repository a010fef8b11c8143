"""The tuner: candidates, successive halving, and the records of the winners."""
