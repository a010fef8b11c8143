"""Kernels compiled for CPUs that this machine need not be: the vectors in their hot loops, read from the assembly."""

import collections
import re
from typing import Any

import llvmlite.binding as llvm
import pytest

from gathernest.kernels.kernel import compile as compile_kernel
from gathernest.kernels.runtime.compile import build_program
from gathernest.lowering.numba.compiler import compiled
from gathernest.lowering.numba.object_code import optimised

# CPUs by LLVM's name, with the bytes of a vector register that a copy uses.
X86 = {"x86-64-v3": 32, "x86-64-v4": 64, "znver4": 64, "sapphirerapids": 64}
ARM = {"neoverse-n1": 16, "neoverse-v1": 16}
CPUS = X86 | ARM
TRIPLES = dict.fromkeys(X86, "x86_64-unknown-linux-gnu") | dict.fromkeys(ARM, "aarch64-unknown-linux-gnu")
ROWS = "specialize-inner{bytes=64},vectorize-inner{lanes=16},prefetch{what=rows loop=indices ahead=16 locality=3}"
LISTED = (
    "owner-computes{owners=2 axis=axis},fuse-into-owners,"
    "tile-loops{loops=indices sizes=64},compact-indices{loop=indices_i},vectorize-lists{lanes=4}"
)
KERNELS = {
    "listed": ("1000xf32", {"operator": "gather_grad", "bounds": "unchecked", "schedule": LISTED}),
    "rows": ("1000x16xf32", {"bounds": "unchecked", "schedule": f"{ROWS},stream-stores"}),
    "long rows": ("1000x4096xf32", {"bounds": "unchecked", "schedule": "vectorize-inner{lanes=16}"}),
    "elements": ("1000xf32", {"schedule": "vectorize-inner{lanes=8}"}),
    "gathered": ("1000xf32", {"bounds": "unchecked", "schedule": "vectorize-inner{lanes=8},gather-lanes"}),
    "bytes": ("1000xi8", {"bounds": "unchecked", "schedule": "vectorize-inner{lanes=16}"}),
}
# Bytes of a register, by its first letters.
X86_REGISTERS = {"zmm": 64, "ymm": 32, "xmm": 16}
ARM_REGISTERS = {"q": 16, "d": 8, "x": 8, "s": 4, "w": 4}


@pytest.fixture(scope="module")
def functions() -> dict[str, Any]:
    """Each kernel before LLVM's passes, which depend on the CPU."""
    return {name: _function(data, **options) for name, (data, options) in KERNELS.items()}


def _function(data: str, operator: str = "gather", **options) -> Any:
    kernel = compile_kernel(operator, data, "1000xi64", **options)
    return compiled(build_program(kernel.plan), "<gathernest kernel>")


@pytest.fixture(scope="module", params=CPUS)
def cpu(request) -> str:
    """A CPU that LLVM makes code for."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        llvm.Target.from_triple(TRIPLES[request.param])
    except RuntimeError as error:
        pytest.skip(f"llvmlite is built without this target: {error}")
    return request.param


@pytest.fixture(scope="module")
def assembly(functions, cpu) -> dict[str, str]:
    """The assembly of each kernel for the CPU."""
    machine = llvm.Target.from_triple(TRIPLES[cpu]).create_target_machine(cpu, opt=3, reloc="pic")
    return {name: optimised(function, machine).get_asm_str() for name, function in functions.items()}


def loops_of(assembly: str) -> list[list[str]]:
    """Return the instructions of each innermost loop: from a label to the jump back to it."""
    lines = [line.strip() for line in assembly.splitlines()]
    lines = [line for line in lines if line.startswith(".LBB") or not line.startswith((".", "#", "//"))]
    places = {line.partition(":")[0]: place for place, line in enumerate(lines) if line.startswith(".LBB")}
    jumps = {}
    for place, line in enumerate(lines):
        target = re.search(r"\.LBB\w+$", line)
        if target and places.get(target[0], place) < place:
            jumps[places[target[0]]] = place
    innermost = {first: last for first, last in jumps.items() if not any(first < other <= last for other in jumps)}
    return [[line for line in lines[first:last] if not line.startswith(".")] for first, last in innermost.items()]


def stored(loop: list[str], cpu: str) -> collections.Counter[int]:
    """Return how many registers of each size a loop stores to memory, in bytes."""
    sizes: collections.Counter[int] = collections.Counter()
    for line in loop:
        mnemonic, _, operands = line.partition("\t")
        if cpu in ARM and re.match(r"stn?[pr]|stu", mnemonic):
            narrow = {"strb": 1, "strh": 2}.get(mnemonic)
            registers = re.findall(r"\b([a-z])\d+\b", operands.partition("[")[0])
            sizes.update(narrow or ARM_REGISTERS[register] for register in registers)
        elif cpu in X86 and re.match(r"v?mov|vextract", mnemonic) and operands.endswith(")"):
            vectors = re.findall(r"%(\wmm)\d", operands)
            sizes[X86_REGISTERS[vectors[0]] if vectors else {"b": 1, "w": 2, "l": 4, "q": 8}[mnemonic[-1]]] += 1
    return sizes


def sizes_in_copying_loops(text: str, cpu: str) -> list[set[int]]:
    """Return the sizes of the registers that each loop stores, of loops that store a vector or a row in a step."""
    found = [stored(loop, cpu) for loop in loops_of(text)]
    return [set(sizes) for sizes in found if sum(size * count for size, count in sizes.items()) >= 16]


@pytest.mark.thorough
@pytest.mark.draw(1)
def test_rows_copied_by_vectors_of_the_target(assembly, cpu):
    assert sizes_in_copying_loops(assembly["long rows"], cpu)[0] == {CPUS[cpu]}
    assert {CPUS[cpu]} in sizes_in_copying_loops(assembly["rows"], cpu)


@pytest.mark.draw(3)
def test_remainder_of_a_row_masked_where_the_processor_has_masks(assembly, cpu):
    text = assembly["long rows"]
    if cpu in X86:
        masked = re.findall(r"vmov\w+\t%[xyz]mm\d+, [^\n]*\(.*\) \{%k\d\}", text)
        assert bool(masked) == (cpu != "x86-64-v3")
    else:
        assert ("whilelo" in text) == (cpu == "neoverse-v1")


def test_each_row_prefetched_once_and_streamed(assembly, cpu):
    prefetch, stream = ("prefetcht0", "movntps") if cpu in X86 else ("prfm\tpldl1keep", "stnp")
    loops = loops_of(assembly["rows"])
    assert {any(stream in line for line in loop) for loop in loops} == {True, False}
    for loop in loops:
        row_bytes = sum(size * count for size, count in stored(loop, cpu).items())
        assert row_bytes == 64 * sum(prefetch in line for line in loop)
        streams = any(stream in line for line in loop)
        assert set(stored(loop, cpu)) == {16 if streams else CPUS[cpu]}


@pytest.mark.parametrize("name", ["elements", "bytes"])
def test_elements_with_an_index_each_stored_as_vectors(assembly, cpu, name):
    assert {16} in sizes_in_copying_loops(assembly[name], cpu)


def test_lanes_gathered_where_the_processor_has_avx512(assembly, cpu):
    assert ("\tvpgatherqd\t" in assembly["gathered"]) == (X86.get(cpu) == 64)


def test_four_listed_lanes_packed_by_one_permutation(assembly, cpu):
    """Positions of 64 bits and elements of 32, by the rows of a table; ARM loads each lane by its number."""
    listing = [
        loop for loop in loops_of(assembly["listed"]) if any("Lpacked" in line or "vpermi" in line for line in loop)
    ]
    permuted = [[line.split()[0] for line in loop if re.match(r"vperm(d|ilps)", line)] for loop in listing]
    assert permuted == ([["vpermd", "vpermilps"]] if cpu in X86 else [])


def test_indices_checked_in_vectors(assembly, cpu):
    vector = {"neoverse-n1": r"v\d+\.2d", "neoverse-v1": r"z\d+\.d"}.get(cpu, r"%[yz]mm\d")
    checking = [loop for loop in loops_of(assembly["elements"]) if not stored(loop, cpu)]
    assert any(re.search(vector, line) for loop in checking for line in loop)


def test_no_gather_calls_a_function(assembly):
    gathers = [text for name, text in assembly.items() if name != "listed"]  # a gradient is cleared by C's memset
    assert not re.findall(r"\t(?:call\w*|blr?)\t.*", "\n".join(gathers))


def test_no_kernel_has_an_intrinsic_of_one_processor(functions):
    text = "\n".join(function.library.get_llvm_str() for function in functions.values())
    declared = re.findall(r"^declare .*@([\w.]+)\(", text, flags=re.MULTILINE)
    assert "llvm.prefetch.p0" in declared
    assert not [name for name in declared if not name.startswith("llvm.") or name.split(".")[1] in ("x86", "aarch64")]
