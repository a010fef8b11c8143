"""The thresholds of the heuristics that do not follow from the machine model, each with its measurement.

Unless something else is said they were measured on two cores of a Zen 4, as pairs of schedules in one process;
`docs/performance.md` has the figures.
"""

# the sizes of tiles: each makes a kernel of its own, so they are few
TILE_SIZES = (4096, 1024, 256, 64, 16, 4)
GRADIENT_PIECES = (4096, 1024, 256, 64, 16, 8)  # elements of a row
# A result of so many large tiles has large ones: a lower number leaves threads without a tile at the end of a launch,
# for 1/number of its time at most; a higher one takes more tiles than it has to. On one thread tiles of 64 to 4096
# rows of 256 B take the same time within the noise, 12 %. Not measured: the end of a launch, which needs quiet cores.
LARGE_TILES = 32
# of staged rows for each thread: one that comes late costs a quarter of a share, and fewer cost more of it (not
# measured: needs quiet cores). More stage the same indices again: 1024 rows of 2000 indices take the same time on one
# thread within 7 %, staged for 64 rows, for 16, ... or for 1.
TILES_A_THREAD = 4
STAGING_REPEATS = 4  # rows that use the indices of a tile, when these are staged: 2.3 times NumPy, not 2.1

# Rows of indices from which on each tile of a new result checks its own; shorter ones are checked by one loop over all,
# before the copy. Tiles of 160,000 int64 indices in rows of 8 take 1.05 times as long, of 12 1.25, of 16 1.02, of 32
# 1.01, of 64 0.98, of 128 0.96 (one thread, loaded). Rows of known size are checked by one loop over those of a tile.
MIN_FUSED_CHECKS = 32
# Threads check as many indices as one of them does in so many launches: the copy behind it wakes them anyway. Two
# threads of a Zen 5 gather 20,000 float32 of 16 KB in 5.9 us, and in 6.1 where one of them checks; 40,000 in 8.3 and
# 8.7, 100,000 in 17.4 and 20.5.
CHECKED_LAUNCHES = 4
# The least tile of checks. It takes 0.5 us, and to take a tile 0.03 (Zen 4); in tiles of 1024 to 16,384 the suite takes
# as long within the noise.
LEAST_CHECKED_TILE = 4096

# vectors
# Smaller results have no schedule, and so share a kernel. Calls with rows of 64 B, with vectors against without, in ns:
# 512 B 181 : 193, 1 KB 186 : 206, 2 KB 201 : 237, 4 KB 227 : 301.
MIN_VECTOR_WORK_BYTES = 2048
# of elements with an index each, inserted one by one: of uint8, 4 to 64 take 0.96 to 1.09 of the time of 16; of uint16,
# 4 and 8 take 0.90 to 0.99 of it, and 32 take 1.03 to 1.08
MOST_LANES = 16
# Wider vectors of them only have longer remainder loops: 16 lanes of float32 take 1.02 to 1.14 of the time of 8
# for 16 to 24 elements, and as long on a Xeon with AVX-512, where rows are worth vectors of 64 bytes.
MOST_LANE_BYTES = 32
# of elements with an index each that lie side by side, whose number is part of the code: 3 to 6 of them, batch by
# batch, take 0.50 to 0.62 of the time of a loop (Zen 4). Of short slices, whose lines need no prefetch, more: on Zen 5
# rows of 8 from 16 take 0.72 of it, of 10 from 10 0.68, of 16 from 64 0.91, and of 32 and 64 from 64 0.97.
FEW_KNOWN_ELEMENTS, MOST_KNOWN_ELEMENTS = 7, 64
# Vectors of 16 bytes of them, and of 4 to 8 elements: 8 float32 at a time take 1.15 to 1.19 times as long where rows
# have 8 to 12 elements, 16 uint8 1.28 times as long as 8 (Zen 5). Where all rows use the same indices, 4, 8 or 16 of
# them that fill a shorter vector are one: 4 take 0.5 to 0.74 of the time of single elements, and 0.6 to 0.8 of that of
# staged indices; 8 and 16, staged, 0.6 to 0.84 (Zen 4 with AVX2).
KNOWN_LANES, MOST_KNOWN_LANES = 4, 8
# A gathered lane takes so many times what a loaded one does, at most, where gathers are chosen: of elements that miss
# caches, and of all others. A gather of 8 lanes is fewer instructions, so that more lines are under way: of 1 and 2 MB
# 1.3 to 1.6 times as fast as loads, and 1.1 to 1.3 as loads that are prefetched, which are as fast from 4 MB and slow
# down less when others use the last cache; batches of 16 KB whose next one is prefetched 1.5; from L1 0.65 to 0.85, and
# 1.3 to 1.8 where the rows that are prefetched come from memory, with indices of their own: 256 of 1024 in 8192 rows.
# On a Zen 5, where elements of L3 gain nothing by prefetches, of 1.2 MB 1.4 times as fast as loads, of 4 and 12 MB 1.5
# (results and indices from memory).
MOST_GATHER_RATIO, LEAST_GATHER_RATIO = 1.5, 0.9
MOST_GATHERED_L2S = 2
MIN_LANES, MIN_STRIDED_VECTORS = 2, 2  # of rows that are not packed: one vector a row leaves only its remainder loop
UNROLLED_VECTORS = 16  # of a row without a loop: rows of 256 B 2.9 times NumPy, against 1.0 for a loop of elements
MOST_OVERLAPPING_ROW_BYTES = 2048  # with a last vector over the one before: 40 B rows 5.8 times a loop of elements

# non-temporal stores
LARGE_SHARE = 8  # an out of L3 / 8 is large beside data: with 5 MB of out of little data they cost a third
MIN_STREAMED_ROW_BYTES = 96  # of rows that end within a vector: shorter ones are as fast with cached stores
LONG_STREAMED_ROW_BYTES = 256  # of such rows, in vectors of 32 B; shorter ones in vectors of 16 B
MIN_PEELED_BYTES, MIN_NARROW_PEELED_BYTES = 512, 16 * 1024  # with single elements at both ends; narrower than 4 B

# Indices that are checked at a time where that is fused with the copy: fewer do not pay for the start of a vector loop.
# Rows of 600 by gather_elements in checks of 64 rows: 0.94 of the speed of a separate check. Of 8 to 64 int64 in rows
# of known size, checks of 256 are 1.0 to 1.55 times as fast as a separate one, and of 1024 0.9 to 1.36 times (Zen 5).
MIN_CHECKED = 256
# Of the indices that are checked at a time: from here on, those of the next time are all prefetched while these are
# used, and otherwise their first lines, since a processor fetches ahead within a page of 4 KB. int64, 900 a row: from
# 512 rows of 16 KB 1.39 times as fast, from 2048 such rows 1.08, from 4096 rows of 2 KB 1.41; 2000 a row 1.2 times,
# 1024 in columns 1.09; 256 to 512 a row 0.93 to 0.99. int32, 4096 from tables of 16 KB to 8 MB, 1.03 to 1.16 times.
# 4096 int64 fill L1: 0.86 to 0.95 (one thread, loaded).
MIN_PREFETCHED_INDEX_BYTES = 4097
# The same two where the innermost loop runs along the indices: each row or batch of 128 to 512 int64 checked by itself,
# with the next one prefetched, is 1.04 to 1.9 times as fast by gather_elements as with its first lines or with a tile
# checked at once, and batches from 16 KB 0.96 to 1.10 times; 80 a row 1.19 times, in L2 0.87; 256 int32 0.97 times, 512
# 1.17 times (Zen 5). In columns, which have the values above, 128 a row are 0.94 times as fast.
MIN_RUN_CHECKED, MIN_RUN_BYTES = 128, 1024
# Of a given result, the bits of the positions that the check stages for the copy, of indices of so many bytes, beside a
# check that stages nothing. 4,000,000 float32, float64 and int8 from 16 to 512 KB on two threads 1.2 to 1.45 times as
# fast, 1,000,000 1.05 to 1.3, 100,000, which L2 holds, 0.97 to 1.12, 10,000 0.97; gather_elements of 0.3 to 8 million
# 1.05 to 1.45, and on one thread 0.98 to 1.37 (Zen 4). By code for AVX2 0.93 to 1.5. int32 indices 0.80 to 1.04.
STAGED_BITS, STAGED_INDEX_BYTES = (8, 16), 8
# The same of bags, given or new, from so many indices on, int32 ones too. 16,000 to 1,000,000 indices of float32 rows
# of 16 B 1.35 to 1.7 times as fast, of 64 B 1.02 to 1.34, of 256 B 1.03 to 1.12, of 1 KB 0.92 to 1.19; 4,800 0.8 to
# 0.99 (Zen 4, one and two threads). In 32 bits, of larger tables, 0.84 to 1.13.
MIN_STAGED_BAG_INDICES = 8192
# The same of gradients, given or new, whose rows are no longer, of int64 indices that exceed L2: 400,000 to 4,000,000
# of rows of 8 to 64 B 1.01 to 1.29 times as fast, of those that owners read each 1.08 to 1.22, by 32 bits, too, but for
# tables that L3 holds: 0.89 to 1.07. Lists in vectors 0.84 to 1.3, parts of rows 0.5 to 0.98, batches 0.92 to 1.12.
STAGED_GRADIENT_BITS, MOST_STAGED_GRADIENT_ROW_BYTES = (8, 16, 32), 64

# prefetches
MIN_LINE_USES = 2  # of a slice that is prefetched whole: of random lines seven in eight are then read at all
MOST_COLUMN_READS = 2  # elements read for each in a column: with more, reading takes longer than fetching
MIN_SLICES, MOST_SLICE_LINES = 4, 4  # prefetched whole; and the most lines in a step
MIN_DISTANCES = 2  # trips of a loop over rows for each row that it is prefetched ahead: shorter loops end too soon
# Elements are prefetched a sixteenth of a loop and 1/512 of all ahead, at most: that share of the prefetches at the end
# is of no use, and as much at the beginning comes too late. 1563 of 62,500 in 64 rows, without a prefetch 257 us, 8
# elements ahead 422, 16 428, 32 333, 64 264 and 128 198; 100,000 of 4,000,000 330, 597, 533, 437, 299 and 217 (the 10th
# percentiles of CPU time, loaded).
MOST_SHARE_OF_A_LOOP, MOST_SHARE_OF_PLACES = 16, 512
LATER_ROW_SHARE = 2  # the row after the next is prefetched where data and out exceed a half of the last cache
MIN_NEXT_ROW_BYTES = 1024  # prefetched whole: shorter ones are as fast without
# 4096x1024: 1.8 times as fast with both as without, 1.5 with the next alone. Beside gathers the later one costs: 900 of
# 4096 in 4096 batches take 1.18 times as long with it; 256 of 1024 1.25 times as long as with one row 2 ahead.
NEXT_ROW, LATER_ROW = 1, 4
HARDWARE_PREFETCHED_ROW_BYTES = 2048  # the processor fetches longer rows of L3 soon enough: 4 KB rows 0.96 times
MOST_PREFETCHED_LINES = 64  # of a row; what `prefetch` takes
# Longer rows are prefetched by the loop that copies others, in vectors of 32 B. More lines than a core can wait for
# hold back the copy: rows of 2, 3, 4 and 16 KB from memory are 1.4, 1.5, 1.6 and 1.9 times as fast as with all lines
# before it, 4 KB from 12 MB 1.2 times; of 1 KB 1.0 times. With vectors of 64 B they take 1.0 to 1.3 times as long.
MIN_SWEPT_ROW_BYTES = 2048

# gradients
# Each reads every index, and fewer leave threads idle. The gradient of 10^6 rows of 16 B takes 12 ms of one thread for
# 2 owners, 78 for 16, 127 for 32 and 174 for 64: 4.9, 4.0 and 2.7 ms each. Of 6000 rows of 4 KB it takes 4.3, 5.0, 5.1
# and 5.3 ms. Not measured: more than 16 of them at once, which needs as many cores.
MOST_OWNERS = 16
MIN_POSITIONS_OF_AN_OWNER = 16  # of long rows: with fewer, the commonest rows are too much for one owner
# of a row for each owner: listing an index takes 0.7 ns, and adding so many bytes 2.8. The gradient of 10,000 rows of
# 4 KB by 40,000 indices takes 27 ms of processor time with 2 owners that have no lists, 15.9 with 20, 13.8 with 40 and
# 17.8 with 80.
LISTED_ROW_BYTES = 80
# Parts of a sort: to count and to place an index takes so many times as long as to sum a position's count of one part;
# fewer indices take less than two launches more.
SORT_TO_SUM, LEAST_SHARED_SORT, MOST_SORT_PARTS = 8, 4096, 16
# Single elements that owners list in vectors: of 8 indices where an instruction packs lanes, and otherwise of 4, packed
# by a table. 4,000,000 into a table of 4 MB, two threads: 5.9 ms where they are uniform, 9.9 on one thread; sorted 4.0
# and 4.2; all in one half of the table 4.8 and 7.8, and 6.7 where each owner has one part. Blocks of 16 KB and 128 KB
# are as fast. Tiles of 2048 and 4096 are, too; without the prefetch of the next tile 7.3. Each owner reads all indices:
# more owners have not been measured. In vectors of 4, with AVX2 alone, 0.82 to 0.88 of the time of one thread (loaded),
# and listed one by one 1.04 of it.
LISTED_WIDTHS, LISTED_LANES, LISTED_TILE, LISTING_VECTOR_BYTES = (4, 8), 8, 2048, 32
OWNED_BLOCK_BYTES, MOST_LISTING_OWNERS = 16 * 1024, 8
# A gradient is added to a buffer, and copied, where the indices have so many times as many bytes. Beside a check before
# 1,000,000 float32 are 1.13 to 1.16 times as fast with 8 times as many bytes of indices, 1.08 with 6, 0.98 to 1.0 with
# 4.4 and 0.85 to 0.97 with 3.2; by int32 0.95 with 4.5 (Zen 4). A buffer is no larger since the C library gives back
# more than 32 MB to the system at once, and each call would touch new pages.
LEAST_TIMES_STAGED_RESULT, MOST_STAGED_RESULT_BYTES = 6, 16 * 1024 * 1024
# The elements that threads copy to out at a time: 16 or 32 KB, and so a few hundred tiles of the smallest such result.
COPIED_TILE = 4096
# Slices are prefetched so many times as far as rows of the table: into L2, whose misses are more. Rows of 4 KB, 4 KB
# ahead 16.0 ms, 8 KB 13.8, 12 KB 14.6; into L1 24.3, without 23.1. Rows of 256 B, 2 KB ahead 2.92 ms, 4 KB 2.73, 8 KB
# 2.69, without 3.46 on one thread, and 3.7 for halves of rows on each of two threads.
SLICES_AHEAD = 2
# Where indices are sorted by position, longer rows are added in pieces, whose lines the core can wait for at once: the
# gradient of 10,000 rows of 4 KB by 40,000 indices takes 11.9 ms of processor time in pieces of 128 and 256 B, 12.9 of
# 512 B, 15.2 of 1 KB, and 20.8 with owners. On one thread rows of 256 B take 3.4 ms sorted and 4.6 not, of 4 KB 10.4
# and 21 (16.1 with 40 owners).
GROUPED_PIECE_BYTES = 256
GRADIENT_SHARE = 4  # a gradient is shared from four times the bytes of a gather: it reads what it writes

# instructions, counted in the assembly of kernels, of which a lane that is loaded has three: an index resolved; an
# element by itself; a vector; a line prefetched; a row besides its vectors, of any size and of a known one; one more
# index of a tuple made a place in data
LANE_UOPS, RESOLVE_UOPS, ELEMENT_UOPS, VECTOR_UOPS, PREFETCH_UOPS = 3, 4, 5, 4, 2
COMBINE_UOPS = 3
# a vector added to memory; an index listed (0.7 ns on a Zen 4), and sorted, without its three lines (3.5 ns with them);
# the count of a position in a part of a sort, which is summed (0.31 ns in C);
# a branch that is mispredicted, 15 cycles of 5 to 6 instructions; an addition of floats that waits for the store of the
# one before, 10 of these cycles, and in a register 3 (AMD's guide 57647: 7 are those of a load from a store)
ADDED_VECTOR_UOPS, LISTING_UOPS, SORT_UOPS, SUMMED_COUNT_UOPS, MISPREDICTED_UOPS = 3, 10, 16, 6, 80
ADDED_AGAIN_UOPS, SUMMED_AGAIN_UOPS = 54, 16
ROW_UOPS, SPECIALIZED_ROW_UOPS = 50, 8
# Lines that the processor prefetches behind a row which the next one read does not follow: 200,000 rows of 256 B take
# 2.8 ms of processor time on one thread, 6.0 by two owners and 6.4 in two halves; 20,000 rows of 4 KB 5.9 and 6.1.
# From L3 50,000 rows of 256 B take 1.5 ms on one thread, 2.5 by two owners and 1.8 in two halves.
FETCHED_BEHIND = 16
# What the last cache holds of ours, in rooms of a thread, of which there are 4 unless described. Of a table as large as
# the cache a chain of reads finds half of the lines there; with 2 to 3 the median error of predictions is 15 to 18 %.
LAST_CACHE_ROOMS = 2.5
LATE_LINES = 8  # of a row: the processor itself prefetches those behind
GATHERED = 0.65  # of the time of lines that are not prefetched, of those in the last cache
# How many times as long as an element of memory that nothing prefetches a row takes at such a place: rows of 16 B to
# 1 KB take 1.2 to 2.4 times as long as with prefetches, and fewer of their lines are under way at once.
ROWS_ALONE = 1.5

# Others are chosen where their predicted time is so many times less, and told in the reasons. The median error of what
# prefetches and staged indices are worth is 12 % over the suite, and of what stores are worth 6 %. With 1.05 in place
# of 1.07 for these, in three runs of the suite, one case changes: 0.94, 0.95 and 0.80 of its time.
LEAST_PREDICTED_GAIN, LEAST_GAIN_OF_STORES, TOLD_GAIN = 1.12, 1.05, 1.02
# The same of stores of bags whose prefetches have a loop of their own: the lines that cached stores read take miss
# buffers, too. Bags of 16 and 32 rows of 128 B to 1 KB, uniform and Zipf, take 1.0 to 1.24 times as long with cached
# stores, where 1.03 is predicted; of 64 0.98 to 1.04, predicted 1.01; of 128 0.96 to 1.02 (Zen 4, one and two threads).
# Under a steep Zipf (1.2), whose rows the caches hold, bags of 32 take 0.87 to 1.02 times as long.
LEAST_GAIN_OF_FISSIONED_STORES = 1.02
# Of leaving out the prefetches that the rules propose: rows that nothing prefetches take 2 to 3 times as long where the
# last cache turns out to be used by others. 200,000 rows of 32 B of 8 MB, predicted 1.26 times as fast without on a
# Zen 5, were 0.87 times as fast.
LEAST_GAIN_OF_NO_PREFETCH = 1.3

# what tuning tries beside the default
TRIED_TILES = (16, 64, 256, 1024, 4096, 16384)
LEAST_TRIED_TILE_BYTES, MOST_TRIED_TILE_BYTES = 8 * 1024, 1024 * 1024
TRIED_LISTED_TILES = (1024, 4096)
TRIED_SLICE_BYTES = 4096  # ahead
TRIED_CHECK_TILES = (1024, 16384)
TRIED_ROW_PIECE_BYTES = (1024, 4096, 16384)
TRIED_VECTOR_BYTES = (32, 64)
MOST_TRIED_ROW_BYTES = 1024  # of rows whose size becomes part of the code
TRIED_DISTANCES, MOST_TRIED_LINES = (16, 64), 16
MOST_STAGED = 16384  # staged indices
TRIED_FACTORS = (4,)

# reductions

# Bytes of a row whose sums are kept beside each other, and of the pieces of longer rows. 1 KB fills half of the
# registers of AVX-512; AVX2 keeps some of it in the first cache. Bags of 32 rows of 1 KB with AVX2: sums of the whole
# row 8.5 ms, of pieces of 256 and of 512 B 8.8 and 9.6, in memory 14.6; maxima 10.9, 20, 18 and 100. Rows of 4 KB:
# 18.3, 12.0, 13.0 and 16.0; maxima 23.9, 12.0, 12.0 and 31.0 (two threads of a Zen 4 without AVX-512).
MOST_SUMMED_BYTES, SUMMED_PIECE_BYTES = 1024, 256
# Shorter pieces read a bag too often: bags of 16 rows of 4 KB take, of the time of sums in the first cache, in pieces
# of 16 B 1.05 from 80 MB and 3.7 from 1.6 MB, of 32 B 0.72 and 1.9, of 64 B 0.59 and 1.1, of 96 B 0.6 and 0.85 (one
# thread of a Zen 4).
LEAST_PIECE_BYTES = 64
# Rows of memory, of more than a line and up to so many bytes, whose prefetches have a loop of their own in front of a
# bag of so many rows, where those between loads make rows so many times slower. Of 256 MB and more, bags of 32 of 256 B
# are 1.4 times as fast on two threads and 1.7 on one, of 128 1.6; bags of 16 of 512 B 1.17 and 1.17, of 192 B 1.4 and
# 1.1, of 128 B 1.15 and 0.94; of 16 and 64 of 1 KB 1.02 to 1.11 and 1.06 to 1.18; of 64 B 0.86 and 0.8 (a Zen 4).
LEAST_INTERLEAVED_TIMES, LEAST_FISSIONED_BAG, MOST_FISSIONED_ROW_BYTES = 1.2, 8, 1024
# Rows without prefetches into L1 between their loads then. On one thread these gain 1.1 times of 128 and 192 B, and
# lose as much of 256 B; of 512 B both are as fast, and of 1 KB it takes 1.05 to 1.15 times as long without.
LEAST_FAR_ALONE_BYTES, MOST_FAR_ALONE_BYTES = 256, 512
