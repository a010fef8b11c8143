"""The report: every level of one gather in one HTML file, with its provenance, drawings and times."""
