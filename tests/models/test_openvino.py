"""OpenVINO IR written by hand: every layer that is supported, and every way in which a file can be wrong."""

import numpy as np
import pytest

import gathernest as gn

RNG = np.random.default_rng(11)


def check(writer, inputs, wanted, check_stages):
    model = gn.load(writer.write())
    check_stages(model, inputs)
    got = model.run(inputs)
    assert list(got) == list(wanted)
    for name, array in wanted.items():
        assert (got[name].shape, got[name].dtype, got[name].tobytes()) == (array.shape, array.dtype, array.tobytes())
    return model


X = RNG.random((2, 5, 4), dtype=np.float32)


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    ("opset", "number", "bounds"), [("opset1", 1, "error"), ("opset7", 7, "error"), ("opset8", 8, "zero")]
)
def test_gather_of_every_version(ir, check_stages, version, opset, number, bounds):
    ir.version = version
    x, i = ir.parameter("x", "?,5,4"), ir.parameter("i", "3", "i32")
    ir.result(ir.layer("Gather", [x, i, ir.const(np.int64(1))], opset=opset, dims=[-1, 3, 4]))
    model = check(ir, {"x": X, "i": np.array([4, 0, 2], np.int32)}, {"y": X[:, [4, 0, 2]]}, check_stages)
    assert f'bounds {bounds} version "openvino.Gather-{number}"' in str(model)


@pytest.mark.parametrize("opset", ["opset1", "opset7"])
def test_versions_that_allow_no_negative_index_reject_it(ir, opset):
    x, i = ir.parameter("x", "5,4"), ir.parameter("i", "2", "i64")
    ir.result(ir.layer("Gather", [x, i, ir.const(np.int64(0))], opset=opset, name="pick", dims=[2, 4]))
    with pytest.raises(gn.BoundsError, match=r"node 'pick': index -1 at position \(1,\) of indices is negative"):
        gn.load(ir.write())(x=X[0], i=np.array([0, -1]))


def test_gather_8_gives_zeros_outside_and_wraps_negatives(ir, check_stages):
    x, i = ir.parameter("x", "5,4"), ir.const(np.array([-1, 5, 0]))
    ir.result(ir.layer("Gather", [x, i, ir.const(np.array([0]))], opset="opset8", dims=[3, 4]))
    wanted = np.stack([X[0, 4], np.zeros(4, np.float32), X[0, 0]])
    check(ir, {"x": X[0]}, {"y": wanted}, check_stages)


def reshaped_by_picked_sizes(ir, shape, picks, opset="opset8"):
    """Reshape x to those of its sizes that a constant gather picks."""
    x = ir.parameter("x", shape)
    sizes = ir.layer("ShapeOf", [x], opset="opset3", data='output_type="i64"', dims=[2])
    i, axis = ir.const(np.array(picks)), ir.const(np.int64(0))
    picked = ir.layer("Gather", [sizes, i, axis], opset=opset, name="pick", dims=[2])
    y = ir.layer("Reshape", [x, picked], data='special_zero="false"', name="to", dims=[-1, -1])
    ir.result(y)


def test_size_that_gather_8_takes_from_outside_is_0(ir, check_stages):
    reshaped_by_picked_sizes(ir, "0,3", [7, 1])
    check(ir, {"x": np.zeros((0, 3), np.float32)}, {"y": np.zeros((0, 3), np.float32)}, check_stages)


def test_sizes_that_do_not_fit_since_an_index_is_outside_are_shown(ir):
    reshaped_by_picked_sizes(ir, "2,3", [7, 1])
    with pytest.raises(gn.ModelError, match=r"node 'to' \(Reshape\): sizes \[0, 3\] do not fit the 6 elements"):
        gn.load(ir.write())


@pytest.mark.parametrize(("index", "message"), [(7, "index 7 at"), (-1, "index -1 at")])
def test_constant_index_outside_names_the_node_where_sizes_depend_on_it(ir, index, message):
    reshaped_by_picked_sizes(ir, "2,3", [0, index], "opset7")
    with pytest.raises(gn.BoundsError, match=rf"node 'pick': {message} position \(1,\) .* out of range \[0, 1\]"):
        gn.load(ir.write())


def test_gather_with_batch_dims(ir, check_stages):
    x, i = ir.parameter("x", "2,5,4"), ir.parameter("i", "2,3", "i64")
    axis = ir.const(np.int64(1))
    ir.result(ir.layer("Gather", [x, i, axis], opset="opset8", data='batch_dims="-1"', dims=[2, 3, 4]))
    indices = RNG.integers(-5, 5, (2, 3))
    check(ir, {"x": X, "i": indices}, {"y": np.take_along_axis(X, indices[..., None] % 5, 1)}, check_stages)


@pytest.mark.parametrize(("opset", "shape"), [("opset5", (10,)), ("opset8", (2, 5))])
def test_gather_nd_keeps_or_flattens_its_batch(ir, check_stages, opset, shape):
    x, i = ir.parameter("x", "2,5,4"), ir.parameter("i", "2,5,1", "i32")
    ir.result(ir.layer("GatherND", [x, i], opset=opset, data='batch_dims="2"', dims=shape))
    indices = RNG.integers(0, 4, (2, 5, 1)).astype(np.int32)
    wanted = np.take_along_axis(X, indices.astype(np.int64), 2).reshape(shape)
    check(ir, {"x": X, "i": indices}, {"y": wanted}, check_stages)


def test_gather_elements(ir, check_stages):
    x, i = ir.parameter("x", "2,5,4"), ir.parameter("i", "2,3,4", "i64")
    ir.result(ir.layer("GatherElements", [x, i], opset="opset6", data='axis="1"', dims=[2, 3, 4]))
    indices = RNG.integers(0, 5, (2, 3, 4))
    check(ir, {"x": X, "i": indices}, {"y": np.take_along_axis(X, indices, 1)}, check_stages)


def test_glue(ir, check_stages):
    x = ir.parameter("x", "?,5,4")
    sizes = ir.layer("ShapeOf", [x], opset="opset3", data='output_type="i32"', dims=[3])
    last = ir.layer("Gather", [sizes, ir.const(np.array([2])), ir.const(np.int64(0))], opset="opset8", dims=[1])
    wanted = ir.layer("Concat", [ir.const(np.array([-1], np.int32)), last], data='axis="0"', dims=[2])
    flat = ir.layer("Reshape", [x, wanted], data='special_zero="true"', dims=[-1, 4])
    more = ir.layer("Unsqueeze", [flat, ir.const(np.array([0, -1]))], dims=[1, -1, 4, 1])
    less = ir.layer("Squeeze", [more, ir.const(np.array([-1]))], dims=[1, -1, 4])
    ir.result(ir.layer("Convert", [less], data='destination_type="f16"', dims=[1, -1, 4]), "half")
    ir.result(ir.layer("ShapeOf", [flat], dims=[2]), "sizes")
    inputs = {"x": X}
    results = {"half": X.reshape(1, 10, 4).astype(np.float16), "sizes": np.array([10, 4])}
    check(ir, inputs, results, check_stages)


@pytest.mark.parametrize(("special", "shape"), [("true", (2, 20)), ("false", None)])
def test_reshape_reads_zero_as_special_zero_says(ir, special, shape):
    x = ir.parameter("x", "2,5,4")
    ir.result(
        ir.layer("Reshape", [x, ir.const(np.array([0, 20]))], name="r", data=f'special_zero="{special}"', dims=[-1, 20])
    )
    if shape is not None:
        assert gn.load(ir.write())(x=X)["y"].shape == shape
    else:
        with pytest.raises(gn.ModelError, match=r"node 'r' \(Reshape\): sizes \[0, 20\] do not fit the 40 elements"):
            gn.load(ir.write())


def test_squeeze_without_axes(ir, check_stages):
    x = ir.parameter("x", "1,5,1")
    ir.result(ir.layer("Squeeze", [x], dims=[5]))
    check(ir, {"x": X[:1, :, :1].copy()}, {"y": X[0, :, 0]}, check_stages)


def test_names_of_results_come_from_the_result_then_from_what_feeds_it(ir):
    x = ir.parameter("x", "2")
    y = ir.layer("Convert", [x], data='destination_type="f64"', dims=[2], names="a\\,b,c")
    ir.result(y, "first")
    ir.result(y, "second")
    ir.result(y, "third")
    ir.layers[-1] = ir.layers[-1].replace("<layer ", '<layer output_names="own" ')
    assert list(gn.load(ir.write()).outputs) == ["a,b", "c", "own"]


def small(ir):
    x = ir.parameter("x", "5,4")
    ir.result(ir.layer("Gather", [x, ir.const(np.array([1, 0])), ir.const(np.int64(0))], opset="opset8", dims=[2, 4]))
    return ir


def test_constant_without_elements_may_have_a_byte_of_padding(ir):
    x = ir.parameter("x", "5,4")
    empty = ir.const(np.zeros(0, np.int64))
    ir.result(ir.layer("Gather", [x, empty, ir.const(np.int64(0))], opset="opset8", dims=[0, 4]))
    path = ir.write()
    text = path.read_text()
    assert 'size="0"' in text
    path.write_text(text.replace('size="0"', 'size="1"'))
    (rows,) = gn.load(path)(np.zeros((5, 4), np.float32)).values()
    assert rows.shape == (0, 4)


@pytest.mark.parametrize("limit", ["nan", "low"])
def test_limit_of_clamp_that_is_no_number_is_rejected(ir, limit):
    ir.result(ir.layer("Clamp", [ir.parameter("x", "5", "i64")], data=f'min="{limit}" max="3"', dims=[5]))
    with pytest.raises(gn.ModelError, match=f"min must be a number, got '{limit}'"):
        gn.load(ir.write())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('version="11"', 'version="7"', "is an IR of version 7; 10 and 11 are supported"),
        ("<net ", "<graph ", "is not XML, or damaged"),
        ('id="0"', 'id="one"', "the id of a layer is 'one', and must be a whole number"),
        ('<layer id="1"', '<layer id="0"', "two layers have the id 0"),
        ('from-layer="0"', 'from-layer="77"', "has no layer 77 to join"),
        (
            'from-port="0" to-layer="3" to-port="0"',
            'from-port="9" to-layer="3" to-port="0"',
            "layer 'x' has no output port 9",
        ),
        ('to-layer="3" to-port="1"', 'to-layer="3" to-port="8"', "layer 'Gather_3' has no input port 8"),
        ('to-layer="3" to-port="1"', 'to-layer="3" to-port="0"', "another edge leads to that port already"),
        ('offset="0"', 'offset="-8"', "bytes -8 to 8 are not in it"),
        ('offset="0"', 'offset="9"', "has 24 bytes; bytes 9 to 25 are not in it"),
        ('offset="0"', f'offset="{"9" * 30}"', "offset is '9999"),
        ('size="16"', 'size="8"', "node 'Const_1' (Const): it has size 8, and shape [2] of int64 has 16 bytes"),
        ('shape="2"', 'shape="-2"', "node 'Const_1' (Const): its shape is '-2', and sizes are 0 or more"),
        ('shape="2"', f'shape="{2**40}"', "over the limit max_tensor_bytes=2147483648"),
        ('shape="5,4"', f'shape="{2**40},4"', "over the limit max_tensor_bytes=2147483648"),
        ('shape="5,4"', 'shape="5,-4"', "node 'x' (Parameter): its shape is '5,-4', and sizes are 0 or more"),
        ('shape="5,4"', f'shape="5,{-(2**63)}"', "and sizes are 0 or more"),
        ('shape="5,4"', 'shape="..."', "its rank is not known"),
        ('element_type="f32"', 'element_type="q78"', "element type 'q78' is not supported; boolean, i8"),
        ("<dim>2</dim><dim>4</dim>", "<dim>3</dim><dim>4</dim>", "its output is declared with shape [3, 4]"),
        ("<dim>2</dim><dim>4</dim>", "<dim>-5</dim>", "layer 'Gather_3' has dims [-5]"),
        (
            'type="Gather"',
            'type="Relu"',
            "not supported: Relu of opset8 (1 node 'Gather_3'); supported are Parameter (1)",
        ),
        ('version="opset8"', 'version="opset2"', "not supported: Gather of opset2 (1 node"),
        ('type="Result"', 'type="Sink"', "not supported: Sink of opset1 (1 node 'y'); supported are"),
        ('type="Gather"', 'type="Result"', "not supported: Result of opset8"),
        ("</net>", "", "is not XML, or damaged"),
    ],
)
def test_wrong_file_is_rejected(ir, old, new, message):
    path = small(ir).write()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(gn.ModelError) as raised:
        gn.load(path)
    assert message in str(raised.value)


def test_loose_port_is_rejected(ir):
    path = small(ir).write()
    text = path.read_text()
    edge = next(part for part in text.split("<edge ") if 'to-port="1"' in part).partition("/>")[0]
    path.write_text(text.replace(f"<edge {edge}/>", ""))
    with pytest.raises(gn.ModelError, match=r"layer 'Gather_3' \(Gather\) has nothing at its input port 1"):
        gn.load(path)


def test_cycle_is_rejected(ir):
    ir.layer("Convert", [(1, 1)], name="a", data='destination_type="f64"')
    ir.layer("Convert", [(0, 1)], name="b", data='destination_type="f32"')
    ir.result((1, 1))
    with pytest.raises(gn.ModelError, match="layers feed each other in a cycle: 'a' and 'b'"):
        gn.load(ir.write())


def test_layer_that_feeds_itself_is_rejected(ir):
    ir.layer("Convert", [(0, 1)], name="a", data='destination_type="f64"')
    with pytest.raises(gn.ModelError, match="layers feed each other in a cycle: 'a'"):
        gn.load(ir.write())


@pytest.mark.thorough
def test_long_chain_needs_no_deep_stack(ir):
    value = ir.parameter("x", "2")
    for _ in range(3000):
        value = ir.layer("Reshape", [value, ir.const(np.array([2]))], dims=[2])
    ir.result(value)
    ir.layers.reverse()
    model = gn.load(ir.write())
    assert model(x=np.array([1, 2], np.float32))["y"].tolist() == [1, 2]


def test_elements_in_other_places_say_nothing_of_a_layer(ir):
    """Files are indented, have notes (`rt_info`), and layers of other types have bodies of layers."""
    path = small(ir).write()
    notes = '<rt_info><port id="7"><dim>9</dim></port><data shape="9"/><edge/></rt_info>'
    text = path.read_text().replace("<input>", f"{notes}<body><layers><layer id='0'/></layers></body><input>")
    text = text.replace("</net>", f"<rt_info><edge/><layer/>{notes}</rt_info></net>")
    text = text.replace("><", ">\n\t<").replace("<dim>4</dim>", "<dim> <!-- four -->4\n</dim>")
    path.write_text(text)
    model = gn.load(path)
    assert str(model.inputs) == str(gn.load(small(type(ir)(ir.folder)).write()).inputs)
    assert model(x=X[0])["y"].tobytes() == X[0][[1, 0]].tobytes()


def test_missing_bin_is_rejected_where_it_is_needed(ir):
    path = small(ir).write()
    path.with_suffix(".bin").unlink()
    with pytest.raises(gn.ModelError, match=r"node 'Const_1' \(Const\): .*model.bin cannot be read: No such file"):
        gn.load(path)


BOMB = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize(
    "text",
    [
        f'<?xml version="1.0"?><!DOCTYPE net [<!ENTITY a0 "x">{BOMB}]><net version="11">&a9;</net>',
        '<?xml version="1.0"?><!DOCTYPE net SYSTEM "file:///etc/passwd"><net version="11"/>',
        '<?xml version="1.0"?><!DOCTYPE net [<!ENTITY e SYSTEM "file:///etc/passwd">]><net version="11">&e;</net>',
    ],
)
def test_entities_and_document_types_are_rejected(ir, text):
    with pytest.raises(gn.ModelError, match="has XML that is rejected in a model: DTDForbidden"):
        gn.load(ir.write(text))


@pytest.mark.parametrize("text", ["not xml", "<net", " ", "<net version='11'>" + "<a>" * 100, "<model/>"])
def test_what_is_no_model_is_rejected(ir, text):
    with pytest.raises(gn.ModelError, match=r"model\.xml"):
        gn.load(ir.write(text))


def test_deep_elements_are_rejected(ir):
    with pytest.raises(gn.ModelError, match="has elements 65 deep"):
        gn.load(ir.write("<net version='11'>" + "<a>" * 100 + "</a>" * 100 + "</net>"))


def test_file_over_the_limit_is_rejected_before_it_is_read(ir):
    with pytest.raises(
        gn.ModelError, match="over the limit max_file_bytes=100; raise it if the model is to be trusted"
    ):
        gn.load(small(ir).write(), max_file_bytes=100)


def test_bytes_that_are_damaged_anywhere_raise_nothing_else(ir):
    path = small(ir).write()
    text = path.read_bytes()
    rng = np.random.default_rng(0)
    rejected = 0
    for _ in range(300):
        damaged = bytearray(text)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        try:
            gn.load(path)
        except (gn.ModelError, gn.BoundsError):
            rejected += 1
    assert rejected > 100
