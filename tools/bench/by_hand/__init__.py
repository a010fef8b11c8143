"""Beside C written by hand: `asv_bench/by_hand.c`, compiled when it is needed, and the fastest of its variants."""
