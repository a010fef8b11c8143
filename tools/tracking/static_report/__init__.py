"""The static kernel report: what every kernel of the suite is compiled to, and what explains a difference; no clock."""
