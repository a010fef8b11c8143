"""Whether non-temporal stores of vectors are aligned: by the remainder of an address that the code computes itself."""

import islpy as isl

from .integer_sets import names_of, number, parameter
from .meaning import Meaning
from .values import Undecided


def misaligned(meaning: Meaning) -> tuple[int, isl.Set] | None:
    """Return the alignment that a non-temporal store lacks, with the iterations in which it does; None where none does.

    The address of a store is that of another element, whose remainder the code knows, and a number of bytes behind it
    that is affine.

    Raises:
        Undecided: the code knows a remainder, and how far the store is from there is not affine.
    """
    for stream in meaning.streams:
        if stream.domain.is_empty():
            continue
        here = names_of(stream.domain)
        known = [
            (name, address)
            for name, (address, divisor) in meaning.remainders.items()
            if name in here and divisor % stream.alignment == 0
        ]
        if not known:
            return stream.alignment, stream.domain
        apart = [(name, stream.address.plus(address, -1).affine()) for name, address in known]
        wrong = [
            stream.domain.intersect(
                parameter(name).add(distance).mod_val(isl.Val(stream.alignment)).ne_set(number(0))
            ).intersect(meaning.context)
            for name, distance in apart
            if distance is not None
        ]
        if any(bad.is_empty() for bad in wrong):
            continue
        others = set(meaning.wobbling) - set(meaning.remainders)
        if not wrong or others & set(here):
            raise Undecided(
                "whether a non-temporal store is aligned, since its distance from a known address is not affine"
            )
        return stream.alignment, wrong[0]
    return None
