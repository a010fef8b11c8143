"""The knob `override_dir`: stages that a person edited, through to the compiled kernel, and never without the knob."""

import json
import os

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.errors import GathernestError
from gathernest.kernels.runtime.disk_cache import entry_folder

DATA, INDICES = np.arange(36, dtype=np.int32).reshape(9, 4), np.array([1, 0, 3, -1, 8])
WANTED = DATA[INDICES]
NEST = "05-lower-to-nest.mlir"
STORE = "memref.store %element"
TWICE = f"%twice = arith.addi %element, %element : i32\n{STORE.replace('element', 'twice')}"


@pytest.fixture(autouse=True)
def _own_cache(cache_dir, serial):
    """No kernel of these tests outlives them."""


@pytest.fixture
def dump(tmp_path):
    """The folder of a dump; `kernel` in it has the stages of the one kernel of these tests."""
    with gn.knobs.scope(dump_dir=tmp_path / "dump"):
        gn.gather(DATA, INDICES)
    return tmp_path / "dump"


@pytest.fixture
def kernel(dump):
    """The folder of its stages."""
    (folder,) = dump.iterdir()
    return folder


def edit(path, before=STORE, after=TWICE):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def gathered(dump):
    with gn.knobs.scope(override_dir=dump):
        return gn.gather(DATA, INDICES)


def test_edited_stage_decides_what_the_compiled_kernel_does(dump, kernel):
    edit(kernel / NEST)
    assert (gathered(dump) == 2 * WANTED).all()


@pytest.mark.thorough
def test_edited_stage_serves_other_sizes(dump, kernel):
    edit(kernel / NEST)
    with gn.knobs.scope(override_dir=dump):
        assert (gn.gather(DATA[:6, :3].copy(), [5, 2]) == 2 * DATA[[5, 2], :3]).all()


def test_interpreter_runs_the_edited_stage(dump, kernel):
    edit(kernel / NEST)
    with gn.knobs.scope(interpret=True):
        assert (gathered(dump) == 2 * WANTED).all()


@pytest.mark.thorough
def test_kernel_of_an_edited_stage_is_never_served_without_it(dump, kernel, forget, python):
    edit(kernel / NEST)
    code = """
        import json
        import numpy as np
        import gathernest as gn
        data = np.arange(36, dtype=np.int32).reshape(9, 4)
        print(json.dumps(gn.gather(data, np.array([1, 0, 3, -1, 8]))[:, 1].tolist()))
    """
    shared = {"GATHERNEST_CACHE_DIR": str(gn.knobs.cache_dir), "GATHERNEST_SCHEDULE": "tile-loops{loops=inner sizes=3}"}
    assert (gathered(dump) == 2 * WANTED).all()
    assert (gn.gather(DATA, INDICES) == WANTED).all()
    forget()
    assert (gn.gather(DATA, INDICES) == WANTED).all()
    with gn.knobs.scope(schedule=shared["GATHERNEST_SCHEDULE"], dump_dir=dump):
        gn.gather(DATA, INDICES)
    (other,) = (folder for folder in dump.iterdir() if folder != kernel and "edited" not in folder.name)
    edit(other / NEST)
    twice = python(code, GATHERNEST_OVERRIDE_DIR=str(dump), **shared)
    assert json.loads(twice) == (2 * WANTED[:, 1]).tolist()
    assert json.loads(python(code, **shared)) == WANTED[:, 1].tolist()


def test_key_and_disk_entry_have_the_digest_of_the_edit(dump, kernel):
    plain = gn.compile("gather", DATA, INDICES)
    keys = [plain.key]
    for after in (TWICE, TWICE.replace("addi", "muli")):
        edit(kernel / NEST, STORE, after)
        with gn.knobs.scope(override_dir=dump):
            keys.append(gn.compile("gather", DATA, INDICES).key)
        edit(kernel / NEST, after, STORE)
    assert len(set(keys)) == 3
    assert all(key.startswith(f"{plain.key}, edited stages ") for key in keys[1:])
    assert len({entry_folder(key, plain.pipeline) for key in keys}) == 3


def test_dump_that_nobody_edited_leaves_the_kernel(dump, kernel):
    with gn.knobs.scope(override_dir=dump):
        assert gn.compile("gather", DATA, INDICES).key == gn.compile("gather", DATA, INDICES).key
        assert "edited" not in gn.compile("gather", DATA, INDICES).key


def test_edit_between_two_calls_is_seen(dump, kernel):
    with gn.knobs.scope(override_dir=dump):
        results = [gn.gather(DATA, INDICES) for _ in range(3)]
        edit(kernel / NEST)
        results += [gn.gather(DATA, INDICES) for _ in range(3)]
    assert [int(result[0, 1]) for result in results] == [5, 5, 5, 10, 10, 10]


@pytest.mark.thorough
def test_edit_is_seen_where_the_environment_names_the_folder(python, tmp_path):
    code = """
        import os
        from pathlib import Path
        import numpy as np
        import gathernest as gn
        data, indices = np.arange(36, dtype=np.int32).reshape(9, 4), np.array([1, 0])
        with gn.knobs.scope(dump_dir="dump"):
            gn.gather(data, indices)
        os.environ["GATHERNEST_OVERRIDE_DIR"] = "dump"
        axis = 0
        values = [int(gn.gather(data, indices, axis)[0, 1]) for _ in range(4)]
        (path,) = Path("dump").glob("*/05-lower-to-nest.mlir")
        path.write_text(path.read_text().replace("%j], %valid", "%b], %valid"))
        values += [int(gn.gather(data, indices, axis)[0, 1]) for _ in range(4)]
        print(values)
    """
    got = python(code, GATHERNEST_CACHE_DIR=str(tmp_path / "cache"))
    assert got.strip() == "[5, 5, 5, 5, 4, 4, 4, 4]"


def test_stages_of_a_kernel_with_edits_are_dumped_beside_the_others(dump, kernel):
    edit(kernel / NEST)
    edited = (kernel / NEST).read_text()
    with gn.knobs.scope(dump_dir=dump):
        gathered(dump)
    (other,) = (folder for folder in dump.iterdir() if folder != kernel)
    assert other.name.startswith(f"{kernel.name}-edited-")
    assert "%twice" in (other / NEST).read_text()
    assert (kernel / NEST).read_text() == edited


def test_edited_stage_that_is_not_valid_names_its_place(dump, kernel):
    edit(kernel / NEST, "memref.load %indices[%b, %i]", "memref.load %indices[%b]")
    with pytest.raises(GathernestError, match=rf"{kernel / NEST}:\d+:\d+: expected an index for each dimension\n"):
        gathered(dump)


def test_edited_stage_that_is_not_lowered_any_more_is_named(dump, kernel):
    last = sorted(kernel.glob("*-cse.mlir"))[0]
    last.write_text((kernel / NEST).read_text().split("\n", 2)[2])
    with pytest.raises(GathernestError) as raised:
        gathered(dump)
    assert str(raised.value) == (
        f"{last}: with this edited stage the pipeline leaves gather.loop, gather.masked_load, gather.resolve, "
        "gather.yield, not loops"
    )


def test_pass_that_fails_behind_an_edited_stage_does_not_ask_for_a_report(dump, kernel, monkeypatch):
    from gathernest.lowering.passes.nest.fold_bounds import FoldBounds

    def crash(self, ctx, op):
        raise KeyError("x")

    monkeypatch.setattr(FoldBounds, "apply", crash)
    edit(kernel / NEST)
    with pytest.raises(
        GathernestError, match="fold-bounds failed: KeyError: 'x'; an edited stage may be why: what print"
    ):
        gathered(dump)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
@pytest.mark.parametrize("name", [NEST, "kernel.py"])
def test_dump_overwrites_plain_files_only(dump, name):
    (path,) = dump.glob(f"*/*{name}")
    path.unlink()
    os.mkfifo(path)
    with gn.knobs.scope(dump_dir=dump, always_compile=True), pytest.raises(GathernestError, match="is no plain file"):
        gn.gather(DATA, INDICES)
    assert path.is_fifo()
