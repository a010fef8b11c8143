"""Passes that make a loop nest of an operator, fold its bounds handling and erase its sizes."""
