"""The constants of the choice and the prediction of schedules that do not follow from the machine model.

Each has one comment: its meaning, unit and effect. `docs/performance.md` and `docs/measurements` have the figures. A
constant without which no choice for the suite takes more than 5 % longer, predicted or measured, is not here.
"""

# Tile sizes, in iterations: each makes a kernel of its own, so they are few.
TILE_SIZES = (4096, 1024, 256, 64, 16, 4)
# Use the large tile size only if the result has at least this many such tiles; fewer leave threads idle at the end.
LARGE_TILES = 32
# Stage indices in at least this many tiles for each thread, so that a late thread costs a small share of the time.
TILES_A_THREAD = 4

# Check the indices of a new result tile by tile only if a row has at least this many; shorter loops do not pay.
MIN_FUSED_CHECKS = 32
# Share the check among threads only if one thread takes this many launch times for it.
CHECKED_LAUNCHES = 4
# Check at least this many indices at a time in front of the copy; fewer do not pay for the start of a vector loop.
MIN_CHECKED = 256
# The constant above where the innermost loop runs along the indices: then rows of fewer indices are worth a check.
MIN_RUN_CHECKED = 128
# Stage positions of these bits in the check, of indices of this many bytes; the copy then reads less, and resolves
# none.
STAGED_BITS, STAGED_INDEX_BYTES = (8, 16), 8
# Stage the positions of bags from this many indices on; the check of fewer takes longer than it saves.
MIN_STAGED_BAG_INDICES = 8192
# Add a gradient to a buffer of at most this many bytes, and copy it; the C library gives a larger one back to the
# system after each call.
MOST_STAGED_RESULT_BYTES = 16 * 1024 * 1024

# Use no schedule for results of fewer bytes: no pass pays, and they share a kernel.
MIN_VECTOR_WORK_BYTES = 2048
# Use vectors of at most this many bytes, and lanes, for elements with an index each; wider ones have longer remainders.
MOST_LANE_BYTES, MOST_LANES = 32, 16
# Copy up to this many elements of a short slice without a loop, in vectors of this many lanes; of any slice fewer than
# two vectors.
MOST_KNOWN_ELEMENTS, KNOWN_LANES = 64, 4
# Copy rows of at most this many vectors without a loop.
UNROLLED_VECTORS = 16
# Longer rows, in bytes, end with single elements and not with an overlapping vector, and prefetch along with the copy.
LONG_ROW_BYTES = 2048
# Write rows that end within a vector, and runs with single elements at both ends, by non-temporal stores from this many
# bytes on.
MIN_STREAMED_ROW_BYTES, MIN_PEELED_BYTES = 96, 512

# Prefetch elements at most this part of a loop ahead: the prefetches at its end are of no use.
MOST_SHARE_OF_A_LOOP = 16
# Prefetch the next row of data whole from this many bytes on, and the row this many ahead into L2 where this many times
# all bytes exceed the last cache.
MIN_NEXT_ROW_BYTES, LATER_ROW, LATER_ROW_SHARE = 1024, 4, 2

# Sort in parts only if positions are this many times fewer than indices; each part counts all positions.
SORT_TO_SUM = 8
# List the indices of single elements in tiles of this many.
LISTED_TILE = 2048
# Prefetch the slices of grad this many times as far ahead as rows.
SLICES_AHEAD = 2
# Add longer rows in registers in pieces of this many bytes: all of sorted indices, and of bags those beyond the most.
GROUPED_PIECE_BYTES, MOST_SUMMED_BYTES = 256, 1024
# Prefetch rows of a bag beyond this many bytes into L1, too, where those into L2 have a loop of their own.
MOST_FAR_ALONE_BYTES = 512

# Instructions, counted in assembly: a lane loaded, an index resolved or a vector moved, a line prefetched, and a row
# besides its vectors.
LANE_UOPS, VECTOR_UOPS, PREFETCH_UOPS, ROW_UOPS = 3, 4, 2, 8
# Cost of a mispredicted branch, in instructions.
MISPREDICTED_UOPS = 80
# Lines that a processor fetches in vain behind a row that the next one read does not follow.
FETCHED_BEHIND = 16
# The part of the last cache that counts as ours, in rooms of a thread.
LAST_CACHE_ROOMS = 2.5
# Cost of lines that gather instructions read, relative to those of loads, where the last cache holds them.
GATHERED = 0.65
# Cost of a row that is read without a prefetch, relative to a single element.
ROWS_ALONE = 1.5

# Take another schedule than a plainer one only if its predicted time is this many times less: a way to share a
# gradient, or a prefetch of what the last cache holds; and non-temporal stores of a gradient or of bags.
LEAST_PREDICTED_GAIN, LEAST_GAIN_OF_STORES = 1.12, 1.05
