"""Drawings of what the IR holds, as SVG text that stands alone or within a page: so far the loop nest."""
