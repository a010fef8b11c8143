"""Passes that turn an operator into a loop nest, fold its bounds handling and erase its sizes."""
