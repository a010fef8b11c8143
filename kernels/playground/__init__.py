"""Stages in the hands of a person: run one, compare it with the operator, find the pass that broke it."""
