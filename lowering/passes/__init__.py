"""One pass a file: `tile-loops` is `TileLoops` in `schedule/tile_loops.py`; `registry` lists them all."""
