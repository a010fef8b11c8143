"""Modules as a whole: built from a problem, parsed, verified, and printed as a loop nest; the values known in them."""
