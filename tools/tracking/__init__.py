"""Performance tracking: did a change make gathers slower, and why; the sub-commands of `gathernest bench`."""

# The committed report of compiled kernels, and its machine: most x86-64 CPUs can run the code, and threads share work.
COMMITTED = "asv_bench/static.json"
TARGET, MACHINE, THREADS = "x86-64-v3", "avx2", 4
