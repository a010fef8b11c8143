"""The thresholds of the heuristics that do not follow from the machine model, each with its measurement.

Unless something else is said they were measured on two cores of a Zen 4, as pairs of schedules in one process;
`docs/performance.md` has the figures.
"""

# the sizes of tiles: each makes a kernel of its own, so they are few
TILE_SIZES = (4096, 1024, 256, 64, 16, 4)
GRADIENT_PIECES = (4096, 1024, 256, 64, 16, 8)  # elements of a row
LARGE_TILES = 32  # a result of so many large tiles has large ones; fewer would leave threads idle; not measured
STAGING_REPEATS = 4  # rows that use the indices of a tile, when these are staged: 2.3 times NumPy, not 2.1

# vectors
MIN_VECTOR_WORK_BYTES = 2048  # smaller results take as long as their call; not measured
MOST_LANES = 16  # of elements with an index each, inserted one by one; not measured
UNROLLED_VECTORS = 16  # of a row without a loop: rows of 256 B 2.9 times NumPy, against 1.0 for a loop of elements
MOST_OVERLAPPING_ROW_BYTES = 2048  # with a last vector over the one before: 40 B rows 5.8 times a loop of elements

# non-temporal stores
LARGE_SHARE = 8  # an out of L3 / 8 is large beside data: with 5 MB of out of little data they cost a third
MIN_STREAMED_ROW_BYTES = 96  # of rows that end within a vector: shorter ones are as fast with cached stores
LONG_STREAMED_ROW_BYTES = 256  # of such rows, in vectors of 32 B; shorter ones in vectors of 16 B
MIN_PEELED_BYTES, MIN_NARROW_PEELED_BYTES = 512, 16 * 1024  # with single elements at both ends; narrower than 4 B

# prefetches
MIN_LINE_USES = 2  # of a slice that is prefetched whole: of random lines seven in eight are then read at all
MOST_COLUMN_READS = 2  # elements read for each in a column: with more, reading takes longer than fetching
MIN_SLICES, MOST_SLICE_LINES = 4, 4  # prefetched whole; and the most lines in a step
MIN_NEXT_ROW_BYTES = 1024  # prefetched whole: shorter ones are as fast without
NEXT_ROW, LATER_ROW = 1, 4  # 4096x1024: 1.8 times as fast with both as without, 1.5 with the next alone
HARDWARE_PREFETCHED_ROW_BYTES = 2048  # the processor fetches longer rows of L3 soon enough: 4 KB rows 0.96 times
MOST_PREFETCHED_LINES = 64  # of a row; what `prefetch-indices` takes

# gradients
MIN_OWNERS = 4  # of short rows that share lines: fewer are no faster than one thread
MOST_OWNERS = 16  # each reads every index; not measured
MIN_POSITIONS_OF_AN_OWNER = 16  # of long rows: with fewer, the commonest rows are too much for one owner
GRADIENT_SHARE = 4  # a gradient is shared from four times the bytes of a gather: it reads what it writes

# instructions of one thread, in nanoseconds: an index checked (vectors) and resolved; an element alone; a lane whose
# index is not staged; a vector of a row; a row besides its vectors, of any size and of a known one
CHECK_NS, RESOLVE_NS = 0.15, 0.35
ELEMENT_NS, UNRESOLVED_LANE_NS, VECTOR_NS = 0.5, 0.25, 0.3
ROW_NS, SPECIALIZED_ROW_NS = 4.0, 1.5
# how many times as long a random line takes without a prefetch, and with one into the first cache alone
UNPREFETCHED, NEAR_PREFETCHED = 2.0, 1.0 / 0.65

# what tuning tries beside the default
TRIED_TILES = (16, 64, 256, 1024, 4096, 16384)
LEAST_TRIED_TILE_BYTES, MOST_TRIED_TILE_BYTES = 8 * 1024, 1024 * 1024
TRIED_CHECK_TILES = (1024, 16384)
TRIED_ROW_PIECE_BYTES = (1024, 4096, 16384)
TRIED_VECTOR_BYTES = (32, 64)
MOST_TRIED_ROW_BYTES = 1024  # of rows whose size becomes part of the code
TRIED_DISTANCES, MOST_TRIED_LINES = (16, 64), 16
MOST_STAGED = 16384  # staged indices
TRIED_FACTORS = (4,)
