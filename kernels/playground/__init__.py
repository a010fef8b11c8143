"""Stages in the hands of a person: run one, compare it with the operator, step through it, and schedule it."""
