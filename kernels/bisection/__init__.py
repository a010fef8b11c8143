"""`bisect`: the first pass after which a gather is wrong, by interpretation or by proof, with a small example."""
