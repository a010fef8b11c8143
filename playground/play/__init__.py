"""The page `gathernest play`: change a gather, its schedule or a stage in a browser; see nest, bytes, code and time."""
