"""The passes, one a file, by stage: `tile-loops` is in `schedule/tile_loops.py`; `registry` lists them all."""
